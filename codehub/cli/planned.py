"""From the command line's words to a plan: shared by `plan` and `apply`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import typer

from codehub.cli.hubs import run_state
from codehub.config import Settings, load_settings
from codehub.errors import CodeHubError, UsageError
from codehub.model.revision import HubState
from codehub.service.planning import plan_options, plan_specs
from codehub.specs.load import load_specs
from codehub.wiring import enabled_runtimes, find_hub

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from codehub.cli.server import Server
    from codehub.model.plan import Plan, PlanOptions
    from codehub.model.workspace import Runtime


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
    server: str | None = None


def plan_for(wish: Wish, now: datetime) -> Plan:
    """The plan, against the hub or, where there is none, against an empty one."""
    settings = load_settings()
    if wish.server is not None or settings.codehub_server is not None:
        from codehub.cli.server import find_server

        server = find_server(wish.server, wish.hub, wish.data, settings)
        if server is not None:
            return _plan_at(server, wish)
    return _plan_here(wish, now, settings)


def _plan_here(wish: Wish, now: datetime, settings: Settings) -> Plan:
    incoming = load_specs(wish.directory, wish.ref)
    choice = find_hub(wish.hub, wish.data, settings)
    if not choice.exists:
        typer.echo(f"no hub (no --hub, no DATABASE_URL, nothing in {choice.data})", err=True)
    stored = run_state(choice) if choice.exists else HubState()
    options = options_for(wish, settings, enabled_runtimes(choice, settings))
    return plan_specs(stored, incoming, now=now, options=options)


def _plan_at(server: Server, wish: Wish) -> Plan:
    """The same, made by the hub itself from the specs that it is sent."""
    from codehub.cli.server import post
    from codehub.render.plan_json import FORMAT_VERSION
    from codehub.service.saved import plan_of
    from codehub.specs.pack import archive, pack_specs

    if wish.show_env:
        raise UsageError(
            "--show-env needs the hub's database: over HTTP values of env are not told",
            hint="leave it out, or name the database with --hub",
        )
    if server.exposed:
        typer.echo(f"the token goes to {server.url} for all on the way to read", err=True)
    packed = pack_specs(wish.directory, wish.ref)
    origin = packed.origin
    query = {
        "directory": origin.directory,
        "commit": origin.commit,
        "dirty": "true" if origin.dirty else None,
        "asOf": wish.as_of.isoformat() if wish.as_of else None,
        "target": wish.target,
    }
    given = {name: value for name, value in query.items() if value is not None}
    told = post(server, "/plan", given, archive(packed.files), "application/gzip")
    try:
        if told["formatVersion"] == FORMAT_VERSION:
            return plan_of(told)
    except (KeyError, TypeError, ValueError, AttributeError):
        pass
    raise CodeHubError(
        f"{server.url} tells the plan in a way that this codehub does not know",
        hint="use a codehub of the same version as the hub",
    )


def options_for(wish: Wish, settings: Settings, enabled: frozenset[Runtime]) -> PlanOptions:
    return replace(
        plan_options(settings, enabled),
        as_of=wish.as_of,
        target=wish.target,
        show_env=wish.show_env,
        now=wish.immediately,
    )
