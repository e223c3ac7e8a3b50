"""`codehub status`: the workspaces and where they stand."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codehub.cli.options import DataOption, HubOption
from codehub.errors import UsageError

if TYPE_CHECKING:
    from codehub.model.revision import HubState
    from codehub.model.workspace import Workspace


class StatusFormat(StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def command(
    name: Annotated[str | None, typer.Argument(help="Only this workspace.")] = None,
    output: Annotated[
        StatusFormat, typer.Option("--format", help="How to show it.")
    ] = StatusFormat.TABLE,
    watching: Annotated[
        bool, typer.Option("--watch", help="Go on showing what changes, until Ctrl-C.")
    ] = False,
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """List the workspaces: phase, desired state, operation, and where each is declared.

    --watch draws them again at every change; where stdout is no terminal it prints a line for each
    change, with --format json a JSON object.

    Example: codehub status --watch
    """
    if watching:
        _watch(name, output, hub, data)
        return
    from codehub.render.progress_text import NOBODY_LEADS
    from codehub.render.status_text import status_data, status_json, status_text

    state, led = _look(hub, data)
    workspaces = _chosen(state, name)
    if output is StatusFormat.JSON:
        typer.echo(status_json(state, workspaces))
    elif output is StatusFormat.YAML:
        import yaml

        typer.echo(yaml.safe_dump(status_data(state, workspaces), sort_keys=False), nl=False)
    else:
        typer.echo(status_text(state, workspaces, datetime.now(UTC)), nl=False)
        if not led:
            typer.echo(NOBODY_LEADS)


def _look(hub: str | None, data: Path | None) -> tuple[HubState, bool]:
    """What is stored, and whether a coordinator keeps it true."""
    from codehub.cli.hubs import require_hub
    from codehub.store.advisory import somebody_leads
    from codehub.store.hubs import read_hub_state
    from codehub.wiring import open_hub

    choice = require_hub(hub, data)
    # Not the task's result: asyncio would format it, and that takes longer than reading does.
    kept: list[tuple[HubState, bool]] = []

    async def read() -> None:
        async with open_hub(choice) as conn:
            kept.append((await read_hub_state(conn), await somebody_leads(conn)))

    asyncio.run(read())
    return kept[0]


def _watch(name: str | None, output: StatusFormat, hub: str | None, data: Path | None) -> None:
    """Ctrl-C is how watching ends, so it is no failure."""
    if output is StatusFormat.YAML:
        raise UsageError("--watch goes with --format table or json")
    try:
        from codehub.cli.hubs import require_hub
        from codehub.cli.live import watch

        choice = require_hub(hub, data)
        names = None if name is None else [name]
        asyncio.run(watch(choice, names, json=output is StatusFormat.JSON))
    except KeyboardInterrupt:
        return


def _chosen(state: HubState, name: str | None) -> tuple[Workspace, ...]:
    from codehub.core.suggest import did_you_mean
    from codehub.errors import NotFound
    from codehub.model.states import Phase

    live = tuple(each for each in state.workspaces if each.status.phase is not Phase.DELETED)
    if name is None:
        return tuple(sorted(live, key=lambda each: each.name))
    found = tuple(each for each in live if each.name == name)
    if not found:
        names = [each.name for each in live]
        raise NotFound(
            f'no workspace "{name}"{did_you_mean(name, names)}', hint="see 'codehub status'"
        )
    return found
