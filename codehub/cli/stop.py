"""`codehub stop`: have workspaces sleep, their homes at hand."""

from __future__ import annotations

from codehub.cli.moving import (
    NamesArgument,
    Only,
    ReasonOption,
    TimeoutOption,
    WaitOption,
    carry_out,
    manner,
    toward,
)
from codehub.cli.options import DataOption, HubOption
from codehub.model.states import DesiredState


def command(
    names: NamesArgument,
    reason: ReasonOption = "",
    wait: WaitOption = False,
    timeout: TimeoutOption = "10m",
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Stop workspaces; their homes stay as they are. A visit or 'codehub start' wakes them.

    Example: codehub stop payments-api web --reason 'no demo today'
    """
    way = manner(hub, data, wait, timeout)
    carry_out(names, toward(DesiredState.STANDBY, reason, way=way, only=Only.DOWN), way)
