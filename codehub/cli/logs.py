"""`codehub logs`: what a workspace writes, through the runtime it runs on."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from codehub.cli.options import DataOption, HubOption

if TYPE_CHECKING:
    from pathlib import Path

    from codehub.model.workspace import Workspace
    from codehub.ports import Runtime
    from codehub.wiring import HubChoice


def command(
    name: Annotated[str, typer.Argument(help="The workspace.")],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until it stops or Ctrl-C.")
    ] = False,
    lines: Annotated[int, typer.Option("--lines", min=0, help="How many of the last lines.")] = 100,
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Show what a workspace writes: the last lines, and with -f what comes.

    Example: codehub logs payments-api -f
    """
    # Ctrl-C is how one stops following: nothing was interrupted.
    with suppress(*([KeyboardInterrupt] if follow else [])):
        asyncio.run(_show(name, lines, hub, data, follow=follow))


async def _show(name: str, lines: int, hub: str | None, data: Path | None, *, follow: bool) -> None:
    from codehub.cli.hubs import require_hub

    choice = require_hub(hub, data)
    workspace, hub_id = await _find(choice, name)
    runtime = _runtime(choice, workspace, hub_id)
    try:
        running = await _runs(runtime, workspace, choice)
        shown = await _copy(runtime, workspace, lines, follow=follow)
    finally:
        await runtime.close()
    _conclude(workspace, shown=shown or lines == 0, running=running, follow=follow)


async def _find(choice: HubChoice, name: str) -> tuple[Workspace, str]:
    """The workspace and its hub's id; the database is not needed for more."""
    from codehub.service.explaining import unknown_workspace
    from codehub.store.hubs import read_hub_id
    from codehub.store.workspaces import find_live
    from codehub.wiring import open_hub

    async with open_hub(choice) as conn:
        found, hub_id = await find_live(conn, name), await read_hub_id(conn)
        if found is None or hub_id is None:
            raise await unknown_workspace(conn, name)
    return found.workspace, str(hub_id)


def _runtime(choice: HubChoice, workspace: Workspace, hub_id: str) -> Runtime:
    """The runtime, to read from."""
    from codehub.config import load_settings
    from codehub.errors import CodeHubError
    from codehub.wiring import runtime_to_look

    kind = workspace.declaration.runtime
    found = runtime_to_look(choice, load_settings(), kind, hub_id)
    if found is None:
        raise CodeHubError(
            f"{workspace.name} runs on {kind}, whose output this version cannot show",
            hint=f"use the tools of {kind} on its machine",
        )
    return found


async def _runs(runtime: Runtime, workspace: Workspace, choice: HubChoice) -> bool:
    """Whether it runs now. A hub whose workspaces are elsewhere has no root of its own here."""
    from codehub.errors import NotFound, Unreachable
    from codehub.model.workspace import Runtime as Kind
    from codehub.wiring import WORKSPACES

    root = choice.data / WORKSPACES
    try:
        return await runtime.upstream(workspace.id) is not None
    except Unreachable as error:
        if workspace.declaration.runtime is not Kind.PROCESS or await asyncio.to_thread(
            root.exists
        ):
            raise
        raise NotFound(
            f"{workspace.name} has not run on this machine: there is no {root}",
            hint="run this where the hub's coordinator runs, or name its directory with --data",
        ) from error


async def _copy(runtime: Runtime, workspace: Workspace, lines: int, *, follow: bool) -> bool:
    """Its output to stdout, whether there was any. On a terminal, only its colours act."""
    from codehub.render.output import Harmless

    harmless = Harmless() if sys.stdout.isatty() else None
    shown = False
    async for chunk in runtime.logs(workspace.id, lines=lines, follow=follow):
        shown = True
        typer.echo(harmless.text(chunk) if harmless else chunk, nl=False)
    if harmless:
        typer.echo(harmless.end(), nl=False)
    return shown


def _conclude(workspace: Workspace, *, shown: bool, running: bool, follow: bool) -> None:
    from codehub.errors import NotFound

    name = workspace.name
    if follow and not running:
        typer.echo(f"codehub: {name} does not run, so this is all", err=True)
    elif follow:
        typer.echo(f"codehub: {name} has stopped", err=True)
    elif running and not shown:
        typer.echo(f"codehub: {name} runs and has written nothing yet", err=True)
    if not shown and not running:
        raise NotFound(
            f"there is no output of {name} on this machine: {_why_silent(workspace)}",
            hint=f"'codehub explain {name}' tells where it stands",
        )


def _why_silent(workspace: Workspace) -> str:
    """What became of the output, as far as the hub knows what became of the workspace."""
    from codehub.model.workspace import Runtime as Kind

    status = workspace.status
    if status.error_message:
        return f"the last try failed ({status.error_message})"
    if status.archive_key is not None:
        return "it has not run here, or its output went when its home was archived"
    if workspace.declaration.runtime is Kind.DOCKER:
        return "it has not run here, or its output went with its container"
    return "it has not run here"
