"""`codehub diff`: what differs between the specs of two revisions."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from codehub.cli.options import DataOption, HubOption

if TYPE_CHECKING:
    from pathlib import Path

    from codehub.service.revising import Recorded

DIFFERENT = 2


def command(
    old: Annotated[int, typer.Argument(metavar="A", help="A revision's number.", min=1)],
    new: Annotated[
        int | None,
        typer.Argument(metavar="B", help="Another one (default: the one in force).", min=1),
    ] = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="0 no difference, 2 some difference.")
    ] = False,
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Show what differs between the specs of two revisions, from A to B.

    With A alone it compares with the revision in force. Values of env and password hashes are
    not shown, only that they differ.

    Example: codehub diff 11 12
    """
    from codehub.cli.printing import colorful
    from codehub.core.contrast import contrast
    from codehub.render.diff_text import diff_text

    left, right = asyncio.run(_read(old, new, hub, data))
    changes = contrast(left.specs, right.specs)
    now = datetime.now(UTC)
    text = diff_text(left.revision, right.revision, changes, now, color=colorful())
    typer.echo(text, nl=False)
    if exit_code and changes:
        raise typer.Exit(DIFFERENT)


async def _read(
    old: int, new: int | None, hub: str | None, data: Path | None
) -> tuple[Recorded, Recorded]:
    from codehub.cli.hubs import require_hub
    from codehub.service.revising import read_recorded
    from codehub.wiring import open_hub

    async with open_hub(require_hub(hub, data)) as conn:
        return await read_recorded(conn, old), await read_recorded(conn, new)
