"""`codehub recover`: leave ERROR, and after a loss choose what takes the data's place."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from codehub.cli.consent import author
from codehub.cli.moving import (
    Act,
    NamesArgument,
    ReasonOption,
    TimeoutOption,
    WaitOption,
    carry_out,
    manner,
)
from codehub.cli.options import DataOption, HubOption
from codehub.errors import UsageError
from codehub.model.states import IntentSource, RecoverMode

WORDS = {
    RecoverMode.PLAIN: "recovery asked for",
    RecoverMode.FROM_ARCHIVE: "recovery from its last archive asked for",
    RecoverMode.ACCEPT_EMPTY: "recovery with an empty home asked for",
}


def command(
    names: NamesArgument,
    from_archive: Annotated[
        bool, typer.Option("--from-archive", help="After a loss: take the last archive.")
    ] = False,
    accept_empty: Annotated[
        bool, typer.Option("--accept-empty", help="After a loss: start with an empty home.")
    ] = False,
    reason: ReasonOption = "",
    wait: WaitOption = False,
    timeout: TimeoutOption = "10m",
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Take workspaces out of ERROR; the hub then tries again.

    Where a home was lost, one of --from-archive and --accept-empty says what takes its place.

    Example: codehub recover payments-api --wait
    """
    way = manner(hub, data, wait, timeout)
    carry_out(names, _recovering(_mode(from_archive, accept_empty), reason), way)


def _mode(from_archive: bool, accept_empty: bool) -> RecoverMode:
    if from_archive and accept_empty:
        raise UsageError("--from-archive and --accept-empty exclude each other")
    if from_archive:
        return RecoverMode.FROM_ARCHIVE
    return RecoverMode.ACCEPT_EMPTY if accept_empty else RecoverMode.PLAIN


def _recovering(mode: RecoverMode, reason: str) -> Act:
    async def act(conn: Any, name: str) -> str:
        from codehub.service.intent import request_recover

        await request_recover(conn, name, mode, by=author(), source=IntentSource.CLI, reason=reason)
        return f"{name}: {WORDS[mode]}"

    return act
