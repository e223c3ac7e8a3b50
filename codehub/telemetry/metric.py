"""Kinds of metrics, each noted in a catalogue as it is made: the reference page is made from that.

Labels are given with all values that they can have. So each series is there from the start, at
nought, and the first failure is seen as a rise; and no name of a person or workspace gets in.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client.core import Metric as Family

Kind = Literal["counter", "gauge", "histogram"]

# When a series began is of no use to anybody here, and would be one more of each.
disable_created_metrics()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric as it is shown; `labels` has every value that is known beforehand.

    `leader` says that only the process that leads shows it.
    """

    name: str
    kind: Kind
    help: str
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    leader: bool = False

    @property
    def series(self) -> tuple[str, ...]:
        """The names under which it can be asked for."""
        if self.kind == "histogram":
            return tuple(f"{self.name}_{each}" for each in ("bucket", "sum", "count"))
        return (self.name,)

    def combinations(self) -> Iterator[tuple[str, ...]]:
        return product(*self.labels.values())


class Reading:
    """A gauge that only a leader can read; it says nothing as long as nothing is known."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._values: dict[tuple[str, ...], Callable[[], float]] = {}

    def set(self, value: float, *labels: str) -> None:
        self._values[labels] = lambda: value

    def since(self, seconds: float = 0.0) -> None:
        """So many seconds have passed by now; from here on it grows by itself."""
        moment = monotonic() - seconds
        self._values[()] = lambda: monotonic() - moment

    def forget(self) -> None:
        self._values.clear()

    def family(self, *, known: bool) -> GaugeMetricFamily:
        family = GaugeMetricFamily(
            self.metric.name, self.metric.help, labels=list(self.metric.labels)
        )
        for labels, value in self._values.items() if known else ():
            family.add_metric(labels, value())
        return family


class Instruments:
    """A registry of its own, and the catalogue of what is in it."""

    def __init__(self) -> None:
        self.registry: Final = CollectorRegistry()
        self.catalogue: list[Metric] = []
        self.leads = False
        self._readings: list[Reading] = []
        self.registry.register(self)

    def counter(self, name: str, text: str, /, **labels: Iterable[str]) -> Counter:
        metric = self.note(name, "counter", text, **labels)
        made = Counter(name, text, list(metric.labels), registry=self.registry)
        for each in metric.combinations() if metric.labels else ():
            made.labels(*each)
        return made

    def histogram(
        self, name: str, text: str, buckets: tuple[float, ...], /, **labels: Iterable[str]
    ) -> Histogram:
        metric = self.note(name, "histogram", text, **labels)
        made = Histogram(name, text, list(metric.labels), buckets=buckets, registry=self.registry)
        for each in metric.combinations() if metric.labels else ():
            made.labels(*each)
        return made

    def gauge(self, name: str, text: str) -> Gauge:
        self.note(name, "gauge", text)
        return Gauge(name, text, registry=self.registry)

    def reading(self, name: str, text: str, /, **labels: Iterable[str]) -> Reading:
        metric = replace(self.note(name, "gauge", text, **labels), leader=True)
        self.catalogue[-1] = metric
        made = Reading(metric)
        self._readings.append(made)
        return made

    def note(self, name: str, kind: Kind, text: str, /, **labels: Iterable[str]) -> Metric:
        """Into the catalogue, for what a collector of its own shows."""
        metric = Metric(name, kind, text, {key: tuple(values) for key, values in labels.items()})
        self.catalogue.append(metric)
        return metric

    def forget(self) -> None:
        """Begin anew with what only a leader knows: a former term's figures are not this one's."""
        for each in self._readings:
            each.forget()

    def collect(self) -> Iterator[Family]:
        """The readings; those who do not lead would tell of a world long gone."""
        for each in self._readings:
            yield each.family(known=self.leads)
