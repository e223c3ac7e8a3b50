"""`codehub serve`: the production processes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codehub.cli.options import DataOption, HubOption

app = typer.Typer(no_args_is_help=True, help="Run a production process.")


@app.callback()
def _callback() -> None:
    """Run a production process.

    Example: codehub serve coordinator --specs /srv/specs
    """


@app.command("coordinator")
def coordinator(
    specs: Annotated[
        Path | None, typer.Option(help="Watch this directory and load what changes.")
    ] = None,
    ref: Annotated[
        str | None, typer.Option(help="Read the specs from git at this ref, not from the files.")
    ] = None,
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Stand for election, and converge the hub's workspaces while leading.

    Run as many as you like: one leads, the others take over when it ends.

    Example: codehub serve coordinator --hub postgresql://codehub@db/codehub --specs /srv/specs
    """
    from codehub.cli.serving import serve_coordinator

    serve_coordinator(hub, data, specs, ref)
