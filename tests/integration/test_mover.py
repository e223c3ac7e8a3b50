"""Storage jobs as the coordinator runs them: processes that report, fail clearly, and end."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from codehub.core.keys import build_key, meta_key
from codehub.core.seal import meta_fields
from codehub.errors import ActionFailed, ArchiveCorrupted, CodeHubError, Unreachable
from codehub.jobs import mover as module
from codehub.jobs.mover import JobMover
from codehub.model.archive import ArchiveKey, ArchiveMeta, ArchiveSubject
from tests.integration.jobs import SUBJECT, archive_here, has_ended, new_key, new_store, watching

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from codehub.adapters.localstore import LocalStore

pytestmark = pytest.mark.anyio

PATIENCE = 60


class Place:
    """A home, a store and a mover between them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.home = path / "home"
        self.home.mkdir()
        (self.home / "notes.txt").write_text("mine")
        self.volume = path / "volume"
        self.volume.mkdir()
        self.store: LocalStore = new_store(path / "store")
        self.told: list[Mapping[str, object]] = []

    def mover(self, **environ: str) -> JobMover:
        return JobMover(f"file://{self.path / 'store'}", {**os.environ, **environ})

    async def archive(self, mover: JobMover | None = None) -> ArchiveMeta:
        return await (mover or self.mover()).archive(
            self.home, new_key(), SUBJECT, self.told.append
        )

    async def restore(self, key: str, sha256: str | None = None) -> ArchiveMeta:
        return await self.mover().restore(self.volume, key, sha256, self.told.append)

    @property
    def stages(self) -> list[object]:
        """In their order, each once."""
        return list(dict.fromkeys(each["stage"] for each in self.told))

    def objects(self) -> list[str]:
        return [each.key for each in self.store.list("")]


@pytest.fixture
async def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def test_a_home_goes_into_the_store_and_comes_back(place: Place) -> None:
    meta = await place.archive()
    assert (meta.workspace_name, meta.generation, meta.entries) == ("payments-api", 4, 2)
    assert place.stages == ["pack", "verify", "commit"]
    assert place.objects() == sorted([meta.key, meta_key(meta.key)])

    place.told.clear()
    assert await place.restore(meta.key, meta.sha256) == meta
    assert place.stages == ["check", "unpack", "sync"]
    assert (place.volume / "notes.txt").read_text() == "mine"


async def test_each_report_is_plain_data_about_the_stage(place: Place) -> None:
    await place.archive()
    for each in place.told:
        assert each.keys() - {"total"} == {"stage", "bytes", "entries"}, each
        assert json.loads(json.dumps(dict(each))) == each


async def test_nothing_can_be_archived_too(place: Place) -> None:
    key = ArchiveKey(UUID(int=1), UUID(int=2), UUID(int=3), "only")
    subject = ArchiveSubject("api", "alice", 0, datetime(2026, 11, 1, tzinfo=UTC))
    meta = await place.mover().archive_nothing(key, subject)
    assert (meta.key, meta.entries) == (build_key(key), 0)
    await place.restore(meta.key)
    assert list(place.volume.iterdir()) == []


# What a job says when it fails


async def test_a_damaged_archive_is_told_apart(place: Place) -> None:
    meta = archive_here(place.store, place.home)
    path = place.path / "store" / meta.key
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ArchiveCorrupted, match="not what was stored"):
        await place.restore(meta.key)
    assert list(place.volume.iterdir()) == []


async def test_another_archive_than_the_recorded_one_is_not_taken(place: Place) -> None:
    meta = archive_here(place.store, place.home)
    with pytest.raises(ArchiveCorrupted, match="not the one that the hub recorded"):
        await place.restore(meta.key, "0" * 64)


async def test_a_store_that_is_away_is_unreachable(place: Place) -> None:
    (place.path / "store").rename(place.path / "elsewhere")
    with pytest.raises(Unreachable, match="no archive store") as caught:
        await place.archive()
    assert caught.value.hint == "mount it, or correct the address of the store"


async def test_a_refusal_keeps_its_words_and_its_hint(place: Place) -> None:
    shutil.rmtree(place.home)
    with pytest.raises(ActionFailed, match="cannot be used: No such file or directory") as caught:
        await place.archive()
    assert type(caught.value) is ActionFailed
    assert place.objects() == []


# A job that is ended


@pytest.fixture
async def stuck(place: Place) -> AsyncIterator[Stuck]:
    with ExitStack() as stack:
        made = Stuck(place, stack)
        try:
            yield made
        finally:
            made.task.cancel()
            await asyncio.wait({made.task})


class Stuck:
    """A job that gets nowhere: its tar never says a word."""

    def __init__(self, place: Place, stack: ExitStack) -> None:
        programs = place.path / "programs"
        programs.mkdir()
        self._said = programs / "pid"
        tar = programs / "gtar"
        said = f"echo $$ > {self._said}.new && mv {self._said}.new {self._said}"
        tar.write_text(f"#!/bin/sh\n{said}\nexec sleep 600\n")
        tar.chmod(0o755)
        path = f"{programs}:{os.environ.get('PATH', os.defpath)}"
        self.task = asyncio.create_task(place.archive(place.mover(PATH=path)))
        self._stack = stack
        self.job = 0

    async def hangs(self) -> tuple[int, int]:
        """Wait until it does; descriptors of the job and its tar, to see their ends."""
        async with asyncio.timeout(PATIENCE):
            while not self._said.exists():
                assert not self.task.done(), self.task
                await asyncio.sleep(0.02)
        tar = int(self._said.read_text())
        self.job = parent_of(tar)
        return (
            self._stack.enter_context(watching(self.job)),
            self._stack.enter_context(watching(tar)),
        )


