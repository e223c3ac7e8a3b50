"""`codehub open`: the way from a terminal to a workspace's page."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode, urlsplit

import typer

from codehub.cli.options import DataOption, HubOption

if TYPE_CHECKING:
    from codehub.config import Settings


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The workspace; none for the hub itself.")
    ] = None,
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the address, open nothing.")
    ] = False,
    wake: Annotated[
        bool, typer.Option("--wake/--no-wake", help="Wake it, as a visit does.")
    ] = True,
    login: Annotated[
        str | None,
        typer.Option("--as", metavar="USER", help="Give a link that logs this user in, once."),
    ] = None,
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Print a workspace's address, wake it, and open it in a browser where there is one.

    With --as it is a login link for whoever opens it first, good for a few minutes: the way in
    for users without a password.

    Example: codehub open playground --as alice
    """
    address = asyncio.run(_address(name, wake, login, hub, data))
    typer.echo(address)
    if not print_only and sys.stdout.isatty():
        _open(address)


async def _address(
    name: str | None, wake: bool, login: str | None, hub: str | None, data: Path | None
) -> str:
    from codehub.cli.addresses import hub_address, workspace_address
    from codehub.cli.hubs import require_hub
    from codehub.config import load_settings
    from codehub.wiring import open_hub

    settings, choice = load_settings(), require_hub(hub, data)
    home = hub_address(choice, settings)
    async with open_hub(choice) as conn:
        if name is not None:
            await _check(conn, name, settings, wake=wake)
        wanted = f"{home}/" if name is None else workspace_address(home, name, settings)
        if login is None:
            return wanted
        return await _link(conn, login, name, home, wanted, settings)


async def _check(conn: Any, name: str, settings: Settings, *, wake: bool) -> None:
    """Raise for a name that nobody has, and say what keeps it from opening."""
    from codehub.cli.consent import author
    from codehub.cli.moving import complain
    from codehub.errors import Refused
    from codehub.model.states import DesiredState, IntentSource
    from codehub.proxy.outcome import outcome
    from codehub.service.explaining import unknown_workspace
    from codehub.service.intent import set_desired
    from codehub.service.rules import limits_of
    from codehub.store.workspaces import find_live

    found = await find_live(conn, name)
    if found is None:
        raise await unknown_workspace(conn, name)
    result = outcome(found)
    if result is None or not wake:
        return
    if not result.wakes:
        typer.echo(f"{result.said.title}. The page says more.", err=True)
        return
    try:
        await set_desired(
            conn,
            name,
            DesiredState.RUNNING,
            source=IntentSource.VISIT,
            by=author(),
            reason="opened on the command line",
            limits=limits_of(settings),
        )
    except Refused as error:
        complain(error)


async def _link(
    conn: Any, user: str, name: str | None, home: str, wanted: str, settings: Settings
) -> str:
    """The login is the hub's; from there it goes on, to a host of the workspace's own too."""
    from codehub.cli.consent import author
    from codehub.service.links import create_login_link
    from codehub.service.sessions import lasting_of

    code = await create_login_link(conn, user, by=author(), lasting=lasting_of(settings))
    at_hub = wanted.startswith(f"{home}/")
    target = urlsplit(wanted).path if at_hub else f"/_codehub/go/{name}"
    return f"{home}/login/link?{urlencode({'code': code, 'next': target})}"


def _open(address: str) -> None:
    """In a window; a browser in this terminal would be in the way."""
    import webbrowser

    shown = sys.platform in ("darwin", "win32") or any(
        os.environ.get(each) for each in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    if shown:
        webbrowser.open(address)
