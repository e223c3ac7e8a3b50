"""The parts of the streams by themselves: the queue of a client, the crowd, and what is read."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from codehub.config import Settings
from codehub.errors import TooManyTries, Unreachable
from codehub.model.access import Identity, Person, Way
from codehub.model.people import Role
from codehub.model.states import Phase
from codehub.store.connect import connect, transaction
from codehub.store.streams import (
    START,
    read_changes,
    read_horizon,
    read_named,
    read_owned,
    read_page,
    read_some,
)
from codehub.web.stream_client import MOST_BYTES, Client, Wish
from codehub.web.stream_clients import Clients
from codehub.web.stream_text import Spoken, event, snapshot
from tests.integration.stored import insert
from tests.web.web_world import at_rest, fill

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, MutableMapping

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.store.streams import Sight

    Conn = AsyncConnection[DictRow]

pytestmark = pytest.mark.anyio

ANA = Person(UUID(int=1), "ana", Role.MEMBER)
BOB = Person(UUID(int=2), "bob", Role.MEMBER)
SETTINGS = Settings()


class Wire:
    """What a client was sent; it takes nothing while it is `shut`."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.over = False
        self.open = asyncio.Event()
        self.open.set()
        self.error: Exception | None = None

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        await self.open.wait()
        if self.error is not None:
            raise self.error
        assert not self.over, "nothing comes after the end"
        if message["body"]:
            self.sent.append(message["body"])
        self.over = not message["more_body"]


def client(
    wire: Wire, person: Person = ANA, wish: Wish | None = None, drained: list[Client] | None = None
) -> Client:
    identity = Identity(person, Way.SESSION, UUID(int=person.id.int + 100))
    heard = drained if drained is not None else []
    return Client(identity, wish or Wish(person.name), "/w/\0/", wire, heard.append)


