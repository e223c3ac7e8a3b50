"""Before archives are collected: is this our store, and is this database not an older one?"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from codehub.coordinator.marker import check_store, create_marker, raise_epoch, read_marker
from codehub.core.keys import meta_key
from codehub.errors import ActionFailed, CodeHubError, DatabaseProblem, Refused, Unreachable
from codehub.model.collection import Marker
from codehub.model.states import DesiredState, Phase
from codehub.service.collecting import CONFIRM, KIND
from codehub.store.fence import take_epoch
from codehub.store.requests import ask
from tests.integration.archive_world import LOCK, archive_world, archived, remembered_long
from tests.integration.faults import FaultyStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.integration.archive_world import ArchiveWorld

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(database_url: str, tmp_path: Path) -> AsyncIterator[ArchiveWorld]:
    async with archive_world(database_url, tmp_path / "store") as made:
        yield made


async def test_the_store_is_marked_before_there_are_archives(world: ArchiveWorld) -> None:
    world.store.delete(f"{world.hub_id}/marker.json")
    await world.runner().tick()
    assert world.mark() == {"hub": str(world.hub_id)}
    assert world.epochs() == ["1"]
    await world.runner().tick()
    assert world.epochs() == ["2"]


async def skipped(world: ArchiveWorld, error: type[CodeHubError], match: str) -> None:
    """The collection gives up, and leaves everything as it was."""
    objects, candidates = world.objects(), await world.candidates()
    with pytest.raises(error, match=match):
        await world.runner(gc_orphan_seconds=0, retention_seconds=0).tick()
    assert world.objects() == objects
    assert await world.candidates() == candidates
    assert await world.purged() == []


async def doomed(world: ArchiveWorld) -> None:
    """An orphan that is due, and a workspace whose retention is over."""
    await archived(world)
    await remembered_long(world)
    await world.add(
        2,
        DesiredState.DELETED,
        archive_key=world.put(2, 11),
        phase=Phase.DELETED,
        deleted_at=datetime.now(UTC) - timedelta(days=8),
    )


async def test_without_its_mark_the_store_is_another_one(world: ArchiveWorld) -> None:
    await doomed(world)
    world.store.delete(f"{world.hub_id}/marker.json")
    await skipped(world, Unreachable, "another bucket or an empty one")
    await ask(world.conn, KIND, {CONFIRM: True}, "admin")
    assert (await world.runner().tick()).confirmed
    assert world.mark() == {"hub": str(world.hub_id)}


async def test_an_empty_store_is_not_marked_however_sure_somebody_is(world: ArchiveWorld) -> None:
    world.store.delete(f"{world.hub_id}/marker.json")
    await world.add(1, archive_key=world.key(1, 11))
    await ask(world.conn, KIND, {CONFIRM: True}, "admin")
    await skipped(world, Refused, "none of the archives")
    assert list(world.store.list("")) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"hub": "00000000-0000-0000-0000-000000000009"}', "another hub"),
        (b"", "cannot be read"),
        (b"\x00\xff", "cannot be read"),
        (b"[]", "cannot be read"),
        (b'{"hub": 7}', "cannot be read"),
        (b'{"hub": "x"}' + b" " * 9000, "cannot be read"),
    ],
)
async def test_a_foreign_mark_stops_everything(
    world: ArchiveWorld, content: bytes, said: str
) -> None:
    await doomed(world)
    (world.root / str(world.hub_id) / "marker.json").write_bytes(content)
    await skipped(world, Unreachable, said)
    await ask(world.conn, KIND, {CONFIRM: True}, "admin")
    await skipped(world, Unreachable, said)


async def test_a_store_that_is_away_skips_the_collection(world: ArchiveWorld) -> None:
    await doomed(world)
    (world.root / ".codehub-store").rename(world.root / ".away")
    with pytest.raises(Unreachable):
        await world.runner(gc_orphan_seconds=0, retention_seconds=0).tick()
    (world.root / ".away").rename(world.root / ".codehub-store")
    assert len(world.objects()) == 6
    assert await world.purged() == []


async def test_a_listing_that_breaks_off_skips_the_collection(world: ArchiveWorld) -> None:
    await doomed(world)
    seen: list[str] = []

    def break_off(call: str) -> None:
        seen.append(call)
        if seen.count("list") == 2:
            raise Unreachable("the line went dead")

    before = await world.candidates()
    with pytest.raises(Unreachable, match="went dead"):
        await world.runner(FaultyStore(world.store, before=break_off), gc_orphan_seconds=0).tick()
    assert await world.candidates() == before
    assert await world.purged() == []
    assert len(world.objects()) == 6


async def test_a_query_that_fails_skips_the_collection(world: ArchiveWorld) -> None:
    await doomed(world)
    await world.conn.execute("ALTER TABLE gc_candidates RENAME TO away")
    with pytest.raises(DatabaseProblem):
        await world.runner(gc_orphan_seconds=0).tick()
    assert len(world.objects()) == 6
    assert await world.purged() == []
    assert world.epochs() == ["1"]


async def test_a_store_with_none_of_our_archives_skips_the_collection(world: ArchiveWorld) -> None:
    """Right mark, right name, but not the content: a copy from long ago, say."""
    await doomed(world)
    for key in (world.key(1, 11), world.key(2, 11)):
        world.store.delete(meta_key(key))
        world.store.delete(key)
    await skipped(world, Refused, "none of the archives")


async def test_a_database_from_a_backup_collects_nothing_until_confirmed(
    world: ArchiveWorld,
) -> None:
    await doomed(world)
    await world.runner(retention_seconds=30 * 86400, gc_orphan_seconds=86400).tick()
    await world.conn.execute("UPDATE system_locks SET epoch = 1 WHERE lock_name = 'gc'")
    await skipped(world, Refused, "restored from a backup")


async def test_elections_do_not_make_up_for_a_backup(world: ArchiveWorld) -> None:
    """Each new leader moves the leader's epoch on, past whatever the store could have noted."""
    await doomed(world)
    await world.conn.execute("DELETE FROM system_locks WHERE lock_name = 'gc'")
    for number in range(5):
        fence = await take_epoch(world.conn, LOCK, f"leader {number}")
        world.lead = type(world.lead)(world.hub_id, fence, world.pool)
        await skipped(world, Refused, "restored from a backup")


