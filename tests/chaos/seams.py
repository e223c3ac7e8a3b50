"""The ports of the coordinator with a script in front of them; `connection.py` has the database.

`test_seams.py` sees to it that no method of a port lacks its crash point.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from codehub.errors import ActionFailed, Unreachable

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
    from codehub.ports import (
        Mover,
        Notifier,
        ObjectReader,
        ObjectStore,
        ObjectWriter,
        Runtime,
        Signals,
    )
    from tests.chaos.script import Script


def lost(name: str, done: bool) -> Exception:
    """No answer: it may have happened or not."""
    return Unreachable(f"injected: {name} timed out ({'done' if done else 'not done'})")


def refused(name: str, done: bool) -> Exception:
    """No answer, or the answer "no"."""
    return lost(name, done) if done else ActionFailed(f"injected: {name} failed")


READS = frozenset(
    {
        "runtime.list",
        "runtime.require_unused",
        "runtime.volume_path",
        "runtime.launch",
        "store.head",
        "store.open_reader",
        "store.read",
        "store.list",
    }
)
"""Calls that change nothing; a launch is struck at before it is made."""


async def _nothing() -> None: ...


class ScriptedRuntime:
    """`codehub.ports.Runtime` of one leader."""

    def __init__(self, real: Runtime, script: Script) -> None:
        self._real = real
        self._script = script

    async def list(self) -> Listing:
        return await self._script.call("runtime.list", self._real.list, lost)

    async def create_volume(self, ref: VolumeRef) -> None:
        done = partial(self._real.create_volume, ref)
        await self._script.call("runtime.create_volume", done, refused)

    async def start(self, request: StartRequest, confirm: Callable[[], Awaitable[None]]) -> None:
        """A leader may be held up between confirming and launching, so that is a call too."""

        async def confirmed() -> None:
            await confirm()
            await self._script.call("runtime.launch", _nothing, refused)

        done = partial(self._real.start, request, confirmed)
        await self._script.call("runtime.start", done, refused)

    async def stop(self, workspace_id: UUID, grace: timedelta) -> None:
        done = partial(self._real.stop, workspace_id, grace)
        await self._script.call("runtime.stop", done, refused)

    async def delete_volume(self, ref: VolumeRef) -> None:
        done = partial(self._real.delete_volume, ref)
        await self._script.call("runtime.delete_volume", done, refused)

    async def volume_path(self, ref: VolumeRef) -> Path | None:
        done = partial(self._real.volume_path, ref)
        return await self._script.call("runtime.volume_path", done, lost)

    async def require_unused(self, ref: VolumeRef) -> None:
        done = partial(self._real.require_unused, ref)
        await self._script.call("runtime.require_unused", done, refused)

    async def open_copy(self, ref: VolumeRef) -> EngineCopy:
        done = partial(self._real.open_copy, ref)
        return await self._script.call("runtime.open_copy", done, refused)

    async def close_copy(self, copy: EngineCopy) -> None:
        done = partial(self._real.close_copy, copy)
        await self._script.call("runtime.close_copy", done, lost)

    async def upstream(self, workspace_id: UUID) -> Upstream | None:
        done = partial(self._real.upstream, workspace_id)
        return await self._script.call("runtime.upstream", done, lost)

    async def logs(self, workspace_id: UUID, *, lines: int, follow: bool) -> AsyncIterator[bytes]:
        await self._script.call("runtime.logs", _nothing, lost)
        async for each in self._real.logs(workspace_id, lines=lines, follow=follow):
            yield each

    async def stats(self, workspace_id: UUID) -> Stats | None:
        done = partial(self._real.stats, workspace_id)
        return await self._script.call("runtime.stats", done, lost)

    async def events(self) -> AsyncIterator[UUID]:
        await self._script.call("runtime.events", _nothing, lost)
        async for each in self._real.events():
            yield each

    async def close(self) -> None:
        await self._script.call("runtime.close", self._real.close, lost)


class ScriptedStore:
    """`codehub.ports.ObjectStore` of one leader; every key written is noted in `written`."""

    def __init__(self, real: ObjectStore, script: Script, written: list[str]) -> None:
        self._real = real
        self._script = script
        self._written = written

    def head(self, key: str) -> ObjectInfo | None:
        done = partial(self._real.head, key)
        return self._script.call_in_thread("store.head", done, lost)

    def open_writer(self, key: str) -> ObjectWriter:
        done = partial(self._real.open_writer, key)
        writer = self._script.call_in_thread("store.open_writer", done, lost)
        return ScriptedWriter(writer, self._script, partial(self._written.append, key))

    def open_reader(self, key: str) -> ObjectReader | None:
        done = partial(self._real.open_reader, key)
        reader = self._script.call_in_thread("store.open_reader", done, lost)
        return None if reader is None else ScriptedReader(reader, self._script)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        def done() -> list[ObjectInfo]:
            return [*self._real.list(prefix)]

        return iter(self._script.call_in_thread("store.list", done, lost))

    def delete(self, key: str) -> None:
        self._script.call_in_thread("store.delete", partial(self._real.delete, key), lost)

    def abort_unfinished(self, prefix: str, older_than: datetime) -> int:
        done = partial(self._real.abort_unfinished, prefix, older_than)
        return self._script.call_in_thread("store.abort_unfinished", done, lost)


class ScriptedWriter:
    """`codehub.ports.ObjectWriter`."""

    def __init__(self, real: ObjectWriter, script: Script, note: Callable[[], None]) -> None:
        self._real = real
        self._script = script
        self._note = note

    def write(self, data: bytes) -> None:
        self._script.call_in_thread("store.write", partial(self._real.write, data), lost)

    def commit(self) -> None:
        def done() -> None:
            self._real.commit()
            self._note()

        self._script.call_in_thread("store.commit", done, lost)

    def abort(self) -> None:
        self._script.call_in_thread("store.abort", self._real.abort, lost)


class ScriptedReader:
    """`codehub.ports.ObjectReader`; closing it changes nothing that anybody could see."""

    def __init__(self, real: ObjectReader, script: Script) -> None:
        self._real = real
        self._script = script

    def read(self, size: int) -> bytes:
        return self._script.call_in_thread("store.read", partial(self._real.read, size), lost)

    def __enter__(self) -> ScriptedReader:
        self._real.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._real.__exit__(kind, error, trace)


class ScriptedMover:
    """`codehub.ports.Mover`: a job may end well and its leader never hear of it."""

    def __init__(self, real: Mover, script: Script) -> None:
        self._real = real
        self._script = script

    async def archive(
        self,
        volume: Path | EngineCopy,
        key: ArchiveKey,
        subject: ArchiveSubject,
        report: Callable[[Mapping[str, object]], None],
    ) -> ArchiveMeta:
        done = partial(self._real.archive, volume, key, subject, report)
        return await self._script.call("mover.archive", done, refused)

    async def archive_nothing(self, key: ArchiveKey, subject: ArchiveSubject) -> ArchiveMeta:
        done = partial(self._real.archive_nothing, key, subject)
        return await self._script.call("mover.archive_nothing", done, refused)

    async def restore(
        self,
        volume: Path | EngineCopy,
        key: str,
        sha256: str | None,
        report: Callable[[Mapping[str, object]], None],
    ) -> ArchiveMeta:
        done = partial(self._real.restore, volume, key, sha256, report)
        return await self._script.call("mover.restore", done, refused)


class ScriptedSignals:
    """`codehub.ports.Signals` of one leader."""

    def __init__(self, real: Signals, script: Script) -> None:
        self._real = real
        self._script = script

    async def record_activity(self, ages: Mapping[tuple[UUID, str], timedelta]) -> None:
        done = partial(self._real.record_activity, ages)
        await self._script.call("signals.record_activity", done, lost)

    async def read_activity(self) -> ActivityRead:
        return await self._script.call("signals.read_activity", self._real.read_activity, lost)

    async def forget_activity(self, seen: Iterable[Sighting]) -> None:
        done = partial(self._real.forget_activity, [*seen])
        await self._script.call("signals.forget_activity", done, lost)

    async def write_sentinel(self, text: str) -> None:
        done = partial(self._real.write_sentinel, text)
        await self._script.call("signals.write_sentinel", done, lost)

    async def publish(self, channel: str, message: str) -> None:
        done = partial(self._real.publish, channel, message)
        await self._script.call("signals.publish", done, lost)

    async def subscribe(self, channel: str) -> AsyncIterator[str]:
        await self._script.call("signals.subscribe", _nothing, lost)
        async for each in self._real.subscribe(channel):
            yield each

    async def follow(self, patterns: Sequence[str]) -> AsyncIterator[str | None]:
        await self._script.call("signals.follow", _nothing, lost)
        async for each in self._real.follow(patterns):
            yield each

    async def close(self) -> None:
        await self._script.call("signals.close", self._real.close, lost)


class ScriptedNotifier:
    """`codehub.ports.Notifier` of one leader: a receiver may have it and nobody ever hear of it."""

    def __init__(self, real: Notifier, script: Script) -> None:
        self._real = real
        self._script = script

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        done = partial(self._real.post, url, headers, body)
        return await self._script.call("notifier.post", done, lost)
