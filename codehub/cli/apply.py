"""`codehub apply`: load the specs into the hub, after showing the plan."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codehub.cli.consent import ForceOption, NowOption, YesOption
from codehub.cli.moving import TimeoutOption, seconds_of, warn_unless_led
from codehub.cli.options import DataOption, HubOption, RefOption
from codehub.errors import Refused, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.cli.planned import Wish
    from codehub.model.plan import Plan
    from codehub.service.saved import SavedPlan
    from codehub.wiring import HubChoice


@dataclass(frozen=True, slots=True)
class Consent:
    """What somebody agreed to on the command line."""

    dry_run: bool
    yes: bool
    force: bool


def command(
    what: Annotated[
        Path, typer.Argument(help="The directory with the specs, or a saved plan.")
    ] = Path("specs"),
    ref: RefOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")] = False,
    yes: YesOption = False,
    force: ForceOption = False,
    immediately: NowOption = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Follow what was applied until it is done.")
    ] = False,
    timeout: TimeoutOption = "10m",
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Load the specs into the hub: the whole directory or nothing. Shows the plan and asks.

    Without a hub (--hub or DATABASE_URL) it makes an embedded one in .codehub.

    Example: codehub apply specs --yes
    """
    from codehub.cli.planned import Wish

    wish = Wish(what, ref, hub, data, immediately=immediately)
    patience = seconds_of(timeout, "--timeout")
    given = Consent(dry_run=dry_run, yes=yes, force=force)
    if not asyncio.run(_apply(wish, given, patience if wait else None)):
        raise typer.Exit(1)


async def _apply(wish: Wish, given: Consent, patience: int | None) -> bool:
    """Whether all went well, the following included."""
    from codehub.cli.consent import author, confirm, show_plan, tell_applied
    from codehub.cli.planned import options_for
    from codehub.config import load_settings
    from codehub.service.applying import Order, apply_specs
    from codehub.service.planning import plan_specs
    from codehub.specs.load import load_specs
    from codehub.store.hubs import read_hub_state
    from codehub.wiring import enabled_runtimes, find_hub, open_hub

    saved = _saved(wish)
    source = saved or wish
    incoming = load_specs(source.directory, source.ref)
    settings = load_settings()
    choice = find_hub(wish.hub, wish.data, settings)
    options = options_for(wish, settings, enabled_runtimes(choice, settings))
    async with open_hub(choice) as conn:
        now = datetime.now(UTC)
        shown = plan_specs(await read_hub_state(conn), incoming, now=now, options=options)
        show_plan(shown)
        if given.dry_run:
            return True
        confirm(shown, yes=given.yes, force=given.force)
        order = Order(incoming, author(), options, given.force, settings.apply_wait_seconds)
        revision = await apply_specs(conn, order, shown=saved.plan if saved else shown, now=now)
        tell_applied(revision)
        if patience is None:
            return True
        # Specs that the hub holds already are followed too: they may be on their way still.
        names = _touched(shown) if revision else tuple(incoming.workspaces)
        return await _follow(conn, choice, names, patience)


def _touched(plan: Plan) -> tuple[str, ...]:
    from codehub.model.plan import PASSIVE, Kind

    return tuple(
        each.name
        for each in plan.changes
        if each.kind is Kind.WORKSPACE and each.action not in PASSIVE
    )


async def _follow(
    conn: AsyncConnection[DictRow], choice: HubChoice, names: Sequence[str], patience: int
) -> bool:
    from codehub.cli.live import wait_until_settled

    if not names:
        return True
    await warn_unless_led(conn)
    return await wait_until_settled(choice, names, patience)


def _saved(wish: Wish) -> SavedPlan | None:
    """The saved plan that was named, None for a directory."""
    from codehub.service.saved import read_plan_file

    if not wish.directory.is_file():
        return None
    saved = read_plan_file(wish.directory)
    if saved.plan.target is not None:
        raise Refused(
            f"the plan in {wish.directory} covers --target {saved.plan.target} only",
            hint="a revision is the whole directory: save a plan without --target",
        )
    if wish.ref is not None:
        raise UsageError("--ref goes with a directory; a saved plan knows its own")
    return saved
