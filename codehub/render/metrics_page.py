"""`docs/reference/metrics.md`, made from the metrics themselves.

`python -m codehub.render.metrics_page` prints it, and a test compares the page with that.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from codehub.telemetry.instruments import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codehub.telemetry.metric import Metric

INTRODUCTION = """# Metrics

What [Prometheus gets](../how-to/monitor.md) from each process. No label has the name of a workspace
or a person, so the number of series does not grow with the hub.

A process shows what it does itself. Figures marked *leader* are there only in the coordinator that
leads; take the `max` of them. Counters begin at 0 with the process; take the `sum` of their `rate`.
Histograms have `_bucket`, `_sum` and `_count`.

| metric | kind | labels | meaning |
|---|---|---|---|
"""


def metrics_page() -> str:
    """The whole page."""
    return INTRODUCTION + "".join(_row(each) for each in CATALOGUE)


def _row(metric: Metric) -> str:
    kind = f"{metric.kind}, leader" if metric.leader else metric.kind
    labels = "<br>".join(_label(name, values) for name, values in metric.labels.items())
    return f"| `{metric.name}` | {kind} | {labels or '–'} | {metric.help} |\n"


def _label(name: str, values: Iterable[str]) -> str:
    known = ", ".join(f"`{each}`" for each in values)
    return f"`{name}`: {known}" if known else f"`{name}`"


if __name__ == "__main__":
    sys.stdout.write(metrics_page())
