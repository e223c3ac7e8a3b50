"""The proxy's own counts: plain numbers on an object, made into metrics when somebody asks.

A forwarded request has a few dozen microseconds in all, and a counter of the library costs one of
them. Here it is one addition.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric as Family

    from codehub.telemetry.metric import Instruments, Metric

STATUSES: Final = ("1xx", "2xx", "3xx", "4xx", "5xx")


class Answered(StrEnum):
    """Who answered a request."""

    FORWARDED = "forwarded"
    """A workspace."""
    PAGE = "page"
    """The hub, in place of a workspace: it sleeps, starts, is held, or is not there."""
    OWN = "own"
    """The hub, for itself: login, dashboard, API, health."""
    REFUSED = "refused"
    """Nobody: not logged in, from another site, malformed, or too much."""


class Waking(StrEnum):
    """What came of a visit that asked for a workspace."""

    ASKED = "asked"
    LIMITED = "limited"
    REFUSED = "refused"


class Traffic:
    """What passed in this process so far, and what is open now."""

    __slots__ = (
        *("activity_failures", "activity_fallbacks", "connections", "connections_refused"),
        *("forwarded", "requests", "unanswered", "wakes", "websockets"),
    )

    def __init__(self) -> None:
        self.requests = {each: [0] * 10 for each in Answered}
        """By the first digit of the status."""
        self.forwarded = self.requests[Answered.FORWARDED]
        self.wakes = dict.fromkeys(Waking, 0)
        self.unanswered = 0
        self.connections = 0
        self.connections_refused = 0
        self.websockets = 0
        self.activity_failures = 0
        self.activity_fallbacks = 0


class TrafficMetrics:
    """Shows the counts of one process."""

    def __init__(self, traffic: Traffic, instruments: Instruments) -> None:
        self._traffic = traffic
        note = instruments.note
        self._requests = note(
            "codehub_proxy_requests_total",
            "counter",
            "Requests that the proxy answered, by who answered and the status.",
            **{"class": Answered, "status": STATUSES},
        )
        self._wakes = note(
            "codehub_proxy_wakes_total",
            "counter",
            "Visits to sleeping workspaces: asked for it, kept by a limit, or refused.",
            result=Waking,
        )
        self._numbers = {
            "unanswered": note(
                "codehub_proxy_unanswered_total",
                "counter",
                "Requests for which a workspace, or the web application, gave no answer.",
            ),
            "connections_refused": note(
                "codehub_proxy_connections_refused_total",
                "counter",
                "Connections that were one too many, in all or from one address.",
            ),
            "activity_failures": note(
                "codehub_activity_flush_failures_total",
                "counter",
                "Flushes of activity that reached neither Redis nor Postgres; it is kept.",
            ),
            "activity_fallbacks": note(
                "codehub_activity_fallbacks_total",
                "counter",
                "Flushes of activity that went to Postgres because Redis was away.",
            ),
            "connections": note(
                "codehub_proxy_connections", "gauge", "Open connections, WebSockets among them."
            ),
            "websockets": note("codehub_proxy_websockets", "gauge", "Open WebSockets."),
        }
        instruments.registry.register(self)

    def collect(self) -> Iterator[Family]:
        requests = _counter(self._requests)
        for who, counts in self._traffic.requests.items():
            for digit, status in enumerate(STATUSES, start=1):
                requests.add_metric([who, status], counts[digit])
        yield requests
        wakes = _counter(self._wakes)
        for result, count in self._traffic.wakes.items():
            wakes.add_metric([result], count)
        yield wakes
        for name, metric in self._numbers.items():
            family = _counter(metric) if metric.kind == "counter" else _gauge(metric)
            family.add_metric([], getattr(self._traffic, name))
            yield family


def _counter(metric: Metric) -> CounterMetricFamily:
    return CounterMetricFamily(metric.name, metric.help, labels=list(metric.labels))


def _gauge(metric: Metric) -> GaugeMetricFamily:
    return GaugeMetricFamily(metric.name, metric.help, labels=list(metric.labels))
