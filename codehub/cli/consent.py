"""What `apply` and `rollback` share: the plan is shown, somebody agrees, the result is told."""

from __future__ import annotations

import getpass
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from codehub.errors import PlanUnsafe, Refused

if TYPE_CHECKING:
    from codehub.model.plan import Plan
    from codehub.model.revision import Revision

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Apply an unsafe plan.")]
NowOption = Annotated[bool, typer.Option("--now", help="Lower workspaces now, also those in use.")]


def show_plan(plan: Plan) -> None:
    from codehub.cli.printing import colorful
    from codehub.render.plan_text import plan_text

    typer.echo(plan_text(plan, color=colorful()), nl=False)


def confirm(plan: Plan, *, yes: bool, force: bool) -> None:
    """Unsafe plans need `--force`, all others a yes; what changes nothing needs neither."""
    if plan.unsafe and not force:
        raise PlanUnsafe(plan.unsafe)
    if yes or not plan.has_changes:
        return
    if not sys.stdin.isatty():
        raise Refused("nobody is there to ask, so nothing was applied", hint="add --yes")
    if not typer.confirm("\nApply?", default=False):
        raise Refused("nothing was applied")


def author() -> str:
    """Who is at the keyboard, for the history."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def tell_applied(revision: Revision | None) -> None:
    if revision is None:
        typer.echo("Nothing to apply: the hub holds these specs already.")
        return
    summary = revision.summary
    counts = ", ".join(f"{summary.get(key, 0)} {key}d" for key in ("create", "update", "delete"))
    typer.echo(f"Revision {revision.id} applied: workspaces {counts}. See 'codehub status'.")
