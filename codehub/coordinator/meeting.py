"""The first look at the archive store in a term: it gets its mark, and trouble is told early.

Beside the other components, because a store may be silent for minutes: workspaces that run or sleep
do without it. Nothing relies on this look: what writes or deletes archives meets the store itself.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from codehub.coordinator.marker import meet_store
from codehub.coordinator.pace import attempt, log

if TYPE_CHECKING:
    from codehub.coordinator.lead import Lead
    from codehub.coordinator.pace import Failures
    from codehub.ports import ObjectStore

SILENCE: Final = 5.0
"""Seconds without an answer after which that is said."""


class StoreMeeting:
    """Meets the store once, and then rests for as long as its process leads."""

    name = "archive store"

    def __init__(self, lead: Lead, store: ObjectStore, failures: Failures) -> None:
        self._lead = lead
        self._store = store
        self._failures = failures

    async def run(self) -> None:
        await attempt(self.name, self.meet, self._failures)
        await asyncio.Event().wait()

    async def meet(self) -> None:
        silence = asyncio.get_running_loop().call_later(SILENCE, self._tell)
        try:
            await meet_store(self._lead, self._store)
        finally:
            silence.cancel()

    def _tell(self) -> None:
        log.warning(
            "%s: no answer for %.0f s; archiving, restoring and collecting wait for it, all else"
            " goes on",
            self.name,
            SILENCE,
        )
