"""`codehub history`: the revisions the hub has loaded."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from codehub.cli.options import DataOption, HubOption

if TYPE_CHECKING:
    from pathlib import Path

    from codehub.model.revision import Revision


class HistoryFormat(StrEnum):
    TABLE = "table"
    JSON = "json"


def command(
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many, newest first.")] = 20,
    output: Annotated[
        HistoryFormat, typer.Option("--format", help="How to show it.")
    ] = HistoryFormat.TABLE,
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """List the revisions the hub has loaded, newest first, and those that failed.

    Example: codehub history --limit 5
    """
    from codehub.render.history_text import history_json, history_text

    revisions = asyncio.run(_read(limit, hub, data))
    if output is HistoryFormat.JSON:
        typer.echo(history_json(revisions))
    else:
        typer.echo(history_text(revisions, datetime.now(UTC)), nl=False)


async def _read(limit: int, hub: str | None, data: Path | None) -> tuple[Revision, ...]:
    from codehub.cli.hubs import require_hub
    from codehub.store.revisions import list_revisions
    from codehub.wiring import open_hub

    async with open_hub(require_hub(hub, data)) as conn:
        return await list_revisions(conn, limit)
