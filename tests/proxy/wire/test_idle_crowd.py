"""Thousands hold connections and say nothing: the limits hold, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import resource
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.proxy.wire.wire_world import GET, Workspace, until, wire

if TYPE_CHECKING:
    from tests.proxy.wire.wire_world import Wire

pytestmark = pytest.mark.anyio

CROWD = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
ELSEWHERE = "127.0.0.5"
SPARE_FILES = 500
"""For everything else that the tests have open."""


def room() -> int:
    """How many may come from each address: a thousand, or as many as this process has files for."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    both_ends = (soft - SPARE_FILES) // 2
    return max(1, min(1000, both_ends // len(CROWD)))


async def idle(world: Wire, stack: ExitStack, address: str) -> socket.socket:
    """A connection that nobody says anything on."""
    made = stack.enter_context(socket.socket())
    made.setblocking(False)
    made.bind((address, 0))
    await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", world.port))
    return made


async def test_an_idle_crowd_takes_its_own_room_and_nobody_elses() -> None:
    each = room()
    most = len(CROWD) * each + 1
    limits = {"connections": most + 1, "connections_per_address": each, "idle_seconds": 3600}
    with ExitStack() as stack:
        async with wire(**limits) as world, world.talk() as early:
            await world.serve(Workspace())
            held = [await idle(world, stack, a) for a in CROWD for _ in range(each)]
            await until(lambda: len(world.server._clients) == most)

            async with world.talk(CROWD[0]) as more:
                assert (await more.answer()).status == 503, "that address has had its share"
            await until(lambda: len(world.server._clients) == most)
            async with world.talk(ELSEWHERE) as other:
                for talk in (early, other, early):
                    talk.send(GET % b"")
                    assert (await talk.answer()).status == 200
                async with world.talk() as late:
                    assert (await late.answer()).status == 503, "there is room for no more"
            await until(lambda: len(world.server._clients) == most)

            for one in held[:each]:
                one.close()
            await until(lambda: len(world.server._clients) == most - each)
            async with world.talk(CROWD[0]) as again:
                again.send(GET % b"")
                assert (await again.answer()).status == 200
            early.send(GET % b"")
            assert (await early.answer()).status == 200
