"""`codehub events --access`: who was let in, who was not, and who got or lost a token."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.access import AccessEvent
    from codehub.wiring import HubChoice


async def show_access(
    choice: HubChoice,
    user: str | None,
    start: int | timedelta | None,
    limit: int | None,
    *,
    as_json: bool,
) -> None:
    """Print what the audit of logins has, of everybody or of one."""
    from codehub.render.access_text import access_json, access_text

    found = await _read(choice, user, start, limit)
    text = "".join(access_json(each) for each in found) if as_json else access_text(found)
    if text:
        typer.echo(text, nl=False)


async def _read(
    choice: HubChoice, user: str | None, start: int | timedelta | None, limit: int | None
) -> tuple[AccessEvent, ...]:
    from codehub.store.access import access_events
    from codehub.wiring import open_hub

    after = start if isinstance(start, int) else 0
    within = start if isinstance(start, timedelta) else None
    async with open_hub(choice) as conn:
        found = await access_events(conn, user, limit, after=after, within=within)
        if user is not None and not found:
            await _require_user(conn, user)
    return found


async def _require_user(conn: AsyncConnection[DictRow], name: str) -> None:
    """To say nothing of somebody who does not exist would sound as if they had done nothing."""
    from codehub.errors import NotFound
    from codehub.store.users import read_users

    if name not in await read_users(conn):
        raise NotFound(f'there is no user "{name}"', hint="see who there is in the specs")
