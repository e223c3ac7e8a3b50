"""`codehub touch`: say "still working", so that idleness counts from now."""

from __future__ import annotations

from typing import Any

from codehub.cli.consent import author
from codehub.cli.moving import Manner, NamesArgument, carry_out
from codehub.cli.options import DataOption, HubOption
from codehub.model.states import IntentSource


def command(names: NamesArgument, hub: HubOption = None, data: DataOption = None) -> None:
    """Say that somebody still works in workspaces: their idle time begins anew.

    Example: codehub touch ml-training
    """
    carry_out(names, _touching, Manner(hub, data, moves=False))


async def _touching(conn: Any, name: str) -> str:
    from codehub.service.intent import touch

    await touch(conn, name, by=author(), source=IntentSource.CLI)
    return f"{name}: idle time counts from now"
