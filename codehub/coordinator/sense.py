"""A runtime's own events as hints: a container that just died is looked at at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from codehub.errors import CodeHubError

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from codehub.coordinator.hints import Hints
    from codehub.ports import Runtime

AGAIN: Final = 5.0
"""Seconds before a stream that broke is opened again."""


class Sense:
    """Listens to one runtime. What is missed is found by the next pass over all.

    `is_ours` says that an act of ours is at work on a workspace. Then its events are what we do
    ourselves, and the end of the act is hint enough: looks in between would only hold it up.
    """

    def __init__(
        self,
        name: str,
        runtime: Runtime,
        hints: Hints,
        is_ours: Callable[[UUID], bool] = lambda _: False,
    ) -> None:
        self.name = f"events of {name}"
        self._runtime = runtime
        self._hints = hints
        self._is_ours = is_ours

    async def run(self) -> None:
        while True:
            try:
                async for workspace_id in self._runtime.events():
                    if not self._is_ours(workspace_id):
                        self._hints.tell(workspace_id)
            except CodeHubError:
                pass  # passes say what is wrong with the runtime; this only looks sooner
            self._hints.tell()
            await asyncio.sleep(AGAIN)
