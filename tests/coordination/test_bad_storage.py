"""What goes wrong with disks, stores and archives: nothing is lost, and people are told."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from codehub.adapters.localstore import LocalStore
from codehub.core.advise import advise
from codehub.core.keys import meta_key
from codehub.errors import Refused, Unreachable
from codehub.model.conditions import ConditionName, ConditionStatus
from codehub.model.states import (
    DesiredState,
    ErrorReason,
    Operation,
    Phase,
    RecoverMode,
)
from tests.coordination.machine import (
    Machine,
    declared,
    machine,
    patient,
    small_disk,
    swapped,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


pytestmark = pytest.mark.anyio

ARCHIVED, STANDBY, RUNNING = DesiredState.ARCHIVED, DesiredState.STANDBY, DesiredState.RUNNING
MEGABYTE = 1024 * 1024
NOBODY = 65534


@pytest.fixture
async def hub(database_url: str, tmp_path: Path) -> AsyncIterator[Machine]:
    async with machine(database_url, tmp_path) as made:
        yield made


# A full disk


async def test_a_full_store_while_archiving(database_url: str, tmp_path: Path) -> None:
    with small_disk(tmp_path / "archives", "1m") as resize:
        async with machine(database_url, tmp_path) as hub, hub.world.term() as term:
            content = os.urandom(3 * MEGABYTE)
            await hub.housed(term, content)
            full = await hub.wanted(term, ARCHIVED)
            assert (full.status.phase, full.status.error_reason) == (
                Phase.ERROR,
                ErrorReason.RETRY_EXCEEDED,
            )
            assert full.status.error_message == "no space is left in the archive store (writing)"
            assert "codehub recover api" in advise(full)
            assert hub.notes(full) == content, "the home is kept"
            assert not list(hub.archives.rglob("*.zst")), "and no half archive"
            resize("16m")
            done = await hub.recovered(term)
            assert (done.status.phase, hub.homes()) == (Phase.ARCHIVED, [])


async def test_a_full_disk_while_restoring(database_url: str, tmp_path: Path) -> None:
    with small_disk(tmp_path / "data", "16m") as resize:
        async with machine(database_url, tmp_path) as hub, hub.world.term() as term:
            content = os.urandom(3 * MEGABYTE)
            api = await hub.packed(term, content)
            resize("2m")
            full = await hub.wanted(term, STANDBY)
            assert (full.status.phase, full.status.error_reason) == (
                Phase.ERROR,
                ErrorReason.RETRY_EXCEEDED,
            )
            assert full.status.error_message is not None
            assert full.status.error_message.startswith("not enough space for the volume: 4 MiB")
            await term.settle()
            assert hub.homes() == [], "what was begun is removed"
            assert hub.stored(api).is_file()
            resize("16m")
            done = await hub.recovered(term)
            assert done.status.phase is Phase.STANDBY
            assert hub.notes(done) == content


def fill(path: Path) -> None:
    """With all that the disk takes."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        with suppress(OSError):
            while os.write(descriptor, b"x" * 4096):
                pass
    finally:
        os.close(descriptor)


async def test_a_disk_without_room_for_a_home(database_url: str, tmp_path: Path) -> None:
    with small_disk(tmp_path / "data", "256k"):
        async with machine(database_url, tmp_path) as hub, hub.world.term() as term:
            filler = hub.data / "filler"
            fill(filler)
            await hub.world.declare(declared())
            await term.settle()
            full = await hub.look()
            assert full.status.error_reason is ErrorReason.RETRY_EXCEEDED
            assert full.status.error_message == f"the disk that holds {hub.data} is full"
            assert full.status.home_store_key is None, "a home that was never made is none"
            filler.unlink()
            assert (await hub.recovered(term)).status.phase is Phase.RUNNING


# A store that cannot be used