async def test_confirming_lets_collections_go_on_and_everything_waits_anew(
    world: ArchiveWorld,
) -> None:
    old = await archived(world)
    for _ in range(4):
        await world.runner().tick()
    await world.pass_hours(3)
    await world.conn.execute("UPDATE system_locks SET epoch = 2 WHERE lock_name = 'gc'")
    number = await ask(world.conn, KIND, {CONFIRM: True}, "root")
    done = await world.runner().tick()
    assert (done.confirmed, done.deleted, done.waiting) == (True, 0, 1)
    assert await world.candidates() == {old: 1}
    assert world.epochs() == ["5"]
    query = "SELECT holder_id FROM system_locks WHERE lock_name = 'gc-confirmed'"
    assert await world.rows(query) == [{"holder_id": "root"}]
    (answer,) = await world.rows(f"SELECT result FROM leader_requests WHERE id = {number}")
    assert answer["result"]["collected"]["confirmed"] is True
    assert not (await world.runner().tick()).confirmed


async def test_archives_of_unknown_workspaces_stay_until_somebody_vouches(
    world: ArchiveWorld,
) -> None:
    """Made after the backup that this database comes from, even if no collection was in between."""
    await archived(world)
    unknown = world.put(7, 10, hours=9)
    for _ in range(3):
        await world.runner(gc_orphan_seconds=0).tick()
    assert unknown in world.objects()
    await ask(world.conn, KIND, {CONFIRM: True}, "root")
    for _ in range(2):
        await world.runner(gc_orphan_seconds=0).tick()
    assert unknown not in world.objects()
    later = world.put(8, 10, hours=-1)
    for _ in range(3):
        await world.runner(gc_orphan_seconds=0).tick()
    assert later in world.objects()


async def test_the_stores_count_only_ever_rises(world: ArchiveWorld) -> None:
    """Also when a leader that was paused notes its collection late."""
    for epoch in (5, 3, 5):
        await raise_epoch(world.store, world.hub_id, epoch)
        assert await read_marker(world.store, world.hub_id) == Marker(world.hub_id, 5)
    await raise_epoch(world.store, world.hub_id, 6)
    assert world.epochs() == ["6"]


async def test_of_two_that_mark_the_store_at_once_both_are_right(world: ArchiveWorld) -> None:
    world.store.delete(f"{world.hub_id}/marker.json")
    made = await asyncio.gather(*(create_marker(world.store, world.hub_id) for _ in range(4)))
    assert set(made) == {Marker(world.hub_id)}


async def test_a_store_that_says_no_is_as_good_as_silent(world: ArchiveWorld) -> None:
    """Whether the mark is there is then unknown, and nothing may be judged absent."""

    def refuse(call: str) -> None:
        raise ActionFailed("the archive store does not let us in", hint="give access")

    with pytest.raises(Unreachable, match="does not let us in"):
        await check_store(
            FaultyStore(world.store, before=refuse), world.hub_id, holds_archives=False
        )
