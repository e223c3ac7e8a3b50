"""What `codehub up` says while it runs: where it is, and what happens to workspaces."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from codehub import __version__
from codehub.adapters.process import NOTICE
from codehub.cli.serving import say
from codehub.errors import CodeHubError
from codehub.model.events import EventKind
from codehub.model.states import Phase
from codehub.render.words import clean
from codehub.service.following import begin, follow
from codehub.store.connect import connect
from codehub.store.workspaces import read_workspaces

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from codehub.coordinator.coordinator import Coordinator
    from codehub.model.events import Event
    from codehub.model.workspace import Workspace

SHOWN: Final = 20
STANDING: Final = 5.0
"""Seconds after which it is said that something keeps us from leading."""


def greet(data: Path, specs: Path, port: int) -> None:
    """Where everything is."""
    say(f"CodeHub {__version__}")
    say(f"  specs   {specs} (changes are loaded as they are saved)")
    say(f"  data    {data}")
    say(f"  note    {NOTICE}")
    say("")
    say(f"  Open http://127.0.0.1:{port}/  (Ctrl-C stops everything)")
    say("")


async def narrate_until(
    ended: asyncio.Event, database_url: str, port: int, coordinator: Coordinator
) -> None:
    """Tell what happens, and what keeps it from happening, until `ended` is set."""
    telling = asyncio.create_task(_narrate(database_url, port))
    warning = asyncio.create_task(_say_what_is_wrong(coordinator))
    try:
        await ended.wait()
    finally:
        for task in (telling, warning):
            task.cancel()
        await asyncio.gather(telling, warning, return_exceptions=True)


async def _narrate(database_url: str, port: int) -> None:
    """What happens to workspaces, line by line; a lost database is told by others."""
    clock = asyncio.get_running_loop().time
    follower = None
    while True:
        with suppress(CodeHubError):
            async with await connect(database_url) as conn:
                if follower is None:
                    follower = await begin(conn, None, clock)
                    _show(await read_workspaces(conn), port)
                async for fresh in follow(conn, follower, None):
                    for event in fresh:
                        _tell(event, port)
        await asyncio.sleep(1)


def _show(workspaces: Sequence[Workspace], port: int) -> None:
    """What is there already; the rest of a long list is in the report."""
    live = [each for each in workspaces if each.status.phase is not Phase.DELETED]
    for each in live[:SHOWN]:
        _line(datetime.now(UTC), each.name, _with_address(each.name, each.status.phase, port))
    if len(live) > SHOWN:
        say(f"          and {len(live) - SHOWN} more: 'codehub status' lists them")


def _tell(event: Event, port: int) -> None:
    if event.kind is EventKind.PHASE:
        _line(event.at, event.workspace, _with_address(event.workspace, event.new, port))
    elif event.kind is EventKind.ERROR:
        _line(event.at, event.workspace, f"{event.new}: {clean(event.reason)}")


def _line(at: datetime, name: str, text: str) -> None:
    say(f"{at.astimezone():%H:%M:%S}  {clean(name):<20} {text}")


def _with_address(name: str, phase: str, port: int) -> str:
    return f"{phase}  http://127.0.0.1:{port}/w/{name}/" if phase == Phase.RUNNING else str(phase)


async def _say_what_is_wrong(coordinator: Coordinator) -> None:
    while not coordinator.leads:
        await asyncio.sleep(STANDING)
        if not coordinator.leads and coordinator.problem is not None:
            say(f"codehub: not coordinating yet: {coordinator.problem}", err=True)
