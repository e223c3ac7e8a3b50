"""The seams to the outside world, owned by those who use them.

Postgres is Postgres and has no port. Everything else that can be slow, absent or wrong is behind
one of these, with one contract test suite that each implementation passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from datetime import datetime, timedelta
    from pathlib import Path
    from types import TracebackType
    from uuid import UUID

    from codehub.model.archive import ArchiveKey, ArchiveMeta, ArchiveSubject
    from codehub.model.runtime import (
        EngineCopy,
        Listing,
        ObjectInfo,
        StartRequest,
        Stats,
        Upstream,
        VolumeRef,
    )
    from codehub.model.signals import ActivityRead, Sighting
    from codehub.model.webhook import Answer


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
        """The volume's directory where this machine can read and write all of it, else None."""

    async def require_unused(self, ref: VolumeRef) -> None:
        """Nobody has the volume, stopped ones included, else VolumeInUse that names who has it.

        What a dead job left of a copy is removed. An engine that is not ours is Unreachable.
        """

    async def open_copy(self, ref: VolumeRef) -> EngineCopy:
        """Hold a volume without a path here for a storage job, until `close_copy`.

        Nobody may use it; what a dead job left of an earlier copy is removed. An open copy that
        nobody closes blocks neither the next one, nor a start, nor `delete_volume`.
        """

    async def close_copy(self, copy: EngineCopy) -> None:
        """Let go of it; gone already is fine."""

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


class Mover(Protocol):
    """Moves homes to and from the object store: a storage job, and what it reports.

    `report` gets each line of progress (`stage`, `bytes`, `entries`, `total`). A caller that is
    cancelled ends the job. Raises ActionFailed, ArchiveCorrupted or Unreachable.
    """

    async def archive(
        self,
        volume: Path | EngineCopy,
        key: ArchiveKey,
        subject: ArchiveSubject,
        report: Callable[[Mapping[str, object]], None],
    ) -> ArchiveMeta: ...

    async def archive_nothing(self, key: ArchiveKey, subject: ArchiveSubject) -> ArchiveMeta: ...

    async def restore(
        self,
        volume: Path | EngineCopy,
        key: str,
        sha256: str | None,
        report: Callable[[Mapping[str, object]], None],
    ) -> ArchiveMeta: ...


class Signals(Protocol):
    """Redis: the activity buffer and the channels. It may forget everything at any moment.

    Every call raises `Unreachable` when Redis gives no answer.
    """

    async def record_activity(self, ages: Mapping[tuple[UUID, str], timedelta]) -> None:
        """Stamp (workspace, source) as active so long ago, by Redis's clock; only ever forward."""

    async def read_activity(self) -> ActivityRead:
        """All that is buffered, with the sentinel and the server's clock, at one moment."""

    async def forget_activity(self, seen: Iterable[Sighting]) -> None:
        """Remove what was read, each only if nothing newer came for it since."""

    async def write_sentinel(self, text: str) -> None:
        """Leave a mark that a flushed or replaced Redis would not have."""

    async def publish(self, channel: str, message: str) -> None: ...

    def subscribe(self, channel: str) -> AsyncIterator[str]:
        """The messages on a channel from now on."""

    def follow(self, patterns: Sequence[str]) -> AsyncIterator[str | None]:
        """None as soon as nothing is missed, then the messages on all channels that fit (`a:*`)."""

    async def close(self) -> None: ...


class Notifier(Protocol):
    """Posts to the addresses of webhooks, each by itself: one that hangs holds up no other."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """What the receiver answered, whatever it was; no answer in time is `Unreachable`.

        Redirects are not followed, and no message repeats more of the address than its host.
        """
