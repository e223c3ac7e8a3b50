"""`codehub restore`: bring homes back from the archive store."""

from __future__ import annotations

from typing import Annotated

import typer

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
    start: Annotated[bool, typer.Option("--start", help="Start them as well.")] = False,
    reason: ReasonOption = "",
    wait: WaitOption = False,
    timeout: TimeoutOption = "10m",
    hub: HubOption = None,
    data: DataOption = None,
) -> None:
    """Bring the homes of archived workspaces back, and with --start run them. Stops nothing.

    Example: codehub restore old-poc --start --wait
    """
    way = manner(hub, data, wait, timeout)
    state = DesiredState.RUNNING if start else DesiredState.STANDBY
    carry_out(names, toward(state, reason, way=way, only=Only.UP), way)
