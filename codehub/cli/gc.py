"""`codehub gc`: have unused archives collected, or see what would become of each."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from codehub.cli.options import DataOption, HubOption
from codehub.errors import NotFound, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from codehub.model.collection import Collected, Survey


class GcFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def command(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would become of each archive.")
    ] = False,
    confirm_restored: Annotated[
        bool,
        typer.Option(
            "--confirm-restored",
            help="Vouch for a database that was restored from a backup, so that collecting goes "
            "on. Archives of workspaces it does not know are given up.",
        ),
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0, help="Seconds to wait for the coordinator.")
    ] = 60,
    output: Annotated[GcFormat, typer.Option("--format", help="How to show it.")] = GcFormat.TEXT,
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Ask the coordinator to delete archives that nothing needs any more, and say what it did.

    Example: codehub gc --dry-run
    """
    if dry_run and confirm_restored:
        raise UsageError("--confirm-restored changes the hub, so it cannot be a --dry-run")
    if dry_run:
        _show(asyncio.run(_look(hub, data)), output)
    else:
        _tell(asyncio.run(_ask(hub, data, timeout, confirm=confirm_restored)), output)


def _show(survey: Survey, output: GcFormat) -> None:
    from codehub.render.gc_text import survey_json, survey_text

    if output is GcFormat.JSON:
        typer.echo(survey_json(survey))
    else:
        typer.echo(survey_text(survey), nl=False)


def _tell(collected: Collected, output: GcFormat) -> None:
    from codehub.render.gc_text import collected_json, collected_text

    if output is GcFormat.JSON:
        typer.echo(collected_json(collected))
    else:
        typer.echo(collected_text(collected), nl=False)


async def _look(hub: str | None, data: Path | None) -> Survey:
    from codehub.cli.hubs import require_hub
    from codehub.config import load_settings
    from codehub.coordinator.marker import read_marker
    from codehub.service.collecting import survey
    from codehub.store.hubs import read_hub_id
    from codehub.wiring import open_archive_store, open_hub

    settings = load_settings()
    choice = require_hub(hub, data)
    async with open_hub(choice) as conn:
        hub_id = await read_hub_id(conn)
        if hub_id is None:
            raise NotFound("nothing was ever applied to this hub", hint="see 'codehub apply'")
        store = open_archive_store(choice, settings)
        marker = await read_marker(store, hub_id)
        return await survey(conn, store, hub_id, marker, settings)


async def _ask(hub: str | None, data: Path | None, seconds: float, *, confirm: bool) -> Collected:
    from codehub.cli.consent import author
    from codehub.cli.hubs import require_hub
    from codehub.service.collecting import ask_to_collect
    from codehub.wiring import open_hub

    async with open_hub(require_hub(hub, data)) as conn:
        return await ask_to_collect(conn, by=author(), seconds=seconds, confirm=confirm)
