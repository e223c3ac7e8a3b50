"""`codehub undelete`: bring deleted workspaces back within the retention."""

from __future__ import annotations

from typing import Any

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
from codehub.model.states import IntentSource


def command(
    names: NamesArgument,
    reason: ReasonOption = "",
    wait: WaitOption = False,
    timeout: TimeoutOption = "10m",
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Bring back workspaces that were deleted though a spec declares them, with their homes.

    Others come back by putting them into the specs again, with the same owner.

    Example: codehub undelete payments-api --wait
    """
    way = manner(hub, data, wait, timeout)
    carry_out(names, _undeleting(reason), way)


def _undeleting(reason: str) -> Act:
    async def act(conn: Any, name: str) -> str:
        from codehub.service.intent import undelete

        moved = await undelete(conn, name, source=IntentSource.CLI, by=author(), reason=reason)
        return f"{name}: is deleted no more; {moved.new} asked for"

    return act
