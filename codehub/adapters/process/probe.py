"""Ports on the loopback: find a free one, and ask whether one answers."""

from __future__ import annotations

import asyncio
import random
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codehub.errors import ActionFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

HOST: Final = "127.0.0.1"
_LOWEST: Final = 10_240
_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_PATIENCE: Final = 1.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25


def free_port(taken: Collection[int]) -> int:
    """A free port that is not `taken`, from below those the kernel lends to outgoing connections.

    From among those, a probe could connect to itself, and anybody's connection could take the port
    between this moment and the one in which the workspace listens.
    """
    choices = range(_LOWEST, _lent_from())
    for port in random.sample(choices, min(len(choices), 2_000)):
        if port not in taken and _is_free(port):
            return port
    raise ActionFailed("this machine has no free port left", hint="stop something that listens")


async def wait_for_port(port: int, is_alive: Callable[[], bool]) -> bool:
    """Wait until the port answers; False when what should answer has ended."""
    pause = _FIRST_PAUSE
    while is_alive():
        if await answers(port):
            return is_alive()
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)
    return False


async def answers(port: int) -> bool:
    """Whether somebody accepts a connection there."""
    with socket.socket() as probe:
        probe.setblocking(False)
        try:
            async with asyncio.timeout(_PATIENCE):
                await asyncio.get_running_loop().sock_connect(probe, (HOST, port))
        except (OSError, TimeoutError):
            return False
        return bool(probe.getsockname() != probe.getpeername())


def _lent_from() -> int:
    try:
        lowest = int(_RANGE.read_text().split()[0])
    except (OSError, ValueError):
        lowest = 32_768
    return lowest if lowest > _LOWEST + 1_000 else 65_536


def _is_free(port: int) -> bool:
    with socket.socket() as attempt:
        try:
            attempt.bind((HOST, port))
        except OSError:
            return False
        return True
