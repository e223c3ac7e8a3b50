"""`codehub plan`: what applying the specs would change, and why."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from codehub.cli.options import DataOption, HubOption, RefOption, SpecsArgument


class PlanFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    MARKDOWN = "md"
    HTML = "html"


FormatOption = Annotated[PlanFormat, typer.Option("--format", help="How to show the plan.")]
OutOption = Annotated[Path | None, typer.Option("--out", help="Write it to this file instead.")]


def command(
    directory: SpecsArgument = Path("specs"),
    ref: RefOption = None,
    output: FormatOption = PlanFormat.TEXT,
    out: OutOption = None,
    save: Annotated[
        Path | None, typer.Option("--save", help="Save the plan for 'codehub apply PLAN'.")
    ] = None,
    exit_code: Annotated[
        bool,
        typer.Option("--exit-code", help="0 nothing to do, 2 changes, 3 drift only, 4 unsafe."),
    ] = False,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", help="Also forecast TTL moves until then: +8h, or a time."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", help="Only this workspace, or those with this label: key=value."),
    ] = None,
    show_env: Annotated[
        bool, typer.Option("--show-env", help="Show the values of env, not only its keys.")
    ] = False,
    hub: HubOption = None,
    data: DataOption = None,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            help="Ask the hub at this address, with the token in CODEHUB_TOKEN.",
        ),
    ] = None,
) -> None:
    """Show what applying the specs would change, and why. Changes nothing.

    Without a hub (--hub, --server or CODEHUB_SERVER, DATABASE_URL, or an embedded one in .codehub)
    it plans against an empty one, and says so.

    Example: codehub plan specs --format md --out plan.md
    """
    from codehub.cli.planned import Wish, plan_for
    from codehub.cli.printing import colorful, deliver, write_file
    from codehub.core.plan import exit_code as code_of
    from codehub.render.plan_formats import render_plan
    from codehub.service.planning import moment

    now = datetime.now(UTC)
    until = moment(as_of, now) if as_of else None
    wish = Wish(directory, ref, hub, data, until, target, show_env, server=server)
    plan = plan_for(wish, now)
    text = render_plan(plan, output, color=out is None and colorful())
    if save is not None:
        from codehub.service.saved import save_plan

        write_file(save, save_plan(plan, ref=ref))
        typer.echo(f"plan saved; apply it with 'codehub apply {save}'", err=True)
    deliver(text, out, "plan")
    if exit_code:
        raise typer.Exit(code_of(plan))
