"""`codehub events`: the audit, and what is added to it as it happens."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from codehub.cli.options import DataOption, HubOption

if TYPE_CHECKING:
    from collections.abc import Iterable

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.events import Event
    from codehub.service.following import Follower
    from codehub.wiring import HubChoice

LATEST = 100
RECONNECT_SECONDS = 1.0


class EventsFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def command(
    name: Annotated[str | None, typer.Argument(help="Only this workspace.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what happens, until Ctrl-C.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option("--since", help="After this id, or of the last while: 1234, 90s, 1h, 2d."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", min=1, help="At most so many; the latest 100, with --since all of them."
        ),
    ] = None,
    output: Annotated[
        EventsFormat, typer.Option("--format", help="Lines to read, or one JSON object a line.")
    ] = EventsFormat.TEXT,
    access: Annotated[
        bool, typer.Option("--access", help="Logins, refused ones, and tokens instead.")
    ] = False,
    user: Annotated[
        str | None, typer.Option("--user", help="With --access: only of this user.")
    ] = None,
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Show the audit: who moved what, when and why; oldest first.

    Example: codehub events payments-api --since 1h -f
    """
    from codehub.cli.hubs import require_hub

    start = _start(since)
    if access or user is not None:
        _require_sense(name, follow=follow, access=access)
    choice = require_hub(hub, data)
    if access:
        _show_access(choice, user, start, limit, output)
        return
    # Ctrl-C is how one stops following: nothing was interrupted.
    with suppress(*([KeyboardInterrupt] if follow else [])):
        asyncio.run(_show(choice, name, start, limit, output, follow=follow))


def _require_sense(name: str | None, *, follow: bool, access: bool) -> None:
    """What --access goes with, and what it does not."""
    from codehub.errors import UsageError

    if not access:
        raise UsageError("--user goes with --access", hint="say --access --user NAME")
    if name is not None:
        raise UsageError("logins are of users, not of workspaces", hint="say --user NAME")
    if follow:
        raise UsageError("--access cannot follow", hint="leave out --follow, and ask again later")


def _show_access(
    choice: HubChoice,
    user: str | None,
    start: int | timedelta | None,
    limit: int | None,
    output: EventsFormat,
) -> None:
    from codehub.cli.events_access import show_access

    most = limit or (LATEST if start is None else None)
    asyncio.run(show_access(choice, user, start, most, as_json=output is EventsFormat.JSON))


async def _show(
    choice: HubChoice,
    name: str | None,
    start: int | timedelta | None,
    limit: int | None,
    output: EventsFormat,
    *,
    follow: bool,
) -> None:
    from codehub.wiring import open_hub

    async with open_hub(choice) as conn:
        follower = await _follower(conn, name) if follow else None
        found = await _read(conn, name, start, limit)
        _print(found, output)
        if follower is None:
            return
        follower.leave_out(found)
        await _follow_once(conn, follower, name, output)
    while True:
        await asyncio.sleep(RECONNECT_SECONDS)
        await _follow_again(choice, follower, name, output)


async def _read(
    conn: AsyncConnection[DictRow],
    name: str | None,
    start: int | timedelta | None,
    limit: int | None,
) -> tuple[Event, ...]:
    from codehub.service.explaining import unknown_workspace
    from codehub.service.following import read_after
    from codehub.store.events import events, id_before, is_known

    if name is not None and not await is_known(conn, name):
        raise await unknown_workspace(conn, name)
    if start is None:
        return await events(conn, name, limit=limit or LATEST)
    if isinstance(start, timedelta):
        start = await id_before(conn, start)
    return await read_after(conn, name, start, limit)


async def _follower(conn: AsyncConnection[DictRow], name: str | None) -> Follower:
    """Begins before it is read what there is, so that nothing falls in between."""
    from codehub.service.following import begin

    return await begin(conn, name, time.monotonic)


async def _follow_once(
    conn: AsyncConnection[DictRow], follower: Follower, name: str | None, output: EventsFormat
) -> None:
    """Until the connection is lost."""
    from codehub.errors import Unreachable
    from codehub.service.following import follow

    try:
        async for fresh in follow(conn, follower, name):
            _print(fresh, output)
    except Unreachable as error:
        typer.echo(f"codehub: {error.message}; trying again", err=True)


async def _follow_again(
    choice: HubChoice, follower: Follower, name: str | None, output: EventsFormat
) -> None:
    from codehub.errors import Unreachable
    from codehub.wiring import open_hub

    with suppress(Unreachable):
        async with open_hub(choice) as conn:
            await _follow_once(conn, follower, name, output)


def _print(found: Iterable[Event], output: EventsFormat) -> None:
    from codehub.render.events_text import event_json, event_line

    render = event_json if output is EventsFormat.JSON else event_line
    text = "".join(render(each) for each in found)
    if text:
        typer.echo(text, nl=False)


def _start(since: str | None) -> int | timedelta | None:
    """An id, or how long ago; digits alone are an id."""
    from codehub.errors import UsageError
    from codehub.model.scalars import parse_duration

    if since is None:
        return None
    if since.isdecimal() and len(since) < 19:
        return int(since)
    try:
        return timedelta(seconds=parse_duration(since))
    except (ValueError, OverflowError):
        raise UsageError(
            f'--since cannot read "{since}"', hint="give an id such as 1234, or 90s, 10m, 1h, 2d"
        ) from None
