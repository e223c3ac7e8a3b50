"""Which archives are there: a listing now and then, and a closer look where it matters.

An archive counts as there when the listing has it with its commit marker and the recorded size.
What the listing lacks is asked for by name, and before anything is called absent or damaged the
store must prove that it is still ours. What cannot be asked is unknown.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from codehub.coordinator.marker import check_store
from codehub.core.keys import meta_key
from codehub.errors import CodeHubError
from codehub.model.conditions import Presence
from codehub.model.states import Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from uuid import UUID

    from codehub.coordinator.shelf import Shelf
    from codehub.model.workspace import Workspace

log: Final = logging.getLogger("codehub.coordinator")

FIRST_LISTING: Final = 2.0
"""Seconds a pass waits for the first listing of a term; a longer one is awaited beside passes."""
CLOSER_LOOKS: Final = 50
"""The most archives asked for by name in one pass; the others wait for the next."""
CLOSER_SECONDS: Final = 10.0
"""Seconds a pass waits for them; after one in vain, passes wait `BRIEFLY` until all answer again:
a store that hangs must not hold up everybody else in every pass."""
BRIEFLY: Final = 0.2
SILENT: Final = "the archive store does not answer"
AGAIN: Final = 10.0
"""Seconds after which a listing that failed is tried again."""

_MOVES: Final = frozenset(
    {
        Operation.ARCHIVING,
        Operation.RESTORING,
        Operation.CREATE_EMPTY_ARCHIVE,
        Operation.DELETING,
    }
)


class Archives:
    """What is known of the archives, for one term of leadership."""

    def __init__(
        self,
        shelf: Shelf,
        *,
        interval: float,
        clock: Callable[[], float],
        on_listed: Callable[[], None],
    ) -> None:
        self._shelf = shelf
        self._interval = interval
        self._clock = clock
        self._on_listed = on_listed
        self.version = 0
        """Moves when what is known of archives may have changed for those at rest."""
        self._sizes: dict[str, int] | None = None
        self._trouble = ""
        self._listed_at: float | None = None
        self._listing: asyncio.Task[None] | None = None
        self._hangs = False
        self.doubts: dict[UUID, str] = {}
        """Why the last look could not tell of some, or what it found wrong with them."""

    async def look(self, workspaces: Iterable[Workspace]) -> dict[UUID, Presence]:
        """The archive of each workspace that has one.

        Left out of the answer are those whose archive nobody could look for yet.
        """
        named = [each for each in workspaces if each.status.archive_key is not None]
        if not named:
            return {}
        await self._list_if_due()
        self.doubts.clear()
        answers: dict[UUID, Presence] = {}
        doubtful = []
        for each in named:
            if self._is_listed(each) and each.status.operation not in _MOVES:
                answers[each.id] = Presence.PRESENT
            elif each.status.operation in _MOVES or self._sizes is not None:
                doubtful.append(each)
            elif self._trouble:
                answers[each.id] = self._unknown(each, self._trouble)
        return answers | await self._look_closer(doubtful)

    async def close(self) -> None:
        if self._listing is not None:
            self._listing.cancel()

    def _is_listed(self, workspace: Workspace) -> bool:
        status, sizes = workspace.status, self._sizes
        if sizes is None or status.archive_key is None:
            return False
        found, meta = sizes.get(status.archive_key), sizes.get(meta_key(status.archive_key))
        return _fits(workspace, found, meta)

    async def _list_if_due(self) -> None:
        due = self._listed_at is None or self._clock() - self._listed_at >= self._interval
        if due and self._listing is None:
            self._listed_at = self._clock()
            self._listing = asyncio.create_task(self._list())
        if self._sizes is None and not self._trouble and self._listing is not None:
            await asyncio.wait({self._listing}, timeout=FIRST_LISTING)

    async def _list(self) -> None:
        try:
            await check_store(self._shelf.store, self._shelf.hub_id, holds_archives=True)
            self._sizes = await self._shelf.sizes()
        except Exception as error:
            # Without a listing it is unknown what there is; soon it is tried again.
            self._trouble = _words(error)
            self._listed_at = self._clock() - self._interval + AGAIN
        else:
            self._trouble = ""
            self._on_listed()
        finally:
            self._listing = None
            self.version += 1

    async def _look_closer(self, doubtful: list[Workspace]) -> dict[UUID, Presence]:
        # Many that are gone for good must not keep away those that somebody waits for.
        doubtful.sort(key=lambda each: each.status.operation not in _MOVES)
        asked = [asyncio.create_task(self._ask(each)) for each in doubtful[:CLOSER_LOOKS]]
        if asked:
            patience = BRIEFLY if self._hangs else CLOSER_SECONDS
            _, unanswered = await asyncio.wait(asked, timeout=patience)
            self._hangs = bool(unanswered)
        answers: dict[UUID, Presence] = {}
        for each, task in zip(doubtful, asked, strict=False):
            silent = not task.done()
            answers[each.id] = self._unknown(each, SILENT) if silent else task.result()
            task.cancel()
        return answers

    async def _ask(self, workspace: Workspace) -> Presence:
        key = workspace.status.archive_key
        assert key is not None
        try:
            found, meta = await self._shelf.heads(key)
            if _fits(workspace, found, meta):
                self._remember(key, found, meta)
                return Presence.PRESENT
            await check_store(self._shelf.store, self._shelf.hub_id, holds_archives=True)
        except Exception as error:
            return self._unknown(workspace, _words(error))
        self._remember(key, found, meta)
        if found is None or meta is None:
            return Presence.ABSENT
        recorded = workspace.status.archive_bytes
        self.doubts[workspace.id] = f"{found} bytes are there, {recorded} were stored"
        return Presence.DAMAGED

    def _unknown(self, workspace: Workspace, why: str) -> Presence:
        self.doubts[workspace.id] = why
        return Presence.UNKNOWN

    def _remember(self, key: str, found: int | None, meta: int | None) -> None:
        if self._sizes is None:
            return
        for name, size in ((key, found), (meta_key(key), meta)):
            if size is None:
                self._sizes.pop(name, None)
            else:
                self._sizes[name] = size


def _fits(workspace: Workspace, found: int | None, meta: int | None) -> bool:
    recorded = workspace.status.archive_bytes
    return found is not None and meta is not None and recorded in (None, found)


def _words(error: Exception) -> str:
    """What to say of it; a fault of ours is logged, and one archive's is not everybody's."""
    if isinstance(error, CodeHubError):
        return error.message
    log.error("an archive could not be looked for", exc_info=error)
    return f"the archive store cannot be asked: unexpected {type(error).__name__}"
