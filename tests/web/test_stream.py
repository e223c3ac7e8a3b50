"""`/api/v1/events`: everybody gets what is theirs, first all of it and then what happens."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING

import httpx
import pytest

from codehub.model.access import Scope
from codehub.model.states import Phase
from codehub.web import stream_reader
from codehub.web.shapes import WorkspaceShape
from tests.integration.stored import insert
from tests.web.stream_world import PATIENCE, stream_world
from tests.web.web_world import at_rest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.web.stream_world import StreamWorld

pytestmark = pytest.mark.anyio

BOBS = ["bob-archived", "bob-running", "bob-standby"]
ANAS = [
    *("ana-archived", "ana-deleting", "ana-error", "ana-orphan", "ana-pending", "ana-running"),
    *("ana-standby", "ana-starting"),
]

MOMENTARY = {"why": "", "nextMove": None}
CLAIMED = {
    "op_id": "00000000-0000-0000-0000-000000000001",
    "op_started_at": "2026-11-01T12:00:00Z",
}


@pytest.fixture
async def world(
    database_url: str, redis_url: str, anyio_backend: str
) -> AsyncIterator[StreamWorld]:
    async with stream_world(database_url, redis_url) as opened:
        yield opened


async def test_everybody_gets_first_all_that_is_theirs(world: StreamWorld) -> None:
    ana, bob, root = [await world.tab(name) for name in ("ana", "bob", "root")]
    for tab, names in ((ana, ANAS), (bob, BOBS), (root, ANAS + BOBS)):
        snapshot = await tab.next()
        assert (snapshot.kind, snapshot.names) == ("snapshot", names)
        assert (snapshot.data["first"], snapshot.data["last"]) == (True, True)


async def test_a_change_goes_to_its_owner_and_to_admins_alone(world: StreamWorld) -> None:
    tabs = [await world.tab(name) for name in ("ana", "bob", "root")]
    for tab in tabs:
        await tab.all()
    await world.change("ana-standby", phase="RUNNING", desired_state="RUNNING")
    await world.change("bob-running", memo="for the demo")
    ana, bob, root = tabs
    found = await ana.next()
    assert (found.kind, found.data["name"]) == ("workspace_updated", "ana-standby")
    assert found.data["phase"] == "RUNNING"
    found = await bob.next()
    assert (found.data["name"], found.data["memo"]) == ("bob-running", "for the demo")
    assert {(await root.next()).data["name"] for _ in "12"} == {"ana-standby", "bob-running"}


async def test_it_is_the_whole_object_as_the_api_has_it(world: StreamWorld) -> None:
    ana = await world.tab("ana")
    first = next(each for each in await ana.all() if each["name"] == "ana-running")
    await world.change("ana-running", description="A new one")
    told = await ana.update_of("ana-running", description="A new one")
    for each in (first, told):
        shape = WorkspaceShape.model_validate(each)
        assert shape.model_dump(mode="json", by_alias=True) == each
    assert told["url"] == "http://ana-running.localhost/"
    assert told["labels"] == {"team": "payments"}


async def test_what_is_told_is_what_can_be_asked_for(world: StreamWorld) -> None:
    """All but the words that depend on the moment."""
    cookie = await world.cookie("ana")
    told = {each["name"]: each for each in await (await world.follow(cookie)).all()}
    headers = {"Cookie": cookie.removeprefix("Cookie: "), "Host": "localhost"}
    async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=PATIENCE) as client:
        address = f"http://127.0.0.1:{world.port}/api/v1/workspaces"
        asked = {each["name"]: each for each in (await client.get(address)).json()["items"]}
        head = await client.head(f"http://127.0.0.1:{world.port}/api/v1/events")
    assert asked.keys() == told.keys()
    for name, shape in asked.items():
        assert told[name] | MOMENTARY == shape | MOMENTARY
    assert (head.status_code, head.content) == (200, b"")


async def test_its_address_is_the_one_by_which_the_hub_is_asked_for(world: StreamWorld) -> None:
    cookie = await world.cookie("bob")
    near, far = await world.follow(cookie), await world.follow(cookie, host="localhost:8080")
    for tab, port in ((near, ""), (far, ":8080")):
        urls = sorted(each["url"] for each in await tab.all())
        assert urls == [f"http://{name}.localhost{port}/" for name in BOBS]
    await world.change("bob-running", memo="again")
    assert (await near.next()).data["url"] == "http://bob-running.localhost/"
    assert (await far.next()).data["url"] == "http://bob-running.localhost:8080/"


async def test_a_new_one_comes_and_a_deleted_one_goes(world: StreamWorld) -> None:
    bob = await world.tab("bob")
    await bob.all()
    await insert(world.conn, at_rest("bob-new", 24, Phase.PENDING, "bob"))
    assert (await bob.next()).data["name"] == "bob-new"
    number = str(await world.id_of("bob-new"))
    await world.run("UPDATE workspaces SET deleted_at = now() WHERE name = 'bob-new'")
    found = await bob.next()
    assert (found.kind, found.data) == ("workspace_deleted", {"id": number, "name": "bob-new"})


async def test_what_was_asked_for_is_told_before_anything_moves(world: StreamWorld) -> None:
    """Another state is desired, and nothing has happened yet: a limit may hold it for long."""
    ana = await world.tab("ana")
    await ana.all()
    await world.change("ana-standby", desired_state="RUNNING")
    assert (await ana.update_of("ana-standby"))["desired"] == "RUNNING"


async def test_what_will_soon_fall_asleep_is_told_of(world: StreamWorld) -> None:
    ana, bob = await world.tab("ana"), await world.tab("bob")
    await ana.all()
    await bob.all()
    await world.run(
        "SELECT pg_notify('ws_expiring', json_build_object('id', id, 'user_id', owner_user_id)"
        "::text) FROM workspaces WHERE name = 'ana-running'"
    )
    found = await ana.until("workspace_expiring")
    assert found.data["name"] == "ana-running"
    assert found.data["nextMove"]["to"] == "STANDBY"
    await world.change("bob-running", memo="next")
    assert (await bob.next()).kind == "workspace_updated"


async def test_a_snapshot_comes_in_parts_that_make_a_whole(
    world: StreamWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_reader, "PAGE", 3)
    ana, root = await world.tab("ana"), await world.tab("root")
    parts = [await ana.next() for _ in range(3)]
    assert [len(each.data["items"]) for each in parts] == [3, 3, 2]
    assert [each.data["first"] for each in parts] == [True, False, False]
    assert [each.data["last"] for each in parts] == [False, False, True]
    assert sorted(name for each in parts for name in each.names) == ANAS
    assert sorted(each["name"] for each in await root.all()) == ANAS + BOBS


async def test_one_can_follow_a_few_only(world: StreamWorld) -> None:
    ana = await world.tab("ana", "?names=ana-running,bob-running,nobodys")
    assert (await ana.next()).names == ["ana-running"]
    root = await world.tab("root", "?owner=bob&names=ana-running,bob-running")
    assert (await root.next()).names == ["bob-running"]
    bobs = await world.tab("root", "?owner=bob")
    assert (await bobs.next()).names == BOBS
    await world.change("ana-standby", memo="not this one")
    await world.change("ana-running", memo="this one")
    await world.change("bob-running", memo="this one")
    for tab, name in ((ana, "ana-running"), (root, "bob-running"), (bobs, "bob-running")):
        assert (await tab.next()).data["name"] == name


@pytest.mark.parametrize("query", ["?owner=bob", "?owner=nobody", "?names=bob-running"])
async def test_anothers_are_as_if_they_were_not_there(world: StreamWorld, query: str) -> None:
    ana = await world.tab("ana", query)
    assert (await ana.next()).names == []
    await world.change("bob-running", memo="not for ana")
    await world.run("UPDATE sessions SET revoked_at = now()")
    assert (await ana.next()).kind == "bye"


async def test_who_follows_one_that_is_renamed_loses_it(world: StreamWorld) -> None:
    one, all_of_them = await world.tab("bob", "?names=bob-running"), await world.tab("bob")
    await one.all()
    await all_of_them.all()
    await world.run("UPDATE workspaces SET name = 'bob-elsewhere' WHERE name = 'bob-running'")
    found = await one.next()
    assert (found.kind, found.data["name"]) == ("workspace_deleted", "bob-running")
    assert (await all_of_them.next()).data["name"] == "bob-elsewhere"


async def test_signs_of_life_and_ids(database_url: str, redis_url: str) -> None:
    async with stream_world(database_url, redis_url, web_heartbeat_seconds=0.05) as world:
        bob = await world.tab("bob")
        found = [await bob.anything() for _ in range(5)]
    kinds = [each.kind for each in found]
    assert kinds.count("snapshot") == 1
    assert kinds.count("heartbeat") == 4
    run, numbers = found[0].id.split("-")[0], [int(each.id.split("-")[1]) for each in found]
    assert numbers == sorted(set(numbers))
    assert {each.id.split("-")[0] for each in found} == {run}


async def test_how_it_is_sent(world: StreamWorld) -> None:
    bob = await world.tab("bob")
    assert bob.status == 200
    assert bob.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert bob.headers["cache-control"] == "no-store, no-transform"
    assert bob.headers["x-accel-buffering"] == "no"
    assert "content-encoding" not in bob.headers
    async with asyncio.timeout(PATIENCE):
        said = await bob.reader.readuntil(b"\n\n")
    assert re.search(rb"retry: [1-4]\d\d\d\n\n$", said)


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("X-Nothing: 1", 200),
        ("Accept: */*", 200),
        ("Accept: text/html, text/*;q=0.5", 200),
        ("Accept: text/event-stream", 200),
        ("Accept: text/html, text/event-stream; q=0", 406),
        ("Accept: application/json", 406),
    ],
)
async def test_who_takes_no_stream_gets_none(world: StreamWorld, accept: str, status: int) -> None:
    follower = await world.follow(await world.cookie("bob"), "", accept)
    assert follower.status == status
    if status == 406:
        problem = await follower.body()
        assert problem["detail"] == "this is a stream: accept text/event-stream"


@pytest.mark.parametrize(
    "query", ["?owner=%00", "?owner=", "?names=", "?names=a,,b", "?names=%ff", "?names=A"]
)
async def test_what_is_no_name_is_refused(world: StreamWorld, query: str) -> None:
    follower = await world.follow(await world.cookie("root"), query)
    assert follower.status == 422


async def test_strangers_and_programs_that_may_not_read_get_nothing(world: StreamWorld) -> None:
    assert (await world.follow("X-Nobody: 1")).status == 401
    assert (await world.follow(await world.bearer("ana", Scope.PLAN))).status == 403
    reads = await world.follow(await world.bearer("bob", Scope.READ))
    assert (await reads.next()).names == BOBS


async def test_there_are_only_so_many(database_url: str, redis_url: str) -> None:
    async with stream_world(
        database_url, redis_url, web_streams=3, web_streams_per_user=2
    ) as world:
        first, second = await world.tab("ana"), await world.tab("ana")
        await first.all()
        await second.all()
        refused = await world.tab("ana")
        assert (refused.status, refused.headers["retry-after"]) == (429, "10")
        assert "ana has 2 streams of events open" in (await refused.body())["detail"]
        bob = await world.tab("bob")
        assert (await bob.next()).names == BOBS
        full = await world.tab("root")
        assert full.status == 503
        assert "no room for another stream" in (await full.body())["detail"]
        second.close()
        again = await world.let_in(await world.cookie("ana"))
        assert (await again.next()).names == ANAS


async def test_events_are_told_once(world: StreamWorld) -> None:
    """One write is told on two channels, is looked for as well, and whoever tells may repeat it."""
    bob = await world.tab("bob")
    await bob.all()
    await world.change("bob-standby", desired_state="RUNNING", operation="STARTING", **CLAIMED)
    assert (await bob.next()).data["operation"] == "STARTING"
    said = {"event": "workspace_updated", "id": str(await world.id_of("bob-standby"))}
    channel = f"{world.settings.redis_channel_sse_prefix}:bob"
    await world.signals.publish(channel, json.dumps(said))
    await world.change("bob-archived", memo="the next one")
    assert (await bob.next()).data["name"] == "bob-archived"
