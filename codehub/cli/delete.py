"""`codehub delete`: delete workspaces that no spec declares any more."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from codehub.cli.consent import author
from codehub.cli.moving import (
    Act,
    NamesArgument,
    ReasonOption,
    TimeoutOption,
    WaitOption,
    carry_out,
    manner,
    toward,
)
from codehub.cli.options import DataOption, HubOption
from codehub.errors import Refused
from codehub.model.states import DesiredState, IntentSource


def command(
    names: NamesArgument,
    discard_data: Annotated[
        bool,
        typer.Option(
            "--discard-data", help="Give up a home that cannot be archived. There is no way back."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    reason: ReasonOption = "",
    wait: WaitOption = False,
    timeout: TimeoutOption = "10m",
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Delete workspaces that no spec declares. Their last archive is kept for the retention.

    What the specs declare is deleted by removing it there. --discard-data is for a deletion that
    is stuck in ERROR: it asks for the name once more, unless --yes is given.

    Example: codehub delete old-poc --reason 'the customer left'
    """
    way = manner(hub, data, wait, timeout)
    if not discard_data:
        carry_out(names, toward(DesiredState.DELETED, reason, way=way), way)
        return
    if not yes:
        _confirm(names)
    carry_out(names, _discarding(reason), way)


def _confirm(names: list[str]) -> None:
    if not sys.stdin.isatty():
        raise Refused("nobody is there to ask, so nothing was deleted", hint="add --yes")
    for name in names:
        typed = typer.prompt(f"The home of {name} will be lost. Type its name to go on")
        if typed != name:
            raise Refused("that is another name, so nothing was deleted")


def _discarding(reason: str) -> Act:
    async def act(conn: Any, name: str) -> str:
        from codehub.service.intent import request_discard

        await request_discard(
            conn, name, by=author(), source=IntentSource.CLI, admin=True, reason=reason
        )
        return f"{name}: deletion asked for, without a last archive"

    return act
