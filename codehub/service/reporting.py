"""The report of a hub and the files it is written to: for `codehub report`, `render-pages`, pages.

A reader of these files (the front, nginx) sees the old page or the new one, never half of either.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codehub.core.summarise import summarise
from codehub.errors import CodeHubError
from codehub.model.workspace import Runtime
from codehub.service.planning import plan_options
from codehub.store.clock import read_now
from codehub.store.connect import transaction
from codehub.store.hubs import read_hub_state
from codehub.store.revisions import list_revisions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.config import Settings
    from codehub.model.report import Report

INDEX: Final = "index.html"
REFRESH_SECONDS: Final = 10
"""How soon the served report asks for itself again."""


async def read_report(conn: AsyncConnection[DictRow], settings: Settings) -> Report:
    """The report of this moment, by the database's clock, all of it from one snapshot."""
    async with transaction(conn, snapshot=True):
        now = await read_now(conn)
        state = await read_hub_state(conn)
        loads = await list_revisions(conn, 1)
    newest = loads[0] if loads else None
    options = plan_options(settings, frozenset(Runtime))
    # Ten thousand workspaces take a quarter of a second: others on this loop go on meanwhile.
    return await asyncio.to_thread(summarise, state, last_load=newest, now=now, options=options)


def render_pages(report: Report) -> dict[str, str]:
    """All pages by the name of their file: the report and the generic error pages."""
    from codehub.render.pages import GENERIC, page
    from codehub.render.report_html import report_html

    generic = {name: page(notice) for name, notice in GENERIC.items()}
    return {INDEX: report_html(report, refresh=REFRESH_SECONDS), **generic}


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
