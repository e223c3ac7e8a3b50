"""The report of a hub and the files it is written to: for `codehub report`, `render-pages`, pages.

A reader of these files (the front, nginx) sees the old page or the new one, never half of either.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codehub.core.recount import recount
from codehub.core.summarise import summarise
from codehub.errors import CodeHubError
from codehub.model.history import DAYS
from codehub.model.workspace import Runtime
from codehub.service.planning import plan_options
from codehub.store.clock import read_now
from codehub.store.connect import transaction
from codehub.store.history import MOST_MOVES, read_past
from codehub.store.hubs import read_hub_state
from codehub.store.revisions import list_revisions
from codehub.store.workspaces import collector_paused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.config import Settings
    from codehub.model.history import Past
    from codehub.model.report import Report
    from codehub.model.revision import HubState, Revision

INDEX: Final = "index.html"
OPENED: Final = "/w/"
"""Below this the proxy itself opens workspaces, also while no page about them can be had."""
REFRESH_SECONDS: Final = 10
"""How soon the served report asks for itself again."""


async def read_report(
    conn: AsyncConnection[DictRow],
    settings: Settings,
    *,
    owner: str | None = None,
    days: int = DAYS,
    most_moves: int = MOST_MOVES,
) -> Report:
    """The report of this moment, by the database's clock, all of it from one snapshot.

    With an `owner`, of what is theirs: others and the hub's own affairs are not in it. Its history
    is that of the last `days`; where more moves happened than `most_moves`, of as many as these.
    """
    # The collector stops every thread, and would walk all that is read for the report again and
    # again. What is left of it when the collector goes on is the report.
    with collector_paused():
        return await _made(conn, settings, owner, timedelta(days=days), most_moves)


async def _made(
    conn: AsyncConnection[DictRow],
    settings: Settings,
    owner: str | None,
    past_time: timedelta,
    most_moves: int,
) -> Report:
    async with transaction(conn, snapshot=True):
        now = await read_now(conn)
        state = await read_hub_state(conn, owner)
        loads = await list_revisions(conn, 1)
        if owner is not None:
            state = _of_one(state, owner)
        ids = None if owner is None else [each.id for each in state.workspaces]
        past = await read_past(conn, now - past_time, now, ids=ids, most=most_moves)
    newest = loads[0] if loads and owner is None else None
    # Ten thousand workspaces take half a second: others on this loop go on meanwhile.
    return await asyncio.to_thread(_summed_up, state, past, newest, settings)


def _summed_up(state: HubState, past: Past, newest: Revision | None, settings: Settings) -> Report:
    return summarise(
        state,
        last_load=newest,
        now=past.until,
        options=plan_options(settings, frozenset(Runtime)),
        history=recount(past, state.workspaces),
    )


def _of_one(state: HubState, owner: str) -> HubState:
    """Without the other people; only the owner's workspaces were read."""
    users = {name: user for name, user in state.users.items() if name == owner}
    return replace(state, users=users)


async def fleet_page(
    conn: AsyncConnection[DictRow],
    settings: Settings,
    *,
    days: int = DAYS,
    refresh: int | None = REFRESH_SECONDS,
) -> str:
    """The report of the whole fleet, as a page."""
    from codehub.render.report_html import about_below, report_html

    report = await read_report(conn, settings, days=days)
    below = about_below(settings.proxy_public_url)
    return await asyncio.to_thread(report_html, report, refresh=refresh, below=below)


async def own_page(
    conn: AsyncConnection[DictRow],
    settings: Settings,
    owner: str,
    *,
    days: int = DAYS,
    refresh: int | None = REFRESH_SECONDS,
    opens: bool = True,
) -> str:
    """The page of one person's workspaces; nothing of anybody else's is in it.

    Where it `opens` them, it is the front page while there is no dashboard.
    """
    from codehub.render.report_html import about_below, report_html

    report = await read_report(conn, settings, owner=owner, days=days)
    below = OPENED if opens else about_below(settings.proxy_public_url)
    return await asyncio.to_thread(report_html, report, refresh=refresh, own=True, below=below)


def render_pages(report: Report, site: str | None) -> dict[str, str]:
    """All pages by the name of their file: the report and the generic error pages.

    `site` is where browsers find the hub, if anybody said.
    """
    from codehub.render.pages import GENERIC, page
    from codehub.render.report_html import about_below, report_html

    generic = {name: page(notice) for name, notice in GENERIC.items()}
    index = report_html(report, refresh=REFRESH_SECONDS, below=about_below(site))
    return {INDEX: index, **generic}


def write_pages(directory: Path, pages: Mapping[str, str]) -> tuple[str, ...]:
    """Write what changed; returns the names of those. What cannot be written stays as it was."""
    written = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in pages.items():
            if _replace(directory / name, text.encode()):
                written.append(name)
    except OSError as error:
        raise CodeHubError(
            f"the pages in {directory} cannot be written: {error.strerror or error}",
            hint="the last good ones stay; make room, or correct the directory's rights",
        ) from error
    return tuple(written)


def _replace(path: Path, content: bytes) -> bool:
    if path.is_file() and path.read_bytes() == content:
        return False
    # A killed renderer leaves its draft behind; one that lives and loses its draft tries again.
    for draft in path.parent.glob(f".{path.name}.*.tmp"):
        draft.unlink(missing_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        draft.chmod(0o644)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return True
