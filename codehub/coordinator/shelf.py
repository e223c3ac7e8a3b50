"""The object store as the controller asks it: in threads of its own, each call within a limit.

A store that hangs holds these few threads and nothing else, not even the end of the process;
asking then ends in `Unreachable`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from codehub.core.keys import hub_prefix, meta_key, operation_prefix
from codehub.errors import Unreachable
from codehub.jobs.committed import find_committed
from codehub.service.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from codehub.model.archive import ArchiveMeta
    from codehub.ports import ObjectStore

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE: Final = 30.0
LISTING_PATIENCE: Final = 600.0


class Shelf:
    """Archives of one hub in an object store."""

    def __init__(self, store: ObjectStore, hub_id: UUID) -> None:
        self.store = store
        self.hub_id = hub_id
        self._threads = Threads("codehub-shelf", 4)

    async def ask(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call it in a thread; `Unreachable` when it takes too long."""
        return await self._within(PATIENCE, partial(call, *args, **kwargs))

    async def sizes(self) -> dict[str, int]:
        """Every object of this hub and how large it is."""
        return await self._within(LISTING_PATIENCE, self._sizes)

    async def heads(self, key: str) -> tuple[int | None, int | None]:
        """The sizes of an archive and of its commit marker."""
        return await self.ask(self._heads, key)

    async def committed(self, workspace_id: UUID, op_id: UUID) -> ArchiveMeta | None:
        """The archive that some attempt of this operation has committed, if one has."""
        prefix = operation_prefix(self.hub_id, workspace_id, op_id)
        return await self.ask(find_committed, self.store, prefix)

    async def withdraw(self, key: str) -> None:
        """Take back the commit of an archive that turned out not to be complete."""
        await self.ask(self.store.delete, meta_key(key))

    def close(self) -> None:
        self._threads.close()

    def _sizes(self) -> dict[str, int]:
        return {each.key: each.size for each in self.store.list(hub_prefix(self.hub_id))}

    def _heads(self, key: str) -> tuple[int | None, int | None]:
        found, meta = self.store.head(key), self.store.head(meta_key(key))
        return (None if found is None else found.size, None if meta is None else meta.size)

    async def _within(self, seconds: float, call: Callable[[], T]) -> T:
        try:
            async with asyncio.timeout(seconds):
                return await self._threads.call(call)
        except TimeoutError:
            raise Unreachable(
                f"the archive store did not answer within {seconds:.0f} s",
                hint="see whether it can be reached",
            ) from None
