"""Collecting archives in a bucket: everything that holds on a disk, and what only a bucket has.

Those tests of the other two modules in which the store has a say run here once more, with a real S3
server.
"""

from __future__ import annotations

import json
import os
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from codehub.adapters.s3.address import MIB, parse_address
from codehub.adapters.s3.store import S3Store
from codehub.coordinator import gc as collector
from codehub.core.keys import build_key, meta_key
from codehub.errors import ActionFailed, Refused, Unreachable
from codehub.model.archive import ArchiveKey
from codehub.model.states import Phase
from codehub.service.collecting import CONFIRM, KIND
from codehub.store.connect import connect
from codehub.store.hubs import ensure_hub_id
from codehub.store.requests import ask
from tests.contract.s3_faults import FaultyProxy, is_next_page, lose_answer, reply
from tests.contract.s3_server import s3_environment, s3_server  # noqa: F401
from tests.integration.archive_world import archive_world, archived, remembered_long
from tests.integration.command_line import run_codehub
from tests.integration.test_gc import (  # noqa: F401
    test_a_crash_between_commit_marker_and_archive_is_made_good,
    test_a_leader_that_is_replaced_in_the_middle_stops_there,
    test_a_workspace_is_purged_first_and_its_archive_goes_later,
    test_an_orphan_waits_and_is_deleted_with_its_commit_marker,
    test_half_an_archive_is_an_orphan_like_others,
    test_many_go_in_several_batches,
    test_no_more_objects_go_than_allowed_and_the_rest_goes_later,
    test_what_is_newer_than_the_archive_in_use_stays,
    test_what_is_no_archive_is_left_alone,
)
from tests.integration.test_gc_soundness import (  # noqa: F401
    doomed,
    test_a_database_from_a_backup_collects_nothing_until_confirmed,
    test_a_foreign_mark_stops_everything,
    test_a_store_with_none_of_our_archives_skips_the_collection,
    test_an_empty_store_is_not_marked_however_sure_somebody_is,
    test_archives_of_unknown_workspaces_stay_until_somebody_vouches,
    test_confirming_lets_collections_go_on_and_everything_waits_anew,
    test_of_two_that_mark_the_store_at_once_both_are_right,
    test_the_store_is_marked_before_there_are_archives,
    test_the_stores_count_only_ever_rises,
    test_without_its_mark_the_store_is_another_one,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping
    from pathlib import Path

    from tests.contract.s3_faults import Exchange, Request
    from tests.contract.s3_server import S3Server
    from tests.integration.archive_world import ArchiveWorld
    from tests.integration.command_line import Ran

pytestmark = pytest.mark.anyio

MANY = 1050
"""More than one page of a listing holds."""
LONG_AGO = 1_700_000_000


@pytest.fixture
def server(s3_server: S3Server, s3_environment: Mapping[str, str]) -> S3Server:  # noqa: F811
    return s3_server


@pytest.fixture
def bucket(server: S3Server) -> str:
    return server.make_bucket()


@pytest.fixture
def open_bucket() -> Iterator[Callable[[str], S3Store]]:
    """Opens stores that are closed after the test."""
    opened: list[S3Store] = []

    def open_one(url: str) -> S3Store:
        opened.append(S3Store(parse_address(url)))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


@pytest.fixture
async def world(
    database_url: str, server: S3Server, bucket: str, open_bucket: Callable[[str], S3Store]
) -> AsyncIterator[ArchiveWorld]:
    store = open_bucket(server.address(bucket))
    async with archive_world(database_url, server.root / bucket, store) as made:
        yield made


@pytest.fixture
async def other(
    make_database_url: Callable[[], str],
    server: S3Server,
    bucket: str,
    open_bucket: Callable[[str], S3Store],
) -> AsyncIterator[ArchiveWorld]:
    """Another hub, with its own database and the same bucket."""
    store = open_bucket(server.address(bucket))
    async with archive_world(make_database_url(), server.root / bucket, store) as made:
        yield made


@pytest.fixture
def proxy(server: S3Server) -> Iterator[FaultyProxy]:
    with FaultyProxy(server.url) as proxy:
        yield proxy


@pytest.fixture
def shaky(
    server: S3Server, bucket: str, proxy: FaultyProxy, open_bucket: Callable[[str], S3Store]
) -> S3Store:
    """The same bucket, through a bad network; everything is tried once."""
    return open_bucket(server.address(bucket, endpoint_url=proxy.url, max_attempts=1))


# What a disk does in another way


async def test_a_store_that_is_away_skips_the_collection(
    world: ArchiveWorld, server: S3Server, open_bucket: Callable[[str], S3Store]
) -> None:
    """A bucket that does not exist is no empty one, and neither is a silent server."""
    await doomed(world)
    missing = open_bucket(server.address("no-such-bucket"))
    silent = open_bucket("s3://bucket?endpoint_url=http://127.0.0.1:9&max_attempts=1")
    for store in (missing, silent):
        with pytest.raises(Unreachable):
            await world.runner(store, gc_orphan_seconds=0, retention_seconds=0).tick()
    assert len(world.objects()) == 6
    assert await world.purged() == []


async def test_uploads_that_stopped_a_day_ago_are_given_up(
    world: ArchiveWorld, other: ArchiveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server's clock cannot be moved, so that day is made to be over."""
    mine = world.store.open_writer(world.key(1, 10))
    theirs = other.store.open_writer(other.key(1, 10))
    for writer in (mine, theirs):
        writer.write(bytes(9 * MIB))
    assert (await world.runner().tick()).aborted_uploads == 0
    monkeypatch.setattr(collector, "ABANDONED", -timedelta(days=1))
    assert (await world.runner().tick()).aborted_uploads == 1
    with pytest.raises(ActionFailed, match="given up"):
        mine.commit()
    theirs.commit()
    assert other.objects() == [other.key(1, 10)]
    assert (await world.runner().tick()).aborted_uploads == 0


# Two hubs in one bucket


async def test_each_of_two_hubs_in_one_bucket_collects_its_own(
    world: ArchiveWorld, other: ArchiveWorld
) -> None:
    """The same workspace ids and operations, so that only the hub's id tells them apart."""
    ours, theirs = await archived(world), await archived(other)
    for one in (world, other):
        await remembered_long(one)
    assert (await world.runner().tick()).deleted == 1
    assert ours not in world.objects()
    assert len(other.objects()) == 4
    assert other.epochs() == ["1"]
    assert (await other.runner().tick()).deleted == 1
    assert theirs not in other.objects()
    assert (world.objects(), other.objects()) == (
        [world.key(1, 11), meta_key(world.key(1, 11))],
        [other.key(1, 11), meta_key(other.key(1, 11))],
    )


async def test_a_hub_that_gives_up_all_it_has_leaves_the_other_alone(
    world: ArchiveWorld, other: ArchiveWorld
) -> None:
    """Unknown workspaces that somebody gave up, and a retention that is over."""
    await archived(other)
    await doomed(world)
    unknown = world.put(7, 10, hours=9)
    await ask(world.conn, KIND, {CONFIRM: True}, "root")
    for _ in range(3):
        await world.runner(gc_orphan_seconds=0, retention_seconds=0).tick()
    assert unknown not in world.objects()
    assert world.objects() == [world.key(1, 11), meta_key(world.key(1, 11))]
    assert len(other.objects()) == 4
    assert other.mark() == {"hub": str(other.hub_id)}


async def test_a_bucket_of_somebody_else_is_not_judged_however_sure_somebody_is(
    world: ArchiveWorld,
    make_database_url: Callable[[], str],
    server: S3Server,
    open_bucket: Callable[[str], S3Store],
) -> None:
    """ARCHIVE_STORE_URL names a bucket that exists: an empty one, and that of another hub."""
    await doomed(world)
    name = server.make_bucket()
    theirs, empty = (open_bucket(server.address(each)) for each in (name, server.make_bucket()))
    async with archive_world(make_database_url(), server.root / name, theirs) as stranger:
        await archived(stranger)
    before = [each.key for each in theirs.list("")]
    for store in (theirs, empty):
        with pytest.raises(Unreachable, match="another bucket or an empty one"):
            await world.runner(store, gc_orphan_seconds=0, retention_seconds=0).tick()
        await ask(world.conn, KIND, {CONFIRM: True}, "root")
        with pytest.raises(Refused, match="none of the archives"):
            await world.runner(store, gc_orphan_seconds=0, retention_seconds=0).tick()
    assert [each.key for each in theirs.list("")] == before
    assert list(empty.list("")) == []
    assert len(world.objects()) == 6
    assert await world.purged() == []


# A bad network


@pytest.fixture
async def crowded(
    database_url: str, server: S3Server, bucket: str, open_bucket: Callable[[str], S3Store]
) -> AsyncIterator[ArchiveWorld]:
    """A workspace with very many old archives; all have been orphans for long.

    They are put on the server's disk before it has looked at the bucket, which is quick.
    """
    async with await connect(database_url) as conn:
        hub_id = await ensure_hub_id(conn)
    for number in range(MANY):
        key = build_key(ArchiveKey(hub_id, UUID(int=1), UUID(int=100 + number), "1"))
        path = server.root / bucket / key
        path.parent.mkdir(parents=True)
        path.touch()
        os.utime(path, (LONG_AGO, LONG_AGO))
    store = open_bucket(server.address(bucket))
    async with archive_world(database_url, server.root / bucket, store) as made:
        await made.add(1, archive_key=made.put(1, 11, hours=5), phase=Phase.ARCHIVED)
        await remembered_long(made)
        yield made


async def test_a_listing_that_breaks_off_between_pages_skips_the_collection(
    crowded: ArchiveWorld, proxy: FaultyProxy, shaky: S3Store
) -> None:
    """What the first page said is thrown away; the next collection has all of it again."""
    before = await crowded.candidates()
    assert len(before) == MANY
    for act in (lose_answer, reply(503, "SlowDown"), reply(403, "AccessDenied"), reply(200, "")):
        proxy.spoil(act, is_next_page)
        with pytest.raises((Unreachable, ActionFailed)):
            await crowded.runner(shaky).tick()
        proxy.heal()
    assert len(proxy.seen(is_next_page)) == 4
    assert await crowded.candidates() == before
    assert crowded.epochs() == ["1"]
    assert len(crowded.objects()) == MANY + 2
    done = await crowded.runner(shaky, gc_max_deletes=7).tick()
    assert (done.deleted, done.postponed) == (7, MANY - 7)
    assert len(crowded.objects()) == MANY + 2 - 7


@pytest.mark.parametrize("act", [lose_answer, reply(503, "SlowDown")], ids=["lost", "503"])
async def test_a_deletion_whose_answer_is_lost_is_made_good_later(
    world: ArchiveWorld,
    proxy: FaultyProxy,
    shaky: S3Store,
    act: Callable[[Exchange, Request], None],
) -> None:
    """Whether it happened or not: the commit marker goes first, and nothing else is touched."""
    old = await archived(world)
    await remembered_long(world)
    proxy.spoil(act, lambda request: request.method == "DELETE" and meta_key(old) in request.target)
    with pytest.raises(Unreachable):
        await world.runner(shaky).tick()
    assert old in world.objects()
    assert (await world.runner(shaky).tick()).deleted == 1
    assert world.objects() == [world.key(1, 11), meta_key(world.key(1, 11))]


async def test_a_count_that_cannot_be_noted_in_the_bucket_stops_the_collection(
    world: ArchiveWorld, proxy: FaultyProxy, shaky: S3Store
) -> None:
    """The database counts one more than the bucket then, which is the safe way round."""
    old = await archived(world)
    await remembered_long(world)
    proxy.spoil(
        reply(503, "SlowDown"),
        lambda request: request.method == "PUT" and "/epochs/" in request.target,
    )
    with pytest.raises(Unreachable):
        await world.runner(shaky).tick()
    assert old in world.objects()
    assert world.epochs() == ["1"]
    assert (await world.runner(shaky).tick()).deleted == 1
    assert world.epochs() == ["3"]


# What a person sees


def _look(world: ArchiveWorld, server: S3Server, tmp_path: Path, *words: str) -> Ran:
    settings = {
        "DATABASE_URL": world.url,
        "ARCHIVE_STORE_URL": f"s3://{world.root.name}",
        "S3_ENDPOINT_URL": server.url,
        "S3_ADDRESSING": "path",
    }
    return run_codehub("gc", "--dry-run", *words, cwd=tmp_path, env=settings)


async def test_a_dry_run_explains_the_fate_of_each_object(
    world: ArchiveWorld, other: ArchiveWorld, server: S3Server, tmp_path: Path
) -> None:
    """One of every kind, and nothing of the other hub."""
    await archived(other)
    due = await archived(world)
    await remembered_long(world)
    waiting, unknown = world.put(1, 9, hours=20), world.put(7, 10)
    half = world.put(1, 12, hours=1, meta=False)
    world.write(f"{world.hub_id}/notes.txt", b"by hand")
    before = [each.key for each in world.store.list("")]
    ran = _look(world, server, tmp_path, "--format", "json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    fates = {each["key"]: (each["fate"], each["why"]) for each in told["archives"]}
    assert fates == {
        due: ("due", "older"),
        waiting: ("waiting", "older"),
        unknown: ("kept", "unknown-workspace"),
        half: ("kept", "newer"),
        world.key(1, 11): ("kept", "current"),
    }
    assert all(each["explanation"] for each in told["archives"])
    assert f"{world.hub_id}/notes.txt" in told["others"]
    assert told["obstacle"] is None
    assert str(other.hub_id) not in ran.out
    assert [each.key for each in world.store.list("")] == before


async def test_a_dry_run_says_why_nothing_would_be_collected(
    world: ArchiveWorld, server: S3Server, tmp_path: Path
) -> None:
    await archived(world)
    await world.runner().tick()
    await world.conn.execute("DELETE FROM system_locks WHERE lock_name = 'gc'")
    ran = _look(world, server, tmp_path)
    assert ran.code == 0, ran.err
    assert "Nothing is collected at present" in ran.out
    assert "knows of 0 collections, the archive store of 1" in ran.out
    assert "--confirm-restored" in ran.out