@contextmanager
def store_away(hub: Machine, how: str) -> Iterator[None]:
    if how == "unmounted":
        with swapped(hub.archives):
            hub.archives.mkdir()
            yield
    elif how == "unreadable":
        with swapped(hub.archives):
            hub.archives.symlink_to(hub.archives)
            yield
    else:
        marker = next(hub.archives.rglob("marker.json"))
        with swapped(marker):
            if how != "unmarked":
                marker.write_text('{"hub": "00000000-0000-0000-0000-000000000001"}')
            yield


AWAY = ["unmounted", "unreadable", "unmarked", "another hub's"]


def test_a_store_that_keeps_the_hub_out_is_unreachable(open_path: Path) -> None:
    """Not a failure of the workspace: whoever may not look knows nothing."""
    store = LocalStore(open_path / "store")
    store.claim()
    (open_path / "store").chmod(0)
    try:
        with unprivileged(), pytest.raises(Unreachable, match="Permission denied") as caught:
            store.head("hub/one")
    finally:
        (open_path / "store").chmod(0o700)
    assert caught.value.hint == "give the hub's user access to it"


@contextmanager
def unprivileged() -> Iterator[None]:
    """As an account that permissions hold off; the superuser's are held off by none."""
    privileged = os.geteuid() == 0
    if privileged:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if privileged:
            os.seteuid(0)


@pytest.mark.parametrize("how", AWAY)
async def test_a_store_that_is_away_loses_no_archive(hub: Machine, how: str) -> None:
    async with hub.world.term() as term:
        api = await hub.packed(term)
    with store_away(hub, how):
        # Nothing is known to a leader that comes now.
        async with hub.world.term() as term:
            await hub.world.want("api", RUNNING)
            for _ in range(3):
                await term.controller.tick()
            waiting = await hub.look()
            assert waiting.status.phase is Phase.ARCHIVED
            assert (waiting.status.operation, waiting.status.error_count) == (Operation.NONE, 0)
            ready = waiting.status.conditions[ConditionName.ARCHIVE_READY]
            assert ready.status is ConditionStatus.UNKNOWN
            assert "archive store" in ready.message, "people are told why"
            assert hub.homes() == []
    async with hub.world.term() as term:
        await term.settle()
        back = await hub.look()
        assert (back.status.phase, back.status.error_count) == (Phase.RUNNING, 0)
        assert hub.notes(back) == b"mine"
        assert back.status.archive_key == api.status.archive_key


@pytest.mark.parametrize("how", ["unmounted", "unreadable"])
async def test_archiving_into_a_store_that_is_away_is_tried_for_ever(
    hub: Machine, how: str
) -> None:
    async with hub.world.term() as term:
        await hub.housed(term)
        with store_away(hub, how):
            await hub.world.want("api", ARCHIVED)
            for _ in range(12):
                await term.controller.tick()
                await term.acts.quiet()
            waiting = await hub.look()
            assert waiting.status.operation is Operation.ARCHIVING
            assert waiting.status.error_reason is ErrorReason.UNREACHABLE
            assert waiting.status.error_count == 0, "not the workspace's fault"
            assert str(hub.archives) in (waiting.status.error_message or "")
            assert hub.notes(waiting) == b"mine"
            told = await (
                await hub.world.conn.execute(
                    "SELECT count(*) AS n FROM workspace_events WHERE kind = 'error'"
                )
            ).fetchone()
            assert told == {"n": 1}, "said once, not at every try"
        await term.settle()
        assert (await hub.look()).status.phase is Phase.ARCHIVED


@pytest.mark.parametrize("archived_before", [False, True])
async def test_a_store_that_is_away_keeps_nobody_from_their_home(
    hub: Machine, archived_before: bool
) -> None:
    async with patient(hub.world).term() as term:
        await (hub.packed(term) if archived_before else hub.housed(term))
        await hub.wanted(term, STANDBY)
        with store_away(hub, "unmounted"):
            waiting = await hub.wanted(term, ARCHIVED)
            assert waiting.status.operation is Operation.ARCHIVING
            awake = await hub.wanted(term, RUNNING)
            assert (awake.status.phase, awake.status.operation) == (Phase.RUNNING, Operation.NONE)
            assert (awake.status.error_reason, awake.status.error_count) == (None, 0)
            assert hub.notes(awake) == b"mine"
        packed = await hub.wanted(term, ARCHIVED)
        assert (packed.status.phase, hub.homes()) == (Phase.ARCHIVED, [])
        back = await hub.wanted(term, STANDBY)
        assert hub.notes(back) == b"mine"


