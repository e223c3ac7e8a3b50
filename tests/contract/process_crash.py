"""A hub that dies where it is told: runs one action of the process runtime up to a crash point."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from codehub.adapters.process import ProcessRuntime
from codehub.model.runtime import StartRequest, VolumeRef
from tests.contract.crash_points import obey

if TYPE_CHECKING:
    from collections.abc import Callable


def prepare(order: dict[str, Any]) -> Callable[[], None]:
    runtime = ProcessRuntime(Path(order["root"]), order["hub_id"])
    return partial(_run, runtime, order)


def _run(runtime: ProcessRuntime, order: dict[str, Any]) -> None:
    asyncio.run(_act(runtime, order))


async def _act(runtime: ProcessRuntime, order: dict[str, Any]) -> None:
    ref = VolumeRef(UUID(order["workspace_id"]), 1)
    match order["action"]:
        case "claim":
            await runtime.claim()
        case "create":
            await runtime.create_volume(ref)
        case "start":
            await runtime.start(request(ref, UUID(order["op_id"]), order["command"]), _leads)
        case "stop":
            await runtime.stop(ref.workspace_id, timedelta(seconds=30))
        case "delete":
            await runtime.delete_volume(ref)


def request(ref: VolumeRef, op_id: UUID, command: list[str]) -> StartRequest:
    return StartRequest(
        workspace_id=ref.workspace_id,
        name="api",
        volume=ref,
        op_id=op_id,
        template_digest="t1",
        command=tuple(command),
        env={},
        port=8080,
    )


async def _leads() -> None:
    """We still lead."""


if __name__ == "__main__":
    obey(prepare)
