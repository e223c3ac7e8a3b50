"""Running storage jobs as processes: what the coordinator asks of `codehub.ports.Mover`.

A job ends when its standard input closes, so a coordinator that dies takes its jobs with it; one
that only gives up an act kills the job's process group and waits for its end, so that nothing
writes any more when the caller goes on.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from codehub.core.seal import read_fields
from codehub.errors import ActionFailed, ArchiveCorrupted, CodeHubError, Unreachable
from codehub.jobs.arguments import STORE_URL, archive_command, empty_command, restore_command
from codehub.jobs.restore import Limits
from codehub.model.states import ErrorReason

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from codehub.model.archive import ArchiveKey, ArchiveMeta, ArchiveSubject
    from codehub.model.runtime import EngineCopy

LONGEST_LINE: Final = 256 * 1024
LAST_WORDS: Final = 2000

_ERRORS: Final[dict[str, type[CodeHubError]]] = {
    ErrorReason.ARCHIVE_CORRUPTED: ArchiveCorrupted,
    ErrorReason.UNREACHABLE: Unreachable,
}


class JobMover:
    """Moves data by jobs of this machine, to and from the store at `store_url`."""

    def __init__(self, store_url: str, environ: Mapping[str, str]) -> None:
        self._env = {**environ, STORE_URL: store_url}

    async def archive(
        self,
        volume: Path | EngineCopy,
        key: ArchiveKey,
        subject: ArchiveSubject,
        report: Callable[[Mapping[str, object]], None],
    ) -> ArchiveMeta:
        return await self._run(archive_command(volume, key, subject), report)

    async def archive_nothing(self, key: ArchiveKey, subject: ArchiveSubject) -> ArchiveMeta:
        return await self._run(empty_command(key, subject), lambda _: None)

    async def restore(
        self,
        volume: Path | EngineCopy,
        key: str,
        sha256: str | None,
        report: Callable[[Mapping[str, object]], None],
    ) -> ArchiveMeta:
        return await self._run(restore_command(volume, key, Limits(sha256=sha256)), report)

    async def _run(
        self, command: list[str], report: Callable[[Mapping[str, object]], None]
    ) -> ArchiveMeta:
        pipe = asyncio.subprocess.PIPE
        try:
            job = await asyncio.create_subprocess_exec(
                *command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=self._env,
                limit=LONGEST_LINE,
                process_group=0,
            )
        except OSError as error:
            raise ActionFailed(f"the storage job could not be started: {error}") from error
        try:
            return await _follow(job, report)
        finally:
            await _end(job)


async def _follow(job: Process, report: Callable[[Mapping[str, object]], None]) -> ArchiveMeta:
    assert job.stdout is not None
    assert job.stderr is not None
    complaints = asyncio.create_task(_tail(job.stderr))
    last: dict[str, Any] = {}
    try:
        async for last in _events(job.stdout):
            if last["event"] == "progress":
                report(_fields(last))
        code = await job.wait()
        said = await complaints
    finally:
        complaints.cancel()
    if code == 0 and last.get("event") == "done":
        return _account(last)
    raise _failure(code, last, said)


async def _events(stream: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """What the job tells; lines that are no events, of a library perhaps, are passed over."""
    while True:
        try:
            line = await stream.readline()
        except ValueError:
            raise ActionFailed("the storage job said something that cannot be read") from None
        if not line:
            return
        told = _parse(line)
        if "event" in told:
            yield told


def _account(told: Mapping[str, Any]) -> ArchiveMeta:
    """The archive that was made or restored; that the account is wrong says nothing of it."""
    try:
        return read_fields(_fields(told))
    except ArchiveCorrupted:
        raise ActionFailed("the storage job gave no account of the archive") from None


def _fields(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name != "event"}


def _failure(code: int, last: Mapping[str, Any], said: str) -> CodeHubError:
    if last.get("event") != "failed":
        lines = said.strip().splitlines()
        why = f": {lines[-1]}" if lines else ""
        return ActionFailed(f"the storage job ended with exit code {code}{why}")
    kind = _ERRORS.get(str(last.get("reason")), ActionFailed)
    hint = last.get("hint")
    return kind(str(last.get("message")), hint=str(hint) if hint else None)


async def _tail(stream: asyncio.StreamReader) -> str:
    """The end of what a job complains of, in bounded memory."""
    kept = b""
    while piece := await stream.read(4096):
        kept = (kept + piece)[-LAST_WORDS:]
    return kept.decode(errors="replace")


def _parse(line: bytes) -> dict[str, Any]:
    try:
        read = json.loads(line)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


async def _end(job: Process) -> None:
    """Nothing of the job goes on after this; it leads its own process group, with its tar in it."""
    if job.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
    if job.stdin is not None:
        job.stdin.close()
    await job.wait()
