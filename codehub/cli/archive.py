"""`codehub archive`: have workspaces leave the machine, their homes in the archive store."""

from __future__ import annotations

from codehub.cli.moving import (
    NamesArgument,
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
    """Stop workspaces and move their homes to the archive store. 'codehub restore' undoes it.

    Example: codehub archive old-poc --wait --timeout 1h
    """
    way = manner(hub, data, wait, timeout)
    carry_out(names, toward(DesiredState.ARCHIVED, reason, way=way), way)
