"""How verbs reach their hub."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from codehub.config import load_settings
from codehub.errors import NotFound
from codehub.wiring import HubChoice, find_hub, open_hub

if TYPE_CHECKING:
    from pathlib import Path

    from codehub.model.revision import HubState


def require_hub(hub: str | None, data: Path | None) -> HubChoice:
    """The hub, which must exist: looking must not create one."""
    choice = find_hub(hub, data, load_settings())
    if not choice.exists:
        raise NotFound(
            f"there is no hub here (no --hub, no DATABASE_URL, nothing in {choice.data})",
            hint="'codehub apply' makes one, or name yours with --hub",
        )
    return choice


def stored_state(hub: str | None, data: Path | None) -> HubState:
    """What the hub holds, read in one snapshot."""
    return run_state(require_hub(hub, data))


def run_state(choice: HubChoice) -> HubState:
    """`read_state` for callers that are not async.

    The state is not the task's result: asyncio restores the signal handler through an enum that
    formats the task, result and all, and that takes longer than reading did.
    """
    kept: list[HubState] = []

    async def read() -> None:
        kept.append(await read_state(choice))

    asyncio.run(read())
    return kept[0]


async def read_state(choice: HubChoice) -> HubState:
    from codehub.store.hubs import read_hub_state

    async with open_hub(choice) as conn:
        return await read_hub_state(conn)