async def test_who_gives_up_ends_the_job_and_its_tar(place: Place, stuck: Stuck) -> None:
    job, tar = await stuck.hangs()
    stuck.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stuck.task
    assert stuck.job not in children(), "it is gone, and no zombie of ours"
    assert await asyncio.to_thread(has_ended, job)
    assert await asyncio.to_thread(has_ended, tar)
    assert place.objects() == []


async def test_a_job_that_somebody_kills_is_a_failure(place: Place, stuck: Stuck) -> None:
    job, tar = await stuck.hangs()
    signal.pidfd_send_signal(job, signal.SIGKILL)
    with pytest.raises(ActionFailed, match="the storage job ended with exit code -9"):
        await stuck.task
    assert await asyncio.to_thread(has_ended, tar)
    assert place.objects() == []


async def test_the_address_of_the_store_is_no_argument(place: Place, stuck: Stuck) -> None:
    """It may hold a secret, and everybody on the machine can read arguments."""
    await stuck.hangs()
    words = words_of(stuck.job)
    assert str(place.home).encode() in words
    assert str(place.path / "store").encode() not in words


# A job that is none


def done(**fields: Any) -> str:
    meta = ArchiveMeta(
        key=build_key(new_key()),
        sha256="5" * 64,
        bytes=1,
        unpacked_bytes=1,
        entries=0,
        skipped=0,
        hub=UUID(int=1),
        workspace_id=UUID(int=2),
        workspace_name="api",
        owner="alice",
        generation=1,
        created_at=datetime(2026, 11, 1, tzinfo=UTC),
    )
    return json.dumps({"event": "done"} | meta_fields(meta) | fields)


async def run_instead(
    place: Place, monkeypatch: pytest.MonkeyPatch, program: str
) -> ArchiveMeta | CodeHubError:
    """Another program in the job's place: what is made of what it does."""
    command = [sys.executable, "-I", "-S", "-c", program]
    monkeypatch.setattr(module, "archive_command", lambda *_: command)
    try:
        return await place.archive()
    except CodeHubError as error:
        return error


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("", "the storage job ended with exit code 0"),
        ("print('hello')", "the storage job ended with exit code 0"),
        ("print('[1, 2]'); print('17'); print('{}')", "the storage job ended with exit code 0"),
        ("raise SystemExit('no module')", "the storage job ended with exit code 1: no module"),
        (f"print({done()!r}); raise SystemExit(3)", "the storage job ended with exit code 3"),
        (f"print({done(bytes='many')!r})", "the storage job gave no account of the archive"),
        ('print(\'{"event": "done"}\')', "the storage job gave no account of the archive"),
        ("print('x' * 2_000_000)", "the storage job said something that cannot be read"),
        (
            "import sys; sys.stdout.buffer.write(bytes(range(256)) * 9)",
            "the storage job ended with exit code 0",
        ),
    ],
    ids=[
        "silence",
        "chatter",
        "no events",
        "complaint",
        "done and failed",
        "a wrong field",
        "no fields",
        "an endless line",
        "binary",
    ],
)
async def test_what_is_no_account_of_an_archive_is_a_failure(
    place: Place, monkeypatch: pytest.MonkeyPatch, program: str, message: str
) -> None:
    outcome = await run_instead(place, monkeypatch, program)
    assert type(outcome) is ActionFailed, outcome
    assert str(outcome) == message


async def test_chatter_around_the_account_does_no_harm(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = f"print('warming up'); print({done()!r}); print('bye')"
    outcome = await run_instead(place, monkeypatch, program)
    assert isinstance(outcome, ArchiveMeta)


async def test_many_complaints_are_read_and_the_last_is_told(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "import sys\nfor n in range(100_000): print(n, file=sys.stderr)\nsys.exit(7)"
    outcome = await run_instead(place, monkeypatch, program)
    assert str(outcome) == "the storage job ended with exit code 7: 99999"


async def test_a_program_that_is_not_there_is_a_failure(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "archive_command", lambda *_: [str(place.path / "nothing")])
    with pytest.raises(ActionFailed, match=r"could not be started: .*No such file"):
        await place.archive()


async def test_a_report_that_nobody_takes_ends_the_job(place: Place) -> None:
    """The caller's own failure is told as what it is, and leaves no process behind."""

    def refuse(_: Mapping[str, object]) -> None:
        raise RuntimeError("no room for that")

    with pytest.raises(RuntimeError, match="no room"):
        await place.mover().archive(place.home, new_key(), SUBJECT, refuse)
    assert not any(b"codehub.jobs" in words_of(pid) for pid in children())


def children() -> list[int]:
    """The processes that this one started and has not reaped."""
    pids: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):
            pids += map(int, (task / "children").read_text().split())
    return pids


def words_of(pid: int) -> bytes:
    """Its command line; nothing for one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
