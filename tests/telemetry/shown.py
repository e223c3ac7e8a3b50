"""What the metrics show, read as Prometheus reads it, and what the log says, as a store does."""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from prometheus_client.parser import text_string_to_metric_families

from codehub.telemetry.exposition import render
from codehub.telemetry.instruments import begin_term, end_term

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import StringIO

PATIENCE = 60


def parse(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample by its name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def shown(name: str, **labels: str) -> float | None:
    """The value that is shown now; None where none is."""
    return parse(render().decode()).get((name, frozenset(labels.items())))


class Rises:
    """How much each counter has risen since this was made: others of this process count too."""

    def __init__(self) -> None:
        self._before = parse(render().decode())

    def of(self, name: str, **labels: str) -> float:
        key = (name, frozenset(labels.items()))
        return round(parse(render().decode())[key] - self._before.get(key, 0.0), 6)


@contextmanager
def leading(epoch: int = 1) -> Iterator[None]:
    """This process leads."""
    begin_term(epoch)
    try:
        yield
    finally:
        end_term()


def lines(stream: StringIO) -> list[dict[str, Any]]:
    """What was logged as JSON."""
    return [json.loads(each) for each in stream.getvalue().splitlines()]


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
