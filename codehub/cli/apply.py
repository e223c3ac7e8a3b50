"""`codehub apply`: load the specs into the hub, after showing the plan."""

from __future__ import annotations

import asyncio
import getpass
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codehub.cli.options import DataOption, HubOption, RefOption
from codehub.errors import PlanUnsafe, Refused, UsageError

if TYPE_CHECKING:
    from codehub.cli.planned import Wish
    from codehub.model.plan import Plan
    from codehub.model.revision import Revision
    from codehub.service.saved import SavedPlan


def command(
    what: Annotated[
        Path, typer.Argument(help="The directory with the specs, or a saved plan.")
    ] = Path("specs"),
    ref: RefOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Apply an unsafe plan.")] = False,
    immediately: Annotated[
        bool, typer.Option("--now", help="Lower workspaces now, also those in use.")
    ] = False,
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Load the specs into the hub: the whole directory or nothing. Shows the plan and asks.

    Without a hub (--hub or DATABASE_URL) it makes an embedded one in .codehub.

    Example: codehub apply specs --yes
    """
    from codehub.cli.planned import Wish

    wish = Wish(what, ref, hub, data, immediately=immediately)
    asyncio.run(_apply(wish, dry_run=dry_run, yes=yes, force=force))


async def _apply(wish: Wish, *, dry_run: bool, yes: bool, force: bool) -> None:
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
        _show(shown)
        if dry_run:
            return
        _confirm(shown, yes=yes, force=force)
        order = Order(incoming, _author(), options, force, settings.apply_wait_seconds)
        revision = await apply_specs(conn, order, shown=saved.plan if saved else shown, now=now)
    _tell(revision)


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


def _show(plan: Plan) -> None:
    from codehub.cli.printing import colorful
    from codehub.render.plan_text import plan_text

    typer.echo(plan_text(plan, color=colorful()), nl=False)


def _confirm(plan: Plan, *, yes: bool, force: bool) -> None:
    """Unsafe plans need `--force`, all others a yes; what changes nothing needs neither."""
    if plan.unsafe and not force:
        raise PlanUnsafe(plan.unsafe)
    if yes or not plan.has_changes:
        return
    if not sys.stdin.isatty():
        raise Refused("nobody is there to ask, so nothing was applied", hint="add --yes")
    if not typer.confirm("\nApply?", default=False):
        raise Refused("nothing was applied")


def _author() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def _tell(revision: Revision | None) -> None:
    if revision is None:
        typer.echo("Nothing to apply: the hub holds these specs already.")
        return
    summary = revision.summary
    counts = ", ".join(f"{summary.get(key, 0)} {key}d" for key in ("create", "update", "delete"))
    typer.echo(f"Revision {revision.id} applied: workspaces {counts}. See 'codehub status'.")
