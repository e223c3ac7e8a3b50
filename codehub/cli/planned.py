"""From the command line's words to a plan: shared by `plan` and `apply`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import typer

from codehub.cli.hubs import run_state
from codehub.config import Settings, load_settings
from codehub.errors import UsageError
from codehub.model.revision import HubState
from codehub.model.scalars import parse_duration
from codehub.service.planning import plan_options, plan_specs
from codehub.specs.load import load_specs
from codehub.wiring import enabled_runtimes, find_hub

if TYPE_CHECKING:
    from pathlib import Path

    from codehub.cli.plan import PlanFormat
    from codehub.model.plan import Plan, PlanOptions
    from codehub.model.workspace import Runtime

_AHEAD = re.compile(r"\+(\d+[smhd])")


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody asked to be planned."""

    directory: Path
    ref: str | None = None
    hub: str | None = None
    data: Path | None = None
    as_of: datetime | None = None
    target: str | None = None
    show_env: bool = False
    immediately: bool = False


def plan_for(wish: Wish, now: datetime) -> Plan:
    """The plan, against the hub or, where there is none, against an empty one."""
    incoming = load_specs(wish.directory, wish.ref)
    settings = load_settings()
    choice = find_hub(wish.hub, wish.data, settings)
    if not choice.exists:
        typer.echo(f"no hub (no --hub, no DATABASE_URL, nothing in {choice.data})", err=True)
    stored = run_state(choice) if choice.exists else HubState()
    options = options_for(wish, settings, enabled_runtimes(choice, settings))
    return plan_specs(stored, incoming, now=now, options=options)


def options_for(wish: Wish, settings: Settings, enabled: frozenset[Runtime]) -> PlanOptions:
    return replace(
        plan_options(settings, enabled),
        as_of=wish.as_of,
        target=wish.target,
        show_env=wish.show_env,
        now=wish.immediately,
    )


def moment(text: str, now: datetime) -> datetime:
    """`+8h` from now, or a time such as 2026-12-01T08:00+01:00; one without a zone is UTC."""
    ahead = _AHEAD.fullmatch(text)
    try:
        if ahead:
            then = now + timedelta(seconds=parse_duration(ahead[1]))
        else:
            then = datetime.fromisoformat(text)
            then = then if then.tzinfo else then.replace(tzinfo=now.tzinfo)
    except (ValueError, OverflowError):
        raise UsageError(
            f'--as-of cannot read "{text}"', hint="examples: +8h, +3d, 2026-12-01T08:00Z"
        ) from None
    if then <= now:
        raise UsageError("--as-of must lie ahead", hint="examples: +8h, +3d")
    return then


def render_plan(plan: Plan, output: PlanFormat, *, color: bool = False) -> str:
    """The plan in one of its renderings, ending with a line break."""
    match output.value:
        case "json":
            from codehub.render.plan_json import plan_json

            text = plan_json(plan)
        case "md":
            from codehub.render.plan_markdown import plan_markdown

            text = plan_markdown(plan)
        case "html":
            from codehub.render.plan_html import plan_html

            text = plan_html(plan)
        case _:
            from codehub.render.plan_text import plan_text

            text = plan_text(plan, color=color)
    return text if text.endswith("\n") else text + "\n"
