"""What the verbs that move workspaces share: their options, and asking for each name in turn.

A name that is refused does not keep the others from moving: refusals are told and counted, and the
exit code says that there was one. A hub that cannot be reached ends the command at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from codehub.cli.consent import author
from codehub.errors import CodeHubError, Refused, UsageError
from codehub.model.states import LEVELS, PHASE_OF, DesiredState, IntentSource, Phase
from codehub.model.workspace import Status

if TYPE_CHECKING:
    from codehub.service.limits import LimitDefaults
    from codehub.store.workspaces import Found

NamesArgument = Annotated[list[str], typer.Argument(metavar="NAME", help="The workspaces.")]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why, for the audit.")]
WaitOption = Annotated[bool, typer.Option("--wait", help="Follow it until it is done.")]
TimeoutOption = Annotated[
    str, typer.Option("--timeout", help="How long --wait waits: 90s, 10m, 3h.")
]

Act: TypeAlias = Callable[[Any, str], Awaitable[str]]
"""Asks one thing of one workspace on a connection; gives the line that says what happens now."""


class Only(Enum):
    """The one direction in which a verb may move a workspace."""

    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class Manner:
    """Which hub, and how long to wait there for what was asked; None not to wait."""

    hub: str | None
    data: Path | None
    patience: int | None = None
    moves: bool = True


def manner(hub: str | None, data: Path | None, wait: bool, timeout: str) -> Manner:
    """From the options that all these verbs have."""
    patience = seconds_of(timeout, "--timeout")
    return Manner(hub, data, patience if wait else None)


def seconds_of(text: str, option: str) -> int:
    """The seconds of a duration that an option gives."""
    from codehub.model.scalars import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option} {error}", hint=f"example: {option} 10m") from None


def carry_out(names: list[str], act: Act, way: Manner) -> None:
    """Ask it of each workspace once, say what happens, and wait if that was asked for."""
    if not asyncio.run(_carry_out(list(dict.fromkeys(names)), act, way)):
        raise typer.Exit(1)


async def _carry_out(names: list[str], act: Act, way: Manner) -> bool:
    from codehub.cli.hubs import require_hub
    from codehub.cli.live import wait_until_settled
    from codehub.wiring import open_hub

    choice = require_hub(way.hub, way.data)
    async with open_hub(choice) as conn:
        done = [name for name in names if await _asked(conn, name, act)]
        well = done == names
        if not done or not way.moves:
            return well
        await warn_unless_led(conn)
        if way.patience is None:
            return well
        return await wait_until_settled(choice, done, way.patience) and well


async def _asked(conn: Any, name: str, act: Act) -> bool:
    from codehub.render.words import clean

    try:
        typer.echo(clean(await act(conn, name)))
    except Refused as error:
        complain(error)
        return False
    return True


async def warn_unless_led(conn: Any) -> None:
    """Say that nothing will move, where no coordinator runs."""
    from codehub.render.progress_text import NOBODY_LEADS
    from codehub.store.advisory import somebody_leads

    if not await somebody_leads(conn):
        typer.echo(NOBODY_LEADS, err=True)


def complain(error: CodeHubError) -> None:
    """An error that does not end the command, as `main` tells those that do."""
    from codehub.render.words import clean

    typer.echo(f"codehub: {clean(error.message)}", err=True)
    if error.hint:
        typer.echo(f"  {clean(error.hint)}", err=True)


def toward(state: DesiredState, reason: str, *, way: Manner, only: Only | None = None) -> Act:
    """Ask for a state. `only` keeps `stop` from restoring and `restore` from stopping."""

    async def act(conn: Any, name: str) -> str:
        from codehub.render.progress_text import asked_text
        from codehub.service.intent import set_desired
        from codehub.store.workspaces import find_live

        found = await find_live(conn, name)
        status = found.workspace.status if found else Status()
        phase = status.phase
        wanted = found.workspace.intent.desired if found else state
        if phase is not Phase.ERROR and _beyond(wanted, state, only):
            return f"{name}: {wanted} is asked for already, nothing to do"
        moved = await set_desired(
            conn,
            name,
            state,
            source=IntentSource.CLI,
            by=author(),
            reason=reason,
            limits=limit_defaults(),
        )
        if found and not moved.changed and phase is not PHASE_OF[state]:
            _check_possible(found, state)
        followed = way.patience is not None
        return asked_text(name, status, state.value, changed=moved.changed, followed=followed)

    return act


def _check_possible(found: Found, state: DesiredState) -> None:
    """Raise for what is asked for already and cannot happen: the specs hold it back."""
    from codehub.service.permit import check_ceiling, check_suspended

    if state is DesiredState.DELETED:
        return  # nothing holds a deletion back
    check_suspended(found.workspace)
    check_ceiling(found.workspace, state, now=found.read_at, commit=found.commit)


def _beyond(wanted: DesiredState, state: DesiredState, only: Only | None) -> bool:
    """Whether what is asked for already lies beyond `state`, as seen in the verb's direction."""
    if only is None or wanted is DesiredState.DELETED:
        return False
    above = LEVELS[wanted] - LEVELS[state]
    return above > 0 if only is Only.UP else above < 0


def limit_defaults() -> LimitDefaults:
    from codehub.config import load_settings
    from codehub.service.rules import limits_of

    return limits_of(load_settings())
