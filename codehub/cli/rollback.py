"""`codehub rollback`: an older revision's specs as a new revision."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from codehub.cli.consent import ForceOption, NowOption, YesOption
from codehub.cli.options import DataOption, HubOption

if TYPE_CHECKING:
    from pathlib import Path


def command(
    revision: Annotated[
        int, typer.Argument(metavar="REV", help="The revision to go back to.", min=1)
    ],
    yes: YesOption = False,
    force: ForceOption = False,
    immediately: NowOption = False,
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Load an older revision's specs again, as a new revision. Shows the plan and asks.

    The spec directory stays as it is: a hub that watches it keeps to the rollback until the specs
    change, so undo the change there too. 'codehub history' lists the revisions.

    Example: codehub rollback 12 --yes
    """
    asyncio.run(_rollback(revision, yes, force, immediately, hub, data))


async def _rollback(
    number: int, yes: bool, force: bool, immediately: bool, hub: str | None, data: Path | None
) -> None:
    from codehub.cli.consent import author, confirm, show_plan, tell_applied
    from codehub.cli.hubs import require_hub
    from codehub.config import load_settings
    from codehub.service.applying import Order, apply_specs
    from codehub.service.planning import plan_options, plan_specs
    from codehub.service.revising import read_recorded
    from codehub.store.hubs import read_hub_state
    from codehub.wiring import enabled_runtimes, open_hub

    settings, choice = load_settings(), require_hub(hub, data)
    options = replace(plan_options(settings, enabled_runtimes(choice, settings)), now=immediately)
    async with open_hub(choice) as conn:
        incoming = (await read_recorded(conn, number)).specs
        now = datetime.now(UTC)
        shown = plan_specs(await read_hub_state(conn), incoming, now=now, options=options)
        typer.echo(f"Back to revision {number}.")
        show_plan(shown)
        confirm(shown, yes=yes, force=force)
        wait = settings.apply_wait_seconds
        order = Order(incoming, author(), options, force, wait, source="rollback")
        written = await apply_specs(conn, order, shown=shown, now=now)
    tell_applied(written)
