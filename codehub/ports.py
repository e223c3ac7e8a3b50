"""The seams to the outside world, owned by those who use them.

Postgres is Postgres and has no port. Everything else that can be slow, absent or wrong is behind
one of these, with one contract test suite that each implementation passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from datetime import datetime, timedelta
    from pathlib import Path
    from types import TracebackType
    from uuid import UUID

    from codehub.model.runtime import Listing, ObjectInfo, StartRequest, Stats, Upstream, VolumeRef


class Runtime(Protocol):
    """Where containers and volumes live. Absent is an answer; no answer is `Unreachable`."""

    async def list(self) -> Listing:
        """Everything of this hub, in bulk; checks the identity marker; never less than all."""

    async def create_volume(self, ref: VolumeRef) -> None:
        """There and ours is fine; a foreign namesake is a NameConflict and stays untouched."""

    async def start(self, request: StartRequest, confirm: Callable[[], Awaitable[None]]) -> None:
        """Verify the volume, `confirm` that we still lead, start, return when the port answers."""

    async def stop(self, workspace_id: UUID, grace: timedelta) -> None:
        """SIGTERM, grace, SIGKILL, remove; absent is fine."""

    async def delete_volume(self, ref: VolumeRef) -> None:
        """Absent is fine; in use is VolumeInUse; never by force."""

    async def volume_path(self, ref: VolumeRef) -> Path | None:
        """The volume's directory where this machine can read it, else None."""

    async def upstream(self, workspace_id: UUID) -> Upstream | None:
        """Where the running workspace answers; None when it does not run."""

    def logs(self, workspace_id: UUID, *, lines: int, follow: bool) -> AsyncIterator[bytes]:
        """The last lines of its output, then what comes."""

    async def stats(self, workspace_id: UUID) -> Stats | None:
        """CPU and memory of everything that belongs to it; None when it does not run."""

    def events(self) -> AsyncIterator[UUID]:
        """Ids of workspaces that just changed: hints to look sooner, never facts."""

    async def close(self) -> None:
        """Let go of connections and watchers; workspaces go on."""


class ObjectWriter(Protocol):
    """An object being written; it exists for others only after `commit`."""

    def write(self, data: bytes) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...


class ObjectReader(Protocol):
    """An object being read."""

    def read(self, size: int) -> bytes: ...

    def __enter__(self) -> ObjectReader: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class ObjectStore(Protocol):
    """Where archives live. Calls block: the coordinator makes them in threads.

    A key that is not there is an answer; a store that cannot be asked is `Unreachable`.
    """

    def head(self, key: str) -> ObjectInfo | None: ...

    def open_writer(self, key: str) -> ObjectWriter: ...

    def open_reader(self, key: str) -> ObjectReader | None: ...

    def list(self, prefix: str) -> Iterator[ObjectInfo]: ...

    def delete(self, key: str) -> None:
        """Absent is fine."""

    def abort_unfinished(self, prefix: str, older_than: datetime) -> int:
        """Give up uploads begun before then that never committed; how many there were."""