@pytest.mark.parametrize("how", AWAY)
async def test_no_home_goes_into_a_store_that_is_not_surely_ours(hub: Machine, how: str) -> None:
    """It was archived before; what lies in another hub's store would be lost with it."""
    async with hub.world.term() as term:
        before = await hub.packed(term)
        awake = await hub.wanted(term, STANDBY)
        (hub.home(awake) / "notes.txt").write_text("newer")
        with store_away(hub, how):
            await hub.world.want("api", ARCHIVED)
            for _ in range(6):
                await term.controller.tick()
                await term.acts.quiet()
            waiting = await hub.look()
            assert (waiting.status.operation, waiting.status.error_count) == (
                Operation.ARCHIVING,
                0,
            )
            assert hub.notes(waiting) == b"newer"
            assert waiting.status.archive_key == before.status.archive_key
            said = (
                waiting.status.error_message
                or waiting.status.conditions[ConditionName.ARCHIVE_READY].message
            )
            assert "archive store" in said
        await term.settle()
        done = await hub.look()
        assert done.status.phase is Phase.ARCHIVED
        back = await hub.wanted(term, STANDBY)
        assert hub.notes(back) == b"newer"


async def test_a_store_that_is_away_is_asked_less_and_less_often(hub: Machine) -> None:
    async with hub.world.term() as term:
        await hub.housed(term)
    with store_away(hub, "unmounted"):
        async with patient(hub.world).term() as term:
            await hub.world.want("api", ARCHIVED)
            await term.settle()
            waiting = await hub.look()
            assert waiting.status.retry_at is not None
            assert waiting.status.error_reason is ErrorReason.UNREACHABLE


# A damaged archive


