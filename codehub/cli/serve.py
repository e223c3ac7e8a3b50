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


HostOption = Annotated[str, typer.Option(help="The address to listen on.")]
PortOption = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")]


@app.command("proxy")
def proxy(
    host: HostOption = "127.0.0.1",
    port: PortOption = 8080,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="Processes that share the port (PROXY_WORKERS)."),
    ] = None,
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Serve workspaces to people: log them in, forward, wake on a visit, record activity.

    Run as many as you like, behind a load balancer or on one port with --workers. Set
    PROXY_PUBLIC_URL to the address that browsers use, and WEB_URL to that of 'codehub serve web'.

    Example: codehub serve proxy --host 0.0.0.0 --port 8080 --workers 2
    """
    from codehub.cli.fronting import Part, serve

    serve(Part.PROXY, hub, data, host, port, workers)


@app.command("web")
def web(
    host: HostOption = "127.0.0.1",
    port: PortOption = 8081,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="Processes that share the port (WEB_WORKERS)."),
    ] = None,
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Serve the dashboard, the API and its events, behind 'codehub serve proxy'.

    Run as many as you like. Proxies find it by WEB_URL; nobody else needs to reach it.

    Example: codehub serve web --host 10.0.0.5 --port 8081
    """
    from codehub.cli.fronting import Part, serve

    serve(Part.WEB, hub, data, host, port, workers)


@app.command("all")
def all_(
    specs: Annotated[
        Path | None, typer.Option(help="Watch this directory and load what changes.")
    ] = None,
    ref: Annotated[
        str | None, typer.Option(help="Read the specs from git at this ref, not from the files.")
    ] = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8080,
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Serve everything in one process: coordinator, dashboard and API, and the proxy.

    For one machine. Workspaces go on running when it ends, and are found again.

    Example: codehub serve all --specs /srv/specs --host 0.0.0.0
    """
    from codehub.cli.serving_all import serve_all

    serve_all(hub, data, specs, ref, host, port)
