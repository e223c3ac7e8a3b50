"""Asking the leader: requests in Postgres, and `codehub gc` as a person runs it."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from codehub.coordinator import gc
from codehub.core.keys import meta_key
from codehub.errors import CodeHubError, FenceLost, Refused, Unreachable
from codehub.model.collection import Collected
from codehub.service.collecting import ask_to_collect, read_answer, write_answer
from codehub.store.advisory import Lock, try_lock_session
from codehub.store.connect import connect
from codehub.store.fence import take_epoch
from codehub.store.requests import ask, finish, open_requests, wait_for
from tests.integration.archive_world import archive_world
from tests.integration.command_line import run_codehub

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from codehub.coordinator.gc import GcRunner
    from tests.integration.archive_world import ArchiveWorld
    from tests.integration.command_line import Ran

pytestmark = pytest.mark.anyio
PATIENCE = 60


@pytest.fixture
async def world(database_url: str, tmp_path: Path) -> AsyncIterator[ArchiveWorld]:
    async with archive_world(database_url, tmp_path / "store") as made:
        yield made


async def codehub(world: ArchiveWorld, *words: str) -> Ran:
    """The command beside whatever else runs in this test."""
    env = {"DATABASE_URL": world.url, "ARCHIVE_STORE_URL": world.root.as_uri()}
    return await asyncio.to_thread(run_codehub, *words, cwd=world.root.parent, env=env)


@asynccontextmanager
async def leading(url: str) -> AsyncIterator[None]:
    """Somebody holds the leader's lock."""
    async with await connect(url) as conn:
        assert await try_lock_session(conn, Lock.LEADER)
        yield