async def settle() -> None:
    """Let tasks that can go on go on."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_what_waits_goes_out_together_and_in_order() -> None:
    wire, drained = Wire(), list[Client]()
    one = client(wire, drained=drained)
    for piece in (b"a", b"b", b"c"):
        one.put(piece)
    await settle()
    assert wire.sent == [b"abc"]
    one.put(b"d")
    await settle()
    assert wire.sent == [b"abc", b"d"]
    assert drained == [one, one]


async def test_who_takes_nothing_is_dropped_once_too_much_waits() -> None:
    wire = Wire()
    wire.open.clear()
    one = client(wire)
    one.put(b"first")
    await settle()
    piece = b"x" * (MOST_BYTES // 4)
    for _ in range(5):
        one.put(piece)
    assert one.ended
    wire.open.set()
    await settle()
    assert wire.sent[0] == b"first"
    assert b"event: dropped" in wire.sent[1]
    assert len(b"".join(wire.sent)) < len(piece), "what waited is not kept"
    assert wire.over
    one.put(b"more")
    one.end(b"the end")
    await settle()


async def test_parts_of_a_snapshot_are_no_reason_to_drop_anybody() -> None:
    """They come one at a time, when the one before is sent."""
    wire = Wire()
    wire.open.clear()
    one = client(wire)
    one.put_page(b"x" * (2 * MOST_BYTES), UUID(int=7))
    one.put(b"a change")
    assert not one.ended
    assert (one.expects(UUID(int=8)), one.expects(UUID(int=7))) == (True, False)
    one.put_page(b"the rest", None)
    assert not one.expects(UUID(int=8))
    wire.open.set()
    await settle()
    assert b"".join(wire.sent).endswith(b"a changethe rest")


async def test_the_last_word_is_the_last() -> None:
    wire = Wire()
    one = client(wire)
    one.put(b"before;")
    one.end(b"bye")
    one.put(b"after")
    one.put_page(b"after", None)
    await settle()
    assert (b"".join(wire.sent), wire.over) == (b"before;bye", True)


async def test_a_wire_that_breaks_ends_the_client(caplog: pytest.LogCaptureFixture) -> None:
    wire, drained = Wire(), list[Client]()
    wire.error = RuntimeError("broken")
    one = client(wire, drained=drained)
    one.put(b"lost")
    await settle()
    assert (one.ended, drained) == (True, [])
    assert "could not be written" in caplog.text


async def test_a_client_that_is_gone_leaves_no_task_behind() -> None:
    wire = Wire()
    wire.open.clear()
    one = client(wire)
    one.put(b"never read")
    await settle()
    before = len(asyncio.all_tasks())
    one.release()
    await settle()
    assert len(asyncio.all_tasks()) == before - 1


async def test_who_is_to_hear_of_what() -> None:
    crowd = Clients(most=10, most_each=10)
    ana, bob = client(Wire(), ANA), client(Wire(), BOB)
    everything = client(Wire(), BOB, Wish())
    one = client(Wire(), BOB, Wish(None, frozenset({"api"})))
    for each in (ana, bob, everything, one):
        crowd.add(each)
    assert crowd.following("ana", "api") == {ana, everything, one}
    assert crowd.following("bob", "web") == {bob, everything}
    assert crowd.following("cy", "web") == {everything}
    crowd.remove(everything)
    assert crowd.following("cy", "web") == set()
    assert len(crowd) == 3


async def test_there_is_room_again_when_one_leaves() -> None:
    crowd = Clients(most=2, most_each=1)
    ana, bob = client(Wire(), ANA), client(Wire(), BOB)
    crowd.add(ana)
    with pytest.raises(TooManyTries, match="ana has 1 streams"):
        crowd.require_room(ANA)
    crowd.require_room(BOB)
    crowd.add(bob)
    with pytest.raises(Unreachable, match="no room"):
        crowd.require_room(BOB)
    crowd.remove(ana)
    crowd.require_room(ANA)
    crowd.close(b"bye")
    with pytest.raises(Unreachable, match="no room"):
        crowd.require_room(ANA)


def test_an_event_is_three_lines_and_a_blank_one() -> None:
    lines = event("snapshot", {"text": "two\nlines\r and \u2028 more"}).decode().split("\n")
    assert lines[0].startswith("id: ")
    assert lines[1] == "event: snapshot"
    assert json.loads(lines[2].removeprefix("data: "))["text"] == "two\nlines\r and \u2028 more"
    assert lines[3:] == ["", ""]
    text = snapshot([b'{"a":1}', b'{"b":2}'], first=True, last=False).decode()
    data = json.loads(text.split("data: ")[1])
    assert data == {"first": True, "last": False, "items": [{"a": 1}, {"b": 2}]}


@pytest.fixture
async def conn(database_url: str, anyio_backend: str) -> AsyncIterator[Conn]:
    async with await connect(database_url) as conn:
        await fill(conn)
        yield conn


def names(sights: list[Sight]) -> list[str]:
    return [each.workspace.name for each in sights]


async def test_pages_go_on_where_the_last_one_ended(conn: Conn) -> None:
    first = await read_page(conn, START, 4)
    rest = await read_page(conn, first[-1].workspace.id, 100)
    assert names(first) == ["ana-pending", "ana-running", "ana-standby", "ana-archived"]
    assert len(rest) == 7
    assert "ana-deleted" not in names(first + rest)


async def test_many_owners_pages_come_in_one_answer(conn: Conn) -> None:
    asked = [("ana", START), ("bob", START), ("ana", UUID(int=5)), ("nobody", START)]
    found = await read_owned(conn, asked, 2)
    assert [names(found[each]) for each in asked] == [
        ["ana-pending", "ana-running"],
        ["bob-running", "bob-standby"],
        ["ana-starting", "ana-deleting"],
        [],
    ]


async def test_some_by_id_or_by_name(conn: Conn) -> None:
    found = await read_some(conn, [UUID(int=8), UUID(int=2), UUID(int=999)])
    assert sorted(names(found)) == ["ana-deleted", "ana-running"]
    assert names(await read_named(conn, ["bob-running", "ana-deleted", "x"])) == ["bob-running"]


async def test_what_was_written_since_a_mark_is_found(conn: Conn, database_url: str) -> None:
    mark = await read_horizon(conn)
    assert await read_changes(conn, mark) == {}
    await conn.execute("UPDATE workspaces SET memo = 'x' WHERE name = 'bob-running'")
    found = await read_changes(conn, mark)
    assert found.keys() == {UUID(int=21)}
    (sight,) = await read_some(conn, found)
    assert sight.version == found[UUID(int=21)]


async def test_what_was_being_written_at_the_mark_is_found_too(
    conn: Conn, database_url: str
) -> None:
    """Also below a savepoint, whose number is no transaction's that is known to run."""
    async with await connect(database_url) as other:
        async with transaction(other):
            await other.execute("UPDATE workspaces SET memo = 'x' WHERE name = 'bob-running'")
            async with other.transaction():
                await other.execute("UPDATE workspaces SET memo = 'x' WHERE name = 'bob-standby'")
            mark = await read_horizon(conn)
            assert await read_changes(conn, mark) == {}
        assert (await read_changes(conn, mark)).keys() == {UUID(int=21), UUID(int=22)}
        await insert(other, at_rest("bob-new", 30, Phase.PENDING, "bob"))
    assert (await read_changes(conn, mark)).keys() == {UUID(int=n) for n in (21, 22, 30)}


async def test_words_are_made_once_for_each_address(conn: Conn) -> None:
    (sight,) = await read_some(conn, [UUID(int=2)])
    spoken = Spoken(sight, SETTINGS)
    near, far = spoken.shape("/w/\0/"), spoken.shape("http://\0.localhost/")
    assert json.loads(near)["url"] == "/w/ana-running/"
    assert json.loads(far)["url"] == "http://ana-running.localhost/"
    assert spoken.shape("/w/\0/") is near
    assert json.loads(near) | {"url": ""} == json.loads(far) | {"url": ""}
