"""An override ends by the clock, and nothing is written then: everybody is to know all the same."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from codehub.model.states import DesiredState, Phase
from codehub.model.workspace import Intent, Override, Status
from codehub.store.streams import Sight
from codehub.web.stream_clients import Clients
from codehub.web.stream_telling import Telling
from tests.make import NOW, workspace
from tests.web.stream_world import stream_world
from tests.web.test_stream_parts import SETTINGS, Wire, client, settle
from tests.web.web_world import API

if TYPE_CHECKING:
    import httpx

    from tests.web.stream_world import Follower, StreamWorld
    from tests.web.web_world import WebWorld

pytestmark = pytest.mark.anyio

NAME = "ana-standby"
RAISE = """
UPDATE workspaces SET declared_state = 'STANDBY', override_state = 'RUNNING',
    override_reason = 'demo', override_until = clock_timestamp() + %s * interval '1 second'
WHERE name = 'ana-standby'
"""
TAKE_AWAY = """
UPDATE workspaces SET override_state = NULL, override_reason = NULL, override_until = NULL
WHERE name = 'ana-standby'
"""
VERSION = "SELECT xmin::text AS version FROM workspaces WHERE name = 'ana-standby'"
END = NOW + timedelta(hours=1)


def sight(*, ahead: bool) -> Sight:
    """The same row, read before its override ends or after."""
    override = Override(DesiredState.RUNNING, END, "demo")
    one = workspace(
        owner="ana",
        intent=Intent(DesiredState.STANDBY, override=override),
        status=Status(Phase.STANDBY),
        declared_state=DesiredState.STANDBY,
    )
    return Sight(one, "1", NOW if ahead else END)


async def test_its_end_is_found_and_told_once() -> None:
    clients, wire = Clients(most=9, most_each=9), Wire()
    telling, follower = Telling(clients, SETTINGS), client(wire)
    follower.after = None
    clients.add(follower)
    early, late = sight(ahead=True), sight(ahead=False)
    name = early.workspace.id
    telling.tell(name, early, expiring=False)
    assert list(telling.ended(NOW)) == []
    assert list(telling.ended(END)) == [name]
    # Another reader of the same row, after its end, is not everybody.
    telling.note(late)
    assert list(telling.ended(END)) == [name]
    for _ in range(3):
        telling.tell(name, late, expiring=False)
    assert list(telling.ended(END)) == []
    await settle()
    told = b"".join(wire.sent)
    assert told.count(b"event: workspace_updated") == 2
    before, after = told.split(b"event: workspace_updated")[1:]
    assert (b'"start"' in before, b'"start"' in after) == (True, False)


async def test_what_is_gone_has_no_end_to_wait_for() -> None:
    telling, early = Telling(Clients(most=9, most_each=9), SETTINGS), sight(ahead=True)
    telling.note(early)
    telling.tell(early.workspace.id, None, expiring=False)
    assert list(telling.ended(END)) == []
    telling.note(early)
    telling.forget()
    assert list(telling.ended(END)) == []


async def test_those_who_follow_hear_of_it(database_url: str, redis_url: str) -> None:
    async with stream_world(database_url, redis_url, web_look_seconds=0.1) as world:
        ana = await follow_raised(world)
        written = await version(world)
        told = await ana.update_of(NAME, override=None)
        assert "start" not in told["actions"]
        assert await version(world) == written, "nobody wrote anything"


async def follow_raised(world: StreamWorld) -> Follower:
    """Somebody who saw the override: it ends soon, and on a slow machine not as soon."""
    for seconds in (1, 4, 16, 64):
        await world.run(RAISE, seconds)
        ana = await world.tab("ana", f"?names={NAME}")
        (seen,) = await ana.all()
        if seen["override"] is not None:
            assert "start" in seen["actions"]
            return ana
        ana.close()
    raise TimeoutError("the override was over each time before anybody saw it")


async def version(world: StreamWorld) -> str:
    row = await (await world.conn.execute(VERSION.encode())).fetchone()
    assert row is not None
    return str(row["version"])


async def test_one_that_is_over_is_none_to_whoever_has_an_etag(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    path = f"{API}/workspaces/{NAME}"
    await world.rows(RAISE, 3600)
    raised = (await ana.get(path)).headers["ETag"]
    await world.rows(RAISE, -1)
    over = (await ana.get(path)).headers["ETag"]
    assert over != raised
    await world.rows(TAKE_AWAY)
    known = await ana.get(path, headers={"If-None-Match": over})
    assert known.status_code == 304, "nothing that one decides on has changed"
    asked = await ana.post(f"{path}/archive", headers={"If-Match": over})
    assert asked.status_code == 200
