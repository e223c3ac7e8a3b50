"""`codehub override`: another ceiling than the declared one, for a while."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer

from codehub.cli.consent import author
from codehub.cli.moving import (
    Act,
    ReasonOption,
    TimeoutOption,
    WaitOption,
    carry_out,
    manner,
    seconds_of,
)
from codehub.cli.options import DataOption, HubOption
from codehub.errors import UsageError
from codehub.model.states import DesiredState, IntentSource


class Ceiling(StrEnum):
    RUNNING = "RUNNING"
    STANDBY = "STANDBY"
    ARCHIVED = "ARCHIVED"


def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The workspace.")],
    state: Annotated[
        Ceiling | None,
        typer.Argument(metavar="STATE", case_sensitive=False, help="The highest state allowed."),
    ] = None,
    lasts: Annotated[str | None, typer.Option("--for", help="How long it lasts: 8h, 3d.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="End the override now.")] = False,
    reason: ReasonOption = "",
    wait: WaitOption = False,
    timeout: TimeoutOption = "10m",
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Let a workspace go higher than its spec allows, or hold it lower, for a while.

    STATE is RUNNING, STANDBY or ARCHIVED. It needs --for and --reason; every plan shows it.

    Example: codehub override payments-api RUNNING --for 8h --reason 'demo tonight'
    """
    way = manner(hub, data, wait, timeout)
    if clear and (state is not None or lasts is not None):
        raise UsageError("--clear goes with neither a state nor --for")
    if clear:
        carry_out([name], _clearing(reason), way)
        return
    if state is None or lasts is None:
        raise UsageError(
            "an override needs a state and --for, or --clear",
            hint=f"example: codehub override {name} RUNNING --for 8h --reason 'demo tonight'",
        )
    span = timedelta(seconds=seconds_of(lasts, "--for"))
    carry_out([name], _overriding(DesiredState(state.value), span, reason), way)


def _overriding(state: DesiredState, lasts: timedelta, reason: str) -> Act:
    async def act(conn: Any, name: str) -> str:
        from codehub.service.intent import set_override

        until = await set_override(
            conn,
            name,
            state,
            lasts=lasts,
            reason=reason,
            by=author(),
            source=IntentSource.CLI,
            admin=True,
        )
        return (
            f"{name}: may go up to {state} until {until:%Y-%m-%d %H:%M %Z}{await _way(conn, name)}"
        )

    return act


def _clearing(reason: str) -> Act:
    async def act(conn: Any, name: str) -> str:
        from codehub.service.intent import clear_override

        there = await clear_override(
            conn, name, by=author(), source=IntentSource.CLI, admin=True, reason=reason
        )
        if not there:
            return f"{name}: there is no override to end"
        return f"{name}: the override is over{await _way(conn, name)}"

    return act


async def _way(conn: Any, name: str) -> str:
    """Where that leads it now."""
    from codehub.core.target import aim
    from codehub.store.workspaces import find_live

    found = await find_live(conn, name)
    if found is None:
        return ""
    phase, rest = found.workspace.status.phase, aim(found.workspace, found.read_at)
    if rest is None or phase.value == rest.value:
        return f"; it stays {phase}"
    return f"; it goes from {phase} to {rest}"
