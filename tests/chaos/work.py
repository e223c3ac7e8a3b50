"""Storage jobs in threads of the test, with a script in front of what they do to a volume.

In reality a job is a process that ends with its leader, wherever it is. So a job's thread must be
gone before the next leader begins, and must not clean up after a crash.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from codehub.coordinator import steps
from codehub.jobs import archive as archive_job
from codehub.jobs import restore as restore_job
from codehub.jobs import tarchild
from codehub.jobs.archive import archive, archive_nothing
from codehub.jobs.progress import Progress
from codehub.jobs.restore import Limits, restore
from codehub.jobs.volume import empty_volume
from codehub.model.runtime import EngineCopy
from tests.chaos.seams import refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from codehub.jobs.tarchild import TarChild
    from codehub.model.archive import ArchiveKey, ArchiveMeta, ArchiveSubject
    from codehub.ports import ObjectStore
    from tests.chaos.script import Script

T = TypeVar("T")

SOON = 0.001
_script: ContextVar[Script] = ContextVar("script")


class ThreadMover:
    """`codehub.ports.Mover` of one leader. Each job tells once how far it is, at its begin."""

    def __init__(self, store: ObjectStore, script: Script) -> None:
        self._store = store
        self._script = script
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="job")

    async def archive(
        self,
        volume: Path | EngineCopy,
        key: ArchiveKey,
        subject: ArchiveSubject,
        report: Callable[[Mapping[str, object]], None],
    ) -> ArchiveMeta:
        await self._tell(report)
        return await self._run(archive, self._store, _path(volume), key, subject, _silent())

    async def archive_nothing(self, key: ArchiveKey, subject: ArchiveSubject) -> ArchiveMeta:
        return await self._run(archive_nothing, self._store, key, subject, _silent())

    async def restore(
        self,
        volume: Path | EngineCopy,
        key: str,
        sha256: str | None,
        report: Callable[[Mapping[str, object]], None],
    ) -> ArchiveMeta:
        await self._tell(report)
        limits = Limits(sha256=sha256)
        return await self._run(restore, self._store, _path(volume), key, _silent(), limits)

    async def close(self) -> None:
        """Until no thread is left; they end at their next call once the script is dead."""
        await asyncio.to_thread(self._threads.shutdown)

    async def _tell(self, report: Callable[[Mapping[str, object]], None]) -> None:
        """Wait for it to be stored, so that calls come in the same order in every run."""
        before = len(self._script.calls)
        report({"stage": "begun", "bytes": 0, "entries": 0})
        while len(self._script.calls) == before and not self._script.dead:  # noqa: ASYNC110
            await asyncio.sleep(SOON)
        await self._script.idle(but=1)

    async def _run(self, job: Callable[..., T], *args: Any) -> T:
        _script.set(self._script)
        call = partial(copy_context().run, job, *args)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


def _path(volume: Path | EngineCopy) -> Path:
    """What a copy holds lies in a directory here as well."""
    return Path(volume.directory) if isinstance(volume, EngineCopy) else volume


def _silent() -> Progress:
    return Progress(lambda _: None, lambda: 0.0)


class ScriptedTar:
    """A tar child that can be struck; not at reading: how often that is, is left to chance."""

    def __init__(self, real: TarChild, script: Script) -> None:
        self._real = real
        self._script = script

    def __enter__(self) -> ScriptedTar:
        self._real.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._real.__exit__(kind, error, trace)

    @property
    def sockets(self) -> int:
        return self._real.sockets

    def read(self) -> bytes:
        return self._real.read()

    def write(self, data: bytes | memoryview) -> None:
        self._script.call_in_thread("job.write", partial(self._real.write, data), _failed)

    def finish(self) -> None:
        self._script.call_in_thread("job.finish", self._real.finish, _failed)


def _failed(name: str, done: bool) -> Exception:
    """A disk says no; it does not say nothing."""
    return refused(name, False)


def _scripted(name: str, real: Callable[[Path], None]) -> Callable[[Path], None]:
    def call(volume: Path) -> None:
        _script.get().call_in_thread(name, partial(real, volume), _failed)

    return call


@contextmanager
def scripted_jobs() -> Iterator[None]:
    """Jobs that ask their script, with tar off its leash: the thread that started it ends it."""
    kept = [
        (archive_job, "pack", lambda volume: ScriptedTar(tarchild.pack(volume), _script.get())),
        (
            restore_job,
            "unpack",
            lambda volume, _: ScriptedTar(tarchild.unpack(volume), _script.get()),
        ),
        (restore_job, "settle", _scripted("job.sync", lambda _: None)),
        (restore_job, "discard", _scripted("job.empty", empty_volume)),
        (tarchild, "_leashed", lambda command: command),
        (steps, "PROGRESS_SECONDS", SOON),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in kept]
    for module, name, value in kept:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
