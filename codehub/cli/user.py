"""`codehub user`: what a User spec needs and no editor can make."""

from __future__ import annotations

import sys

import typer

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def user() -> None:
    """Make what a user's spec needs."""


@app.command("hash-password")
def hash_password() -> None:
    """Print the hash of a password, for `passwordHash` in a User spec.

    Asks twice on a terminal; otherwise reads the password from stdin.

    Example: codehub user hash-password
    """
    from codehub.service.passwords import hash_password as made

    typer.echo(made(_asked() if sys.stdin.isatty() else _read()))


def _asked() -> str:
    from getpass import getpass

    from codehub.errors import UsageError

    first = getpass("Password: ")
    if getpass("Once more: ") != first:
        raise UsageError("the two are not the same, so nothing was made", hint="try again")
    return first


def _read() -> str:
    """All of stdin but the end of its one line."""
    from codehub.errors import UsageError

    try:
        text = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise UsageError("the password on stdin is not text") from None
    if "\n" in text:
        raise UsageError("stdin must hold the password alone, on one line")
    return text
