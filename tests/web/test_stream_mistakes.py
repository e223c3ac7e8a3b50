"""A mistake of ours does not end the streams of a process: what failed is begun again."""

from __future__ import annotations

import logging

import pytest

from codehub.web.stream import Streams
from tests.telemetry.shown import Rises
from tests.web.stream_world import stream_world

pytestmark = pytest.mark.anyio

RESTARTS = "codehub_web_restarts_total"


async def test_a_mistake_of_ours_is_logged_counted_and_survived(
    database_url: str,
    redis_url: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rises, sound = Rises(), Streams.hear

    def fail_once(streams: Streams, message: str) -> None:
        if message == "mistake":
            raise ZeroDivisionError(message)
        sound(streams, message)

    monkeypatch.setattr(Streams, "hear", fail_once)
    async with stream_world(database_url, redis_url) as world:
        bob = await world.tab("bob")
        await bob.all()
        channel = f"{world.settings.redis_channel_sse_prefix}:somebody"
        await world.signals.publish(channel, "mistake")
        assert len(await bob.all()) == 3, "whoever follows gets all anew"
        await world.change("bob-running", memo="still told")
        assert (await bob.next()).data["memo"] == "still told"
    assert rises.of(RESTARTS, component="streams") == 1
    (line,) = (each for each in caplog.records if each.levelno == logging.ERROR)
    assert line.getMessage() == "the web application's part streams failed, and begins again"