@asynccontextmanager
async def running(runner: GcRunner) -> AsyncIterator[None]:
    task = asyncio.create_task(runner.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_requests_are_read_in_order_and_by_kind(world: ArchiveWorld) -> None:
    first = await ask(world.conn, "gc", {"a": 1}, "alice")
    await ask(world.conn, "other", {}, "bob")
    second = await ask(world.conn, "gc", {}, "carol")
    found = await open_requests(world.conn, "gc")
    assert [(each.id, each.asked_by) for each in found] == [(first, "alice"), (second, "carol")]
    assert found[0].arguments == {"a": 1}


async def test_a_request_is_told_at_once(world: ArchiveWorld) -> None:
    async with await connect(world.url) as listener:
        await listener.execute("LISTEN leader_request")
        number = await ask(world.conn, "gc", {}, "alice")
        async with asyncio.timeout(PATIENCE):
            told = await anext(listener.notifies())
    assert told.payload == str(number)


async def test_an_answer_ends_a_request_and_stays(world: ArchiveWorld) -> None:
    number = await ask(world.conn, "gc", {}, "alice")
    await finish(world.conn, world.lead.fence, number, {"n": 1})
    await finish(world.conn, world.lead.fence, number, {"n": 2})
    assert await open_requests(world.conn, "gc") == ()
    assert await wait_for(world.conn, number, 0) == {"n": 1}


async def test_a_former_leader_answers_nothing(world: ArchiveWorld) -> None:
    number = await ask(world.conn, "gc", {}, "alice")
    await take_epoch(world.conn, world.lead.fence.lock_name, "another")
    with pytest.raises(FenceLost):
        await finish(world.conn, world.lead.fence, number, {"n": 1})
    assert [each.id for each in await open_requests(world.conn, "gc")] == [number]


async def test_who_waits_gets_the_answer_when_it_comes(world: ArchiveWorld) -> None:
    number = await ask(world.conn, "gc", {}, "alice")
    async with await connect(world.url) as other:
        waiting = asyncio.create_task(wait_for(other, number, PATIENCE))
        await finish(world.conn, world.lead.fence, number, {"n": 1})
        assert await waiting == {"n": 1}


async def test_waiting_ends_and_the_request_stays(world: ArchiveWorld) -> None:
    number = await ask(world.conn, "gc", {}, "alice")
    assert await wait_for(world.conn, number, 0.01) is None
    assert [each.id for each in await open_requests(world.conn, "gc")] == [number]


def test_answers_come_back_as_they_were_given() -> None:
    done = Collected(kept=1, deleted=2, purged=("a", "b"), confirmed=True)
    assert read_answer(json.loads(json.dumps(write_answer(done)))) == done
    for error, message, hint in (
        (Refused("no", hint="try"), "no", "try"),
        (ValueError("secret"), "failed (ValueError)", "log"),
    ):
        with pytest.raises(Refused) as caught:
            read_answer(json.loads(json.dumps(write_answer(error))))
        assert message in caught.value.message
        assert hint in (caught.value.hint or "")
        assert "secret" not in caught.value.message


async def test_a_collection_answers_everybody_who_asked_before_it(world: ArchiveWorld) -> None:
    asked = [await ask(world.conn, "gc", {}, name) for name in ("alice", "bob")]
    other = await ask(world.conn, "other", {}, "carol")
    await world.runner().tick()
    for number in asked:
        assert read_answer(await wait_for(world.conn, number, 0) or {}) == Collected()
    assert await wait_for(world.conn, other, 0) is None


async def test_a_collection_that_fails_says_so_to_those_who_asked(world: ArchiveWorld) -> None:
    await world.add(1, archive_key=world.key(1, 11))
    number = await ask(world.conn, "gc", {}, "alice")
    with pytest.raises(Refused):
        await world.runner().tick()
    answer = await wait_for(world.conn, number, 0)
    with pytest.raises(Refused, match="none of the archives"):
        read_answer(answer or {})


async def test_a_nudge_makes_a_collection_begin_at_once(world: ArchiveWorld) -> None:
    """The first collection is over, the next one is hours away."""
    runner = world.runner(coordinator_gc_interval=3600)
    before = await ask(world.conn, "gc", {}, "alice")
    async with running(runner):
        assert await wait_for(world.conn, before, PATIENCE) is not None
        number = await ask(world.conn, "gc", {}, "alice")
        runner.nudge.set()
        assert await wait_for(world.conn, number, PATIENCE) is not None
    assert world.epochs() == ["2"]


async def test_a_nudge_about_something_else_collects_nothing(world: ArchiveWorld) -> None:
    runner = world.runner(coordinator_gc_interval=3600)
    await runner.turn()
    await ask(world.conn, "other", {}, "alice")
    await runner.turn()
    assert world.epochs() == ["1"]
    await ask(world.conn, "gc", {}, "alice")
    await runner.turn()
    assert world.epochs() == ["2"]


async def test_a_store_that_is_back_is_not_kept_waiting(
    world: ArchiveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc, "SOON", 0.0)
    runner = world.runner(coordinator_gc_interval=3600)
    (world.root / ".codehub-store").rename(world.root / ".away")
    with pytest.raises(Unreachable):
        await runner.turn()
    (world.root / ".away").rename(world.root / ".codehub-store")
    await runner.turn()
    await runner.turn()
    assert world.epochs() == ["1"]


async def test_without_a_leader_nothing_is_asked(world: ArchiveWorld) -> None:
    with pytest.raises(Refused, match="no coordinator leads"):
        await ask_to_collect(world.conn, by="alice", seconds=PATIENCE)
    assert await open_requests(world.conn, "gc") == ()


async def test_a_leader_of_another_database_does_not_count(
    world: ArchiveWorld, make_database_url: object
) -> None:
    assert callable(make_database_url)
    async with leading(make_database_url()):
        with pytest.raises(Refused, match="no coordinator leads"):
            await ask_to_collect(world.conn, by="alice", seconds=PATIENCE)


async def test_a_leader_that_takes_longer_goes_on(world: ArchiveWorld) -> None:
    async with leading(world.url):
        with pytest.raises(CodeHubError, match="has not ended within 0 s"):
            await ask_to_collect(world.conn, by="alice", seconds=0)
    assert len(await open_requests(world.conn, "gc")) == 1


async def test_the_command_says_at_once_that_nobody_leads(world: ArchiveWorld) -> None:
    ran = await codehub(world, "gc")
    assert ran.code == 1
    assert "no coordinator leads this hub" in ran.err
    assert "codehub serve coordinator" in ran.err


async def test_the_command_asks_the_leader_and_tells_what_it_did(world: ArchiveWorld) -> None:
    old = world.put(1, 10, hours=9)
    await world.add(1, archive_key=world.put(1, 11, hours=5))
    await world.runner().tick()
    await world.pass_hours(3)
    async with leading(world.url), await connect(world.url) as listener:
        await listener.execute("LISTEN leader_request")
        asking = asyncio.create_task(codehub(world, "gc", "--format", "json"))
        async with asyncio.timeout(PATIENCE):
            await anext(listener.notifies())
        async with running(world.runner()):
            ran = await asking
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["deleted"] == 1
    assert old not in world.objects()


async def test_a_dry_run_needs_no_leader_and_changes_nothing(world: ArchiveWorld) -> None:
    old = world.put(1, 10, hours=9)
    await world.add(1, archive_key=world.put(1, 11, hours=5))
    await world.runner().tick()
    await world.pass_hours(3)
    before = (world.objects(), await world.candidates(), world.epochs())
    shown = await codehub(world, "gc", "--dry-run")
    plain = await codehub(world, "gc", "--dry-run", "--format", "json")
    assert (shown.code, plain.code) == (0, 0), shown.err + plain.err
    assert "older than the archive in use" in shown.out
    assert "1 kept, 0 waiting, 1 to delete (1010 B)" in shown.out
    fates = {each["key"]: each["fate"] for each in json.loads(plain.out)["archives"]}
    assert fates == {old: "due", world.key(1, 11): "kept"}
    assert before == (world.objects(), await world.candidates(), world.epochs())


async def test_a_dry_run_foretells_the_end_of_a_retention(world: ArchiveWorld) -> None:
    await world.add(1, archive_key=world.put(1, 11))
    await world.conn.execute(
        "UPDATE workspaces SET deleted_at = now() - interval '8 days', phase = 'DELETED',"
        " desired_state = 'DELETED'"
    )
    shown = await codehub(world, "gc", "--dry-run")
    assert "Retention is over for: ws1." in shown.out
    assert "0 kept, 1 waiting" in shown.out
    assert await world.purged() == []


async def test_a_dry_run_says_that_nothing_would_be_collected(world: ArchiveWorld) -> None:
    await world.add(1, archive_key=world.put(1, 11))
    world.store.delete(f"{world.hub_id}/marker.json")
    shown = await codehub(world, "gc", "--dry-run")
    assert shown.code == 0, shown.err
    assert "Nothing is collected at present" in shown.out
    assert world.objects() == [world.key(1, 11), meta_key(world.key(1, 11))]


async def test_a_dry_run_confirms_nothing(world: ArchiveWorld) -> None:
    ran = await codehub(world, "gc", "--dry-run", "--confirm-restored")
    assert ran.code == 64


async def test_a_store_that_is_not_there_is_named(world: ArchiveWorld) -> None:
    env = {"DATABASE_URL": world.url, "ARCHIVE_STORE_URL": "file:///nonexistent/store"}
    ran = await asyncio.to_thread(run_codehub, "gc", "--dry-run", cwd=world.root.parent, env=env)
    assert ran.code == 1
    assert "/nonexistent/store is no archive store" in ran.err
