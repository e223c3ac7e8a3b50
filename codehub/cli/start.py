"""`codehub start`: have workspaces run."""

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
    """Start workspaces, as high as their specs allow; archived ones are restored first.

    Example: codehub start payments-api --wait
    """
    way = manner(hub, data, wait, timeout)
    carry_out(names, toward(DesiredState.RUNNING, reason, way=way, only=Only.UP), way)
