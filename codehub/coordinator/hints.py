"""Hints: who is to be looked at sooner. Losing all of them costs delay, never correctness."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID


@dataclass(frozen=True, slots=True)
class Hinted:
    """What came since the last look: all of them, or these."""

    everything: bool = False
    ids: frozenset[UUID] = frozenset()

    def __bool__(self) -> bool:
        return self.everything or bool(self.ids)


class Hints:
    """Gathered by listeners and finished acts, taken by the controller before each pass."""

    def __init__(self) -> None:
        self._ids: set[UUID] = set()
        self._everything = False
        self._arrived = asyncio.Event()

    def tell(self, workspace_id: UUID | None = None) -> None:
        """Look at this workspace at once; at all of them when none is named."""
        if workspace_id is None:
            self._everything = True
        else:
            self._ids.add(workspace_id)
        self._arrived.set()

    async def wait(self, seconds: float) -> None:
        """Until a hint comes, at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._arrived.wait()

    def take(self) -> Hinted:
        """What was hinted at, and forget it."""
        taken = Hinted(self._everything, frozenset(self._ids))
        self._everything = False
        self._ids.clear()
        self._arrived.clear()
        return taken
