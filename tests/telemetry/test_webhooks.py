"""What becomes of messages to webhooks, as the metrics tell of it; database and receiver are real.

What was counted is held against the rows: a number that does not fit them would mislead.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from anyio import to_thread

from codehub.telemetry.instruments import CATALOGUE
from tests.integration.receiver import receiving
from tests.integration.webhook_world import fail, webhook_world
from tests.telemetry.shown import Rises

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.receiver import Receiver

pytestmark = pytest.mark.anyio

NAME = "codehub_webhook_deliveries_total"
HOUR = timedelta(hours=1)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


def told(rises: Rises) -> dict[str, float]:
    """What rose, by result."""
    (metric,) = (each for each in CATALOGUE if each.name == NAME)
    found = {each: rises.of(NAME, result=each) for each in metric.labels["result"]}
    return {result: count for result, count in found.items() if count}


async def test_what_fails_and_then_arrives(database_url: str, receiver: Receiver) -> None:
    receiver.answer(500, 503, 204)
    rises = Rises()
    async with webhook_world(database_url, receiver.url()) as world:
        await fail(world.conn)
        for _ in range(3):
            await world.tick()
            await world.pass_time(HOUR)
        assert (await world.delivery())["delivered_at"] is not None
    assert told(rises) == {"retried": 2, "delivered": 1}


async def test_what_is_given_up_at_once_and_after_its_time(
    database_url: str, receiver: Receiver
) -> None:
    receiver.answer(410, 500)
    rises = Rises()
    async with webhook_world(database_url, receiver.url()) as world:
        await fail(world.conn)
        await world.tick()
        assert told(rises) == {"given_up": 1}
        await fail(world.conn)
        await world.tick()
        assert told(rises) == {"given_up": 1, "retried": 1}
        await world.pass_time(25 * HOUR)
        await world.tick()
        assert all(each["failed_at"] for each in await world.deliveries())
    assert told(rises) == {"given_up": 2, "retried": 1}


async def test_what_waits_for_a_removed_webhook_is_no_failure_of_it(
    database_url: str, receiver: Receiver
) -> None:
    receiver.answer(500)
    rises = Rises()
    async with webhook_world(database_url, receiver.url()) as world:
        await fail(world.conn)
        await world.tick()
        await world.declare()
        await world.tick()
        assert (await world.delivery())["failed_at"] is not None
    assert told(rises) == {"retried": 1, "removed": 1}


async def test_a_post_whose_webhook_is_removed_meanwhile_counts_once(
    database_url: str, receiver: Receiver
) -> None:
    receiver.answer(None)
    rises = Rises()
    async with webhook_world(database_url, receiver.url()) as world:
        await fail(world.conn)
        await world.runner.tick()
        await to_thread.run_sync(receiver.wait, 1)
        await world.declare()
        await world.runner.tick()
        receiver.ending.set()
        await world.runner.quiet()
        assert (await world.delivery())["attempts"] == 0
    assert told(rises) == {"removed": 1}
