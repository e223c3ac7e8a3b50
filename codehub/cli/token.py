"""`codehub token`: tokens for programs, made by whoever may reach the hub's database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from codehub.cli.consent import author
from codehub.cli.options import DataOption, HubOption
from codehub.model.access import Scope

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The token's name.")]
UserOption = Annotated[
    str | None,
    typer.Option("--user", help="Whose token; not needed where the hub has one user."),
]


@app.command()
def create(
    name: NameArgument,
    scope: Annotated[
        list[Scope],
        typer.Option(
            "--scope",
            help="read: look. wake: reach and wake workspaces. write: change things, and both "
            "of these. plan: make plans. Can be repeated.",
        ),
    ],
    user: UserOption = None,
    expires: Annotated[str, typer.Option("--expires", help="How long it is good: 12h, 90d.")] = (
        "90d"
    ),
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Make a token and print it, this once: the hub keeps only a hash of it.

    Example: codehub token create ci-plan --user alice --scope plan --expires 30d
    """
    from codehub.cli.moving import seconds_of

    lasts = timedelta(seconds=seconds_of(expires, "--expires"))

    async def act(conn: Any) -> None:
        from codehub.service.tokens import create_token

        whose = await _whose(conn, user)
        made = await create_token(conn, whose, name, scope, lasts, by=author())
        typer.echo(made.secret)
        until = made.token.expires_at
        typer.echo(
            f"The token {name} of {whose} is good until {until:%Y-%m-%d %H:%M} UTC. "
            "It is not shown again.",
            err=True,
        )

    _with_hub(hub, data, act)


@app.command("list")
def list_tokens(user: UserOption = None, hub: HubOption = None, data: DataOption = None) -> None:
    """List the tokens, without their secrets.

    Example: codehub token list --user alice
    """

    async def act(conn: Any) -> None:
        from codehub.render.tokens_text import tokens_text
        from codehub.store.clock import read_now
        from codehub.store.tokens import read_tokens

        typer.echo(tokens_text(await read_tokens(conn, user), await read_now(conn)), nl=False)

    _with_hub(hub, data, act)


@app.command()
def revoke(
    name: NameArgument, user: UserOption = None, hub: HubOption = None, data: DataOption = None
) -> None:
    """End a token, at once.

    Example: codehub token revoke ci-plan --user alice
    """

    async def act(conn: Any) -> None:
        from codehub.service.tokens import revoke_token

        whose = await _whose(conn, user)
        await revoke_token(conn, whose, name, by=author())
        typer.echo(f"The token {name} of {whose} is revoked.")

    _with_hub(hub, data, act)


def _with_hub(hub: str | None, data: Path | None, act: Callable[[Any], Awaitable[None]]) -> None:
    from codehub.cli.hubs import require_hub
    from codehub.wiring import open_hub

    async def run() -> None:
        async with open_hub(require_hub(hub, data)) as conn:
            await act(conn)

    asyncio.run(run())


async def _whose(conn: Any, user: str | None) -> str:
    """The user that is named, or the only one there is."""
    from codehub.errors import UsageError
    from codehub.store.users import read_users

    if user is not None:
        return user
    names = [name for name, each in (await read_users(conn)).items() if not each.disabled]
    if len(names) == 1:
        return names[0]
    raise UsageError("say whose token it is, with --user", hint=f"the hub has {len(names)} users")
