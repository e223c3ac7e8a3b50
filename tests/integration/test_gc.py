"""Collecting archives on a real store and a real database: what goes, and all that must stay."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import psycopg
import pytest

from codehub.core.keys import build_key, meta_key
from codehub.errors import (
    FenceLost,
    Refused,
)
from codehub.model.archive import ArchiveKey
from codehub.model.states import DesiredState, IntentSource, Operation, Phase
from codehub.service.collecting import CONFIRM, KIND
from codehub.service.intent import undelete
from codehub.store.connect import connect, transaction
from codehub.store.fence import take_epoch
from codehub.store.gc import purge
from codehub.store.intent import undelete_rows
from codehub.store.requests import ask
from tests.integration.archive_world import LOCK, archive_world, archived, remembered_long
from tests.integration.faults import FaultyStore
from tests.integration.stored import change
from tests.integration.test_fence import until_blocked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from codehub.ports import ObjectStore
    from tests.integration.archive_world import ArchiveWorld

pytestmark = pytest.mark.anyio

NOW = datetime.now(UTC)
DAYS = timedelta(days=1)
GONE: Any = {"desired": DesiredState.DELETED, "phase": Phase.DELETED}


@pytest.fixture
async def world(database_url: str, tmp_path: Path) -> AsyncIterator[ArchiveWorld]:
    async with archive_world(database_url, tmp_path / "store") as made:
        yield made


class Hooked(FaultyStore):
    """Tells of every deletion before it happens; the hook may raise, or act in between."""

    def __init__(self, store: ObjectStore, on_delete: Callable[[str], None]) -> None:
        super().__init__(store)
        self.on_delete = on_delete

    def delete(self, key: str) -> None:
        self.on_delete(key)
        super().delete(key)


async def test_an_orphan_waits_and_is_deleted_with_its_commit_marker(world: ArchiveWorld) -> None:
    old = await archived(world)
    current = [world.key(1, 11), meta_key(world.key(1, 11))]
    first = await world.runner().tick()
    assert (first.kept, first.waiting, first.deleted) == (1, 1, 0)
    assert await world.candidates() == {old: 1}
    await world.pass_hours(1)
    assert (await world.runner().tick()).waiting == 1
    assert world.objects() == [old, meta_key(old), *current]
    await world.pass_hours(2)
    done = await world.runner().tick()
    assert (done.kept, done.deleted, done.objects, done.bytes) == (1, 1, 2, 1010)
    assert world.objects() == current
    await world.runner().tick()
    assert await world.candidates() == {}


async def test_one_look_never_deletes_however_little_patience(world: ArchiveWorld) -> None:
    old = await archived(world)
    await world.runner(gc_orphan_seconds=0).tick()
    assert old in world.objects()
    await world.runner(gc_orphan_seconds=0).tick()
    assert old not in world.objects()


PROTECTED: dict[str, dict[str, Any]] = {
    "in error": {"phase": Phase.ERROR},
    "operation in flight": {
        "operation": Operation.ARCHIVING,
        "op_id": UUID(int=10),
        "op_started_at": NOW,
    },
    "operation that failed": {"op_id": UUID(int=10)},
    "deleted, within the retention": {**GONE, "deleted_at": NOW - 6 * DAYS, "op_id": UUID(int=10)},
}


@pytest.mark.parametrize("status", PROTECTED.values(), ids=PROTECTED)
async def test_what_the_database_protects_stays(
    world: ArchiveWorld, status: dict[str, Any]
) -> None:
    world.put(1, 10, hours=9)
    await world.add(1, archive_key=world.put(1, 11, hours=5), **status)
    for _ in range(3):
        assert (await world.runner(gc_orphan_seconds=0).tick()).kept == 2
    assert len(world.objects()) == 4
    assert await world.candidates() == {}


async def test_the_archive_of_a_deleted_workspace_stays_within_the_retention(
    world: ArchiveWorld,
) -> None:
    await world.add(1, archive_key=world.put(1, 11), deleted_at=NOW - 6 * DAYS, **GONE)
    for _ in range(3):
        await world.runner(gc_orphan_seconds=0).tick()
    assert len(world.objects()) == 2
    assert await world.purged() == []


async def test_what_is_newer_than_the_archive_in_use_stays(world: ArchiveWorld) -> None:
    """A job that outlived its leader, or a database from before."""
    await world.add(1, archive_key=world.put(1, 10, hours=9))
    newer, half = world.put(1, 11, hours=5), world.put(1, 12, hours=3, meta=False)
    for _ in range(3):
        await world.runner(gc_orphan_seconds=0).tick()
    assert {newer, half} < set(world.objects())


async def test_half_an_archive_is_an_orphan_like_others(world: ArchiveWorld) -> None:
    half = world.put(1, 10, hours=9, meta=False)
    lone = world.key(1, 9)
    world.write(meta_key(lone), b"m", hours=9)
    await world.add(1, archive_key=world.put(1, 11, hours=5))
    await remembered_long(world)
    assert await world.candidates() == {half: 1, lone: 1}
    assert (await world.runner().tick()).objects == 2
    assert world.objects() == [world.key(1, 11), meta_key(world.key(1, 11))]


async def test_what_is_protected_again_is_forgotten_and_waits_anew(world: ArchiveWorld) -> None:
    old = await archived(world)
    await remembered_long(world)
    await change(world.conn, "ws1", phase="ERROR")
    await world.runner().tick()
    assert await world.candidates() == {}
    await change(world.conn, "ws1", phase="ARCHIVED")
    await world.runner().tick()
    await world.runner().tick()
    assert old in world.objects()
    assert await world.candidates() == {old: 2}


async def test_protection_is_read_again_right_before_deleting(world: ArchiveWorld) -> None:
    """The workspace falls into ERROR after the collection has made up its mind."""
    old = await archived(world)
    await remembered_long(world)

    def fail(key: str) -> None:
        assert "/epochs/" in key
        with psycopg.connect(world.url) as person:
            person.execute("UPDATE workspaces SET phase = 'ERROR'")

    done = await world.runner(Hooked(world.store, fail)).tick()
    assert done.deleted == 0
    assert old in world.objects()


async def test_what_is_no_archive_is_left_alone(world: ArchiveWorld) -> None:
    await archived(world)
    strange = f"{world.hub_id}/{UUID(int=1)}/notes.txt"
    world.write(strange, b"by hand")
    await remembered_long(world)
    await world.runner().tick()
    assert world.store.head(strange) is not None


# What the database has a record of


async def test_operations_are_noted_when_they_are_claimed_and_archives_when_recorded(
    world: ArchiveWorld,
) -> None:
    """So what a job commits that outlived its leader is known, and goes."""
    await world.add(1, archive_key=world.put(1, 10, hours=9))
    await change(world.conn, "ws1", operation="ARCHIVING", op_id=UUID(int=11), op_started_at=NOW)
    await change(world.conn, "ws1", operation="NONE", op_id=None, archive_key=world.key(1, 12))
    await change(world.conn, "ws1", operation="STARTING", op_id=UUID(int=13), op_started_at=NOW)
    rows = await world.rows("SELECT op_id FROM archive_operations ORDER BY op_id")
    assert [UUID(row["op_id"]).int for row in rows] == [10, 11, 12]


async def test_a_key_that_is_none_of_ours_is_recorded_all_the_same(world: ArchiveWorld) -> None:
    await world.add(1, archive_key="somewhere")
    await change(world.conn, "ws1", archive_key="a/b/c/d")
    assert (await world.rows("SELECT op_id FROM archive_operations")) == [{"op_id": "c"}]


async def test_a_committed_archive_without_a_record_stays_until_somebody_vouches(
    world: ArchiveWorld,
) -> None:
    old = await archived(world)
    lone = world.put(1, 9, hours=8, meta=False)
    unknown = world.put(1, 8, hours=7)
    await world.conn.execute("UPDATE archive_operations SET noted_at = now() - interval '30 days'")
    await world.conn.execute(
        "INSERT INTO archive_operations (workspace_id, op_id) SELECT id, %s FROM workspaces",
        (str(UUID(int=10)),),
    )
    for _ in range(3):
        await world.runner(gc_orphan_seconds=0).tick()
    assert {old, lone}.isdisjoint(world.objects()), "recorded, and never committed"
    assert {unknown, meta_key(unknown)} < set(world.objects())
    assert await world.candidates() == {}
    await ask(world.conn, KIND, {CONFIRM: True}, "root")
    for _ in range(2):
        await world.runner(gc_orphan_seconds=0).tick()
    assert unknown not in world.objects()


# Deleted workspaces


async def test_a_workspace_is_purged_first_and_its_archive_goes_later(world: ArchiveWorld) -> None:
    key = world.put(1, 11)
    await world.add(1, archive_key=key, deleted_at=NOW - 8 * DAYS, **GONE)
    first = await world.runner().tick()
    assert first.purged == ("ws1",)
    assert await world.purged() == ["ws1"]
    assert len(world.objects()) == 2
    assert await undelete_rows(world.conn, [UUID(int=1)]) == {}
    await world.pass_hours(3)
    assert (await world.runner().tick()).deleted == 1
    assert world.objects() == []


async def test_a_workspace_that_is_wanted_again_is_not_purged(world: ArchiveWorld) -> None:
    await world.add(
        1, DesiredState.RUNNING, archive_key=world.put(1, 11), deleted_at=NOW - 8 * DAYS
    )
    assert (await world.runner().tick()).purged == ()


async def test_an_undelete_that_comes_first_wins_over_the_purge(world: ArchiveWorld) -> None:
    await world.add(1, archive_key=world.put(1, 11), deleted_at=NOW - 8 * DAYS, **GONE)
    async with (
        await connect(world.url) as leader,
        await connect(world.url) as person,
    ):
        async with transaction(person):
            assert await undelete_rows(person, [UUID(int=1)])
            purging = asyncio.create_task(purge(leader, world.lead.fence, 7 * DAYS))
            await until_blocked(world.conn, leader)
        assert await purging == ()
    for _ in range(2):
        await world.runner(gc_orphan_seconds=0).tick()
    assert len(world.objects()) == 2


async def test_an_undelete_that_comes_second_is_refused(world: ArchiveWorld) -> None:
    await world.add(1, archive_key=world.put(1, 11), deleted_at=NOW - 8 * DAYS, **GONE)
    await world.runner().tick()
    await world.conn.execute(
        "UPDATE spec_revisions SET documents ="
        ' \'[{"kind": "Workspace", "metadata": {"name": "ws1"}, "spec": {"owner": "alice"}}]\''
    )
    with pytest.raises(Refused, match="retention has ended"):
        await undelete(world.conn, "ws1", source=IntentSource.CLI, by="alice")
    assert await world.purged() == ["ws1"]


# Crashes and other leaders


async def test_a_crash_between_commit_marker_and_archive_is_made_good(world: ArchiveWorld) -> None:
    old = await archived(world)
    await remembered_long(world)

    def crash(key: str) -> None:
        if key == old:
            raise OSError("killed here")

    with pytest.raises(OSError, match="killed here"):
        await world.runner(Hooked(world.store, crash)).tick()
    assert old in world.objects()
    assert meta_key(old) not in world.objects()
    assert (await world.runner().tick()).objects == 1
    assert old not in world.objects()


async def test_a_former_leader_collects_nothing(world: ArchiveWorld) -> None:
    old = await archived(world)
    await world.add(2, archive_key=world.put(2, 11), deleted_at=NOW - 8 * DAYS, **GONE)
    await world.runner(retention_seconds=30 * 86400).tick()
    await world.pass_hours(3)
    before = await world.candidates()
    await take_epoch(world.conn, LOCK, "another")
    with pytest.raises(FenceLost):
        await world.runner().tick()
    assert old in world.objects()
    assert await world.candidates() == before
    assert await world.purged() == []
    assert world.epochs() == ["1"]


async def test_a_leader_that_is_replaced_in_the_middle_stops_there(world: ArchiveWorld) -> None:
    old = await archived(world)
    await remembered_long(world)

    def replaced(key: str) -> None:
        if key == meta_key(old):
            with psycopg.connect(world.url) as other:
                other.execute("UPDATE system_locks SET epoch = epoch + 1")

    with pytest.raises(FenceLost):
        await world.runner(Hooked(world.store, replaced)).tick()
    assert old in world.objects()


async def test_two_hubs_in_one_store_do_not_see_each_other(world: ArchiveWorld) -> None:
    await archived(world)
    stranger = build_key(ArchiveKey(uuid4(), UUID(int=1), UUID(int=10), "1"))
    world.write(stranger, b"theirs", hours=99)
    await remembered_long(world)
    await world.runner().tick()
    assert world.store.head(stranger) is not None
    assert await world.candidates() != {}
    assert stranger not in await world.candidates()


# Limits


async def test_no_more_objects_go_than_allowed_and_the_rest_goes_later(
    world: ArchiveWorld,
) -> None:
    olds = [await archived(world, number) for number in (1, 2, 3)]
    await remembered_long(world)
    done = await world.runner(gc_max_deletes=3).tick()
    assert (done.objects, done.postponed) == (3, 1)
    assert len(world.objects()) == 9
    assert [meta_key(old) in world.objects() for old in olds].count(True) == 1
    assert (await world.runner(gc_max_deletes=3).tick()).objects == 3
    assert len(world.objects()) == 6


async def test_many_go_in_several_batches(world: ArchiveWorld) -> None:
    for op in range(100, 160):
        world.put(1, op, hours=9, meta=False)
    await world.add(1, archive_key=world.put(1, 11, hours=5))
    await remembered_long(world)
    assert (await world.runner().tick()).deleted == 60
    assert len(world.objects()) == 2


async def test_uploads_that_stopped_a_day_ago_are_given_up(world: ArchiveWorld) -> None:
    other = build_key(ArchiveKey(uuid4(), UUID(int=1), UUID(int=10), "1"))
    writers = [world.store.open_writer(key) for key in (world.key(1, 10), world.key(1, 11), other)]
    for writer in writers:
        writer.write(b"half")
    partials = {str(path): path for path in world.root.rglob("*.partial")}
    for name, path in partials.items():
        if f"{UUID(int=11)}/" not in name:
            at = (NOW - 2 * DAYS).timestamp()
            os.utime(path, (at, at))
    assert (await world.runner().tick()).aborted_uploads == 1
    left = {str(path) for path in world.root.rglob("*.partial")}
    assert len(left) == 2
    assert not any(f"{world.hub_id}/{UUID(int=1)}/{UUID(int=10)}/" in name for name in left)
    for writer in writers:
        writer.abort()
