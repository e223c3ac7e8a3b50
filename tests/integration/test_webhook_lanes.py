"""Receivers that hang, leaders that change, webhooks that come and go: nobody is held up."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from codehub.errors import FenceLost
from codehub.model.people import Webhook
from tests.integration.receiver import receiving
from tests.integration.webhook_world import fail, fail_load, webhook_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.receiver import Receiver

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture
def other() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


# One that hangs


async def test_a_receiver_that_hangs_delays_neither_the_tick_nor_others(
    database_url: str, receiver: Receiver, other: Receiver
) -> None:
    receiver.answer(None)
    async with webhook_world(database_url, receiver.url(), other.url()) as world:
        for _ in range(6):
            await fail(world.conn)
        await world.runner.tick()
        await asyncio.to_thread(other.wait, 6)
        await asyncio.to_thread(receiver.wait, 4)
        await fail_load(world.conn)
        await world.runner.tick()
        await asyncio.to_thread(other.wait, 7)
        assert other.kinds[-1] == "revision.failed"
        assert len(receiver.got) == 4, "no more at once than a lane holds"
        receiver.ending.set()
        receiver.answer(204)
        await world.runner.quiet()
        rows = [each for each in await world.deliveries() if each["delivered_at"] is None]
        assert [each["attempts"] for each in rows] == [1] * 4
        assert {each["last_error"] for each in rows} == {"127.0.0.1 gave no answer in HTTP"}


async def test_a_runner_that_ends_cuts_off_what_hangs(
    database_url: str, receiver: Receiver
) -> None:
    receiver.answer(None)
    async with webhook_world(database_url, receiver.url()) as world:
        await fail(world.conn)
        running = asyncio.create_task(world.runner.run())
        await asyncio.to_thread(receiver.wait, 1)
        running.cancel()
        await asyncio.wait({running})
        row = await world.delivery()
        assert (row["attempts"], row["delivered_at"], row["failed_at"]) == (0, None, None)
        receiver.answer(200)
        await world.lead_anew()
        await world.tick()
        assert (await world.delivery())["delivered_at"] is not None
    assert receiver.ids[0] == receiver.ids[1]


# Leaders


async def test_a_leader_that_was_replaced_tells_nobody(
    database_url: str, receiver: Receiver
) -> None:
    async with webhook_world(database_url, receiver.url()) as world:
        old = await world.lead_anew()
        assert old is not None
        await fail(world.conn)
        with pytest.raises(FenceLost):
            await old.tick()
        assert (receiver.got, await world.deliveries()) == ([], [])
        await world.tick()
    assert receiver.kinds == ["workspace.error"]


async def test_a_post_that_outlives_its_leader_is_not_recorded_and_comes_again(
    database_url: str, receiver: Receiver
) -> None:
    receiver.answer(None)
    async with webhook_world(database_url, receiver.url()) as world:
        await fail(world.conn)
        await world.runner.tick()
        await asyncio.to_thread(receiver.wait, 1)
        old = await world.lead_anew()
        assert old is not None
        receiver.ending.set()
        await old.quiet()
        assert (await world.delivery())["attempts"] == 0
        assert old.nudge.is_set()
        receiver.answer(200)
        await world.tick()
        assert (await world.delivery())["attempts"] == 1
    assert receiver.ids[0] == receiver.ids[1]


# Webhooks that come and go


async def test_a_new_webhook_does_not_get_the_past(
    database_url: str, receiver: Receiver, other: Receiver
) -> None:
    """Not even what waits to be handed out, with nobody leading."""
    async with webhook_world(database_url, receiver.url()) as world:
        await fail(world.conn)
        await world.declare(receiver.url(), other.url())
        await world.tick()
        assert (len(receiver.got), len(other.got)) == (1, 0)
        await fail(world.conn)
        await world.tick()
        assert (len(receiver.got), len(other.got)) == (2, 1)


async def test_what_is_on_its_way_to_a_removed_webhook_ends(
    database_url: str, receiver: Receiver, other: Receiver
) -> None:
    receiver.answer(500)
    async with webhook_world(database_url, receiver.url(), other.url()) as world:
        await fail(world.conn)
        await world.tick()
        await world.declare(other.url())
        await fail(world.conn)
        await world.pass_time(HOUR)
        await world.tick()
        ended = [each for each in await world.deliveries() if each["failed_at"]]
        assert [each["last_error"] for each in ended] == ["the webhook was removed from the specs"]
        await world.declare(receiver.url(), other.url())
        await world.pass_time(HOUR)
        await world.tick()
    assert len(receiver.got) == 1
    assert len(other.got) == 2


async def test_a_changed_webhook_is_the_same_one(
    database_url: str, receiver: Receiver, tmp_path: Path
) -> None:
    receiver.answer(500, 200)
    (tmp_path / "hook").write_text("key")
    async with webhook_world(database_url, receiver.url(), secrets_dir=tmp_path) as world:
        await fail(world.conn)
        await world.tick()
        await world.declare(Webhook(receiver.url(), ("revision.failed",), "hook", "chat"))
        await fail(world.conn)
        await world.pass_time(HOUR)
        await world.tick()
        assert (await world.delivery())["delivered_at"] is not None
    assert "webhook-signature" in receiver.got[1].headers