async def test_a_damaged_archive_is_kept_and_taken_again_once_it_is_whole(hub: Machine) -> None:
    async with hub.world.term() as term:
        api = await hub.packed(term)
        path = hub.stored(api)
        good = path.read_bytes()
        bad = bytearray(good)
        bad[len(bad) // 2] ^= 1
        path.write_bytes(bad)

        broken = await hub.wanted(term, RUNNING)
        assert (broken.status.phase, broken.status.error_reason) == (
            Phase.ERROR,
            ErrorReason.ARCHIVE_CORRUPTED,
        )
        assert broken.status.error_message is not None
        assert "is not what was stored" in broken.status.error_message
        assert advise(broken) == (
            "the archive is kept as it is; 'codehub recover api' tries it again, "
            "'codehub recover api --accept-empty' gives it up"
        )
        assert broken.status.archive_key == api.status.archive_key
        assert path.read_bytes() == bytes(bad)
        await term.settle()
        assert hub.homes() == [], "the new volume is removed"

        again = await hub.recovered(term)
        assert again.status.error_reason is ErrorReason.ARCHIVE_CORRUPTED
        path.write_bytes(good)
        back = await hub.recovered(term)
        assert back.status.phase is Phase.RUNNING
        assert hub.notes(back) == b"mine"


@pytest.mark.parametrize("change", [-1, 1], ids=["cut short", "too long"])
async def test_an_archive_of_another_size_is_damaged_and_not_gone(
    hub: Machine, change: int
) -> None:
    async with hub.world.term() as term:
        api = await hub.packed(term)
    path = hub.stored(api)
    good = path.read_bytes()
    os.truncate(path, len(good) + change)
    damage = (
        f"the archive {api.status.archive_key} is damaged: "
        f"{len(good) + change} bytes are there, {len(good)} were stored"
    )
    async with hub.world.term() as term:
        await term.settle()
        broken = await hub.look()
        assert (broken.status.phase, broken.status.error_reason) == (
            Phase.ERROR,
            ErrorReason.ARCHIVE_CORRUPTED,
        )
        assert broken.status.error_message == damage
        ready = broken.status.conditions[ConditionName.ARCHIVE_READY]
        assert (ready.status, ready.reason, ready.message) == (
            ConditionStatus.FALSE,
            "ArchiveCorrupted",
            damage,
        )
        assert broken.status.archive_key == api.status.archive_key
        assert path.is_file()
        for mode in (RecoverMode.PLAIN, RecoverMode.FROM_ARCHIVE):
            again = await hub.recovered(term, mode)
            assert again.status.error_message == damage
        path.write_bytes(good)
        back = await hub.recovered(term)
        assert back.status.phase is Phase.ARCHIVED
        assert hub.notes(await hub.wanted(term, STANDBY)) == b"mine"


async def test_a_lost_home_whose_archive_is_damaged_waits_for_a_whole_one(hub: Machine) -> None:
    async with hub.world.term() as term:
        await hub.packed(term)
        api = await hub.wanted(term, STANDBY)
        path = hub.stored(api)
        good = path.read_bytes()
        path.write_bytes(good[:-1])
        shutil.rmtree(hub.home(api))
    async with hub.world.term() as term:
        await term.settle()
        lost = await hub.look()
        assert lost.status.error_reason is ErrorReason.DATA_LOST
        assert (await hub.recovered(term, RecoverMode.FROM_ARCHIVE)).status.phase is Phase.ERROR
        path.write_bytes(good)
        await term.settle()
        back = await hub.look()
        assert back.status.phase is Phase.STANDBY
        assert hub.notes(back) == b"mine"


async def test_a_loss_that_turns_out_to_be_damage_is_told_as_that(hub: Machine) -> None:
    async with hub.world.term() as term:
        api = await hub.packed(term)
        path = hub.stored(api)
        path.rename(hub.path / "aside")
    async with hub.world.term() as term:
        await term.settle()
        assert (await hub.look()).status.error_reason is ErrorReason.DATA_LOST
        path.write_bytes(b"a part of it")
        await term.settle()
        assert (await hub.look()).status.error_reason is ErrorReason.ARCHIVE_CORRUPTED
        path.unlink()
        await term.settle()
        assert (await hub.look()).status.error_reason is ErrorReason.DATA_LOST


async def test_a_damaged_archive_can_be_given_up(hub: Machine) -> None:
    async with hub.world.term() as term:
        api = await hub.packed(term)
        hub.stored(api).write_bytes(b"x" * hub.stored(api).stat().st_size)
        await hub.wanted(term, RUNNING)
        empty = await hub.recovered(term, RecoverMode.ACCEPT_EMPTY)
        assert empty.status.phase is Phase.RUNNING
        assert list(hub.home(empty).iterdir()) == []
        assert hub.stored(api).is_file(), "collecting it is another one's business"


@pytest.mark.parametrize("what", ["archive", "marker"])
async def test_an_archive_that_is_truly_gone_is_a_loss(hub: Machine, what: str) -> None:
    async with hub.world.term() as term:
        api = await hub.packed(term)
    key = api.status.archive_key
    assert key is not None
    (hub.archives / (key if what == "archive" else meta_key(key))).unlink()
    async with hub.world.term() as term:
        await term.settle()
        lost = await hub.look()
        assert (lost.status.phase, lost.status.error_reason) == (
            Phase.ERROR,
            ErrorReason.DATA_LOST,
        )
        assert lost.status.error_message == f"the archive {key} is gone"
        with pytest.raises(Refused, match="a plain recovery cannot bring it back"):
            await hub.recover()
        empty = await hub.recovered(term, RecoverMode.ACCEPT_EMPTY)
        assert empty.status.phase is Phase.ARCHIVED, "an empty one, as somebody accepted"
