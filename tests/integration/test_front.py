"""The front before a real demo workspace: what is served, forwarded, woken and refused."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from codehub.errors import CodeHubError
from codehub.model.states import DesiredState, ErrorReason, Operation, Phase
from codehub.model.workspace import PathPrefix, Status
from codehub.proxy.front import Front
from codehub.proxy.routes import Routes
from tests.integration.front_world import (
    HTML,
    FrontWorld,
    asleep,
    demo_workspace,
    front_world,
)
from tests.integration.stored import change, count, live
from tests.make import workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from codehub.model.runtime import Upstream

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(database_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[FrontWorld]:
    async with front_world(database_url, redis_url, tmp_path / "pages") as found:
        yield found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def demo(home: Path) -> Iterator[Upstream]:
    with demo_workspace(home, "/w/api") as upstream:
        yield upstream


# The hub's own pages


async def test_the_report_is_served_as_the_renderer_left_it(world: FrontWorld) -> None:
    world.pages.mkdir()
    (world.pages / "index.html").write_text("<p>the report</p>")
    answer = await world.get("/")
    assert (answer.status, answer.body) == (200, b"<p>the report</p>")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"] == "frame-ancestors 'none'"
    assert (await world.get("/", "HEAD")).body == b""


async def test_before_the_first_report_the_page_waits_and_reloads(world: FrontWorld) -> None:
    answer = await world.get("/", **HTML)
    assert answer.status == 503
    assert answer.headers["retry-after"] == "2"
    assert b'http-equiv="refresh"' in answer.body


async def test_the_front_says_that_it_lives(world: FrontWorld) -> None:
    answer = await world.ask("GET", "/healthz")
    assert (answer.status, answer.body) == (200, b"ok\n")


async def test_anything_else_is_not_found(world: FrontWorld) -> None:
    for path in ("/other", "/w", "/w/", "/w/Bad_Name/", "/w/../", "/w/%61pi/", "/w/api.x/", "//"):
        assert (await world.get(path, **HTML)).status == 404, path


async def test_nothing_can_be_changed_at_the_hubs_own_paths(world: FrontWorld) -> None:
    assert (await world.ask("POST", "/", b"x")).status == 405


async def test_a_port_that_is_taken_is_told_in_one_sentence(world: FrontWorld) -> None:
    other = Front(
        routes=Routes(world.pool, lambda _: asyncio.sleep(0)),
        pages=world.pages,
        activity=world.front._activity,
        wake=world.front._wake,
        port=world.port,
    )
    with pytest.raises(CodeHubError, match="cannot listen on"):
        await other.start()


# Forwarding to the demo


async def test_the_demos_page_comes_through(world: FrontWorld, demo: Upstream) -> None:
    await world.run("api", demo)
    answer = await world.ask("GET", "/w/api/")
    assert answer.status == 200
    assert b"<title>" in answer.body
    assert answer.headers["connection"] == "close"
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert json.loads((await world.ask("GET", "/w/api/api/info")).body)["workspace"] == "demo"


async def test_what_is_saved_through_the_front_is_in_the_home(
    world: FrontWorld, demo: Upstream, home: Path
) -> None:
    await world.run("api", demo)
    note = b"written through the front " * 30_000
    saved = await world.ask(
        "PUT", "/w/api/api/notes", note, Origin=f"http://127.0.0.1:{world.port}"
    )
    assert saved.status == 204
    assert (home / "notes.txt").read_bytes() == note
    assert (await world.ask("GET", "/w/api/api/notes")).body == note


async def test_head_has_the_length_and_no_body(world: FrontWorld, demo: Upstream) -> None:
    await world.run("api", demo)
    whole, head = await world.get("/w/api/app.js"), await world.get("/w/api/app.js", "HEAD")
    assert head.status == 200
    assert int(head.headers["content-length"]) == len(whole.body) > 0
    assert head.body == b""


async def test_a_missing_slash_is_added_with_the_query_kept(world: FrontWorld) -> None:
    answer = await world.get("/w/api?a=b&c")
    assert (answer.status, answer.headers["location"]) == (308, "/w/api/?a=b&c")


async def test_a_prefix_is_stripped_or_kept_as_declared(world: FrontWorld, demo: Upstream) -> None:
    await world.run("api", demo, path_prefix=PathPrefix.KEEP)
    assert (await world.ask("GET", "/w/api/api/info")).status == 200
    await world.run("other", demo, number=2, path_prefix=PathPrefix.KEEP)
    # The demo lives below /w/api only: another prefix that is kept is no path of its.
    assert (await world.ask("GET", "/w/other/api/info")).status == 404


# What is not running


async def test_a_visit_wakes_and_the_page_goes_on_by_itself(
    world: FrontWorld, demo: Upstream
) -> None:
    one = asleep()
    await world.add(one)
    answer = await world.get("/w/api/", **HTML)
    assert answer.status == 503
    assert answer.headers["retry-after"] == "2"
    assert b'http-equiv="refresh" content="2"' in answer.body
    intent = (await live(world.conn, "api")).intent
    assert (intent.desired, intent.source) == (DesiredState.RUNNING, "visit")
    await change(world.conn, "api", phase="RUNNING")
    world.upstreams[one.id] = demo
    world.front._routes.forget("api", one.id)
    assert (await world.get("/w/api/", **HTML)).status == 200


NO_VISITS = {
    "a fetch": {"Accept": "text/html", "Sec-Fetch-Mode": "cors"},
    "a frame": {"Accept": "text/html", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    "a program": {"Accept": "*/*"},
    "a websocket": {"Connection": "Upgrade", "Upgrade": "websocket", "Accept": "text/html"},
}


async def test_nothing_but_a_visit_wakes(world: FrontWorld) -> None:
    await world.add(asleep())
    for name, headers in NO_VISITS.items():
        assert (await world.get("/w/api/", **headers)).status == 503, name
    assert (await live(world.conn, "api")).intent.desired is DesiredState.STANDBY
    assert await count(world.conn, "workspace_events") == 0


async def test_programs_are_told_in_json(world: FrontWorld) -> None:
    await world.add(asleep())
    answer = await world.ask("GET", "/w/api/data")
    assert answer.headers["content-type"] == "application/problem+json"
    assert json.loads(answer.body)["status"] == 503


async def test_a_refused_visit_says_who_holds_it(world: FrontWorld) -> None:
    await world.add(*(asleep(f"w{number}", number) for number in (1, 2, 3)))
    for name in ("w1", "w2"):
        assert (await world.get(f"/w/{name}/", **HTML)).status == 503
    answer = await world.get("/w/w3/", **HTML)
    assert answer.status == 502
    assert b"alice may run 2 at once" in answer.body
    assert b"<code>codehub stop w1</code>" in answer.body


async def test_an_error_shows_its_reason_and_advice(world: FrontWorld) -> None:
    status = Status(
        Phase.ERROR,
        error_reason=ErrorReason.RETRY_EXCEEDED,
        error_message="the command <b>ended</b> with code 1",
    )
    await world.add(workspace("api", status=status))
    answer = await world.get("/w/api/", **HTML)
    assert answer.status == 502
    assert b"the command &lt;b&gt;ended&lt;/b&gt; with code 1" in answer.body
    assert b"<code>codehub recover api</code>" in answer.body
    assert (await world.ask("GET", "/w/api/")).status == 502


async def test_an_operation_in_flight_is_waited_for(world: FrontWorld) -> None:
    status = Status(
        Phase.ARCHIVED,
        operation=Operation.RESTORING,
        op_id=UUID(int=9),
        op_started_at=datetime.now(UTC) - timedelta(minutes=1),
        op_progress={"stage": "unpack", "bytes": 42, "total": 100},
    )
    await world.add(workspace("api", status=status))
    answer = await world.get("/w/api/", **HTML)
    assert answer.status == 503
    assert b'<progress max="100" value="42"' in answer.body


async def test_an_archived_one_waits_for_a_word_unless_visits_may_restore_it(
    world: FrontWorld,
) -> None:
    await world.add(
        asleep("kept", 1, Phase.ARCHIVED),
        asleep("open", 2, Phase.ARCHIVED, wake_from=DesiredState.ARCHIVED),
    )
    assert (await world.get("/w/kept/", **HTML)).status == 502
    assert (await world.get("/w/open/", **HTML)).status == 503
    assert (await live(world.conn, "kept")).intent.desired is DesiredState.ARCHIVED
    assert (await live(world.conn, "open")).intent.desired is DesiredState.RUNNING


async def test_a_workspace_that_is_gone_gives_a_page_of_ours(
    world: FrontWorld, tmp_path: Path
) -> None:
    with demo_workspace(tmp_path, "/w/api") as ended:
        pass
    await world.run("api", ended)
    answer = await world.get("/w/api/", **HTML)
    assert answer.status == 502
    assert b"api does not answer" in answer.body
    assert b"codehub logs api" in answer.body


async def test_one_that_has_just_stopped_is_waited_for(world: FrontWorld) -> None:
    await world.run("api", None)
    answer = await world.get("/w/api/", **HTML)
    assert answer.status == 503
    assert b"has just stopped" in answer.body


# Who may ask


OWN_NAMES = (
    *("localhost", "LOCALHOST:80", "127.0.0.1:8080", "[::1]:8080"),
    *("api.localhost:1", "a.b.localhost"),
)
OTHER_NAMES = (
    *("evil.test", "localhost.evil.test", "evillocalhost", "localhost.", "127.0.0.1.evil.test"),
    *("127.0.0.2", "0.0.0.0", "[::2]", "localhost:8080:1", "localhost:", "user@localhost", ""),
    *("localhost/", "localhost evil", ".localhost"),
)


async def test_only_names_of_this_machine_are_answered(world: FrontWorld) -> None:
    for host in OWN_NAMES:
        assert (await world.get("/healthz", Host=host)).status == 200, host
    for host in OTHER_NAMES:
        for path in ("/", "/healthz", "/w/api/"):
            assert (await world.get(path, Host=host)).status == 421, host


async def test_other_sites_may_look_but_not_change_anything(
    world: FrontWorld, demo: Upstream, home: Path
) -> None:
    await world.run("api", demo)
    before = b"mine"
    (home / "notes.txt").write_bytes(before)
    host = {"Host": f"localhost:{world.port}"}
    for origin in (
        "http://evil.test",
        "null",
        f"https://localhost:{world.port}",
        "http://localhost",
    ):
        answer = await world.ask("PUT", "/w/api/api/notes", b"theirs", Origin=origin, **host)
        assert answer.status == 403, origin
    for site in ("cross-site", "same-site"):
        answer = await world.ask("POST", "/w/api/x", b"", Sec_Fetch_Site=site, **host)
        assert answer.status == 403, site
    assert (home / "notes.txt").read_bytes() == before
    assert (await world.get("/w/api/", Origin="http://evil.test")).status == 200
    own = f"http://localhost:{world.port}"
    allowed = await world.ask("PUT", "/w/api/api/notes", b"ours", Origin=own, **host)
    assert allowed.status == 204


# Living through trouble


async def test_a_running_workspace_stays_reachable_without_the_database(
    world: FrontWorld, demo: Upstream
) -> None:
    one = await world.run("api", demo)
    assert (await world.get("/w/api/")).status == 200
    await world.conn.execute("ALTER TABLE workspaces RENAME TO away")
    world.front._routes.forget("api", one.id)
    assert (await world.get("/w/api/")).status == 200
    unknown = await world.get("/w/other/", **HTML)
    assert unknown.status == 503
    assert b"cannot read its database" in unknown.body


async def test_stopping_lets_a_request_finish_and_tells_the_last_activity(
    world: FrontWorld,
) -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await go.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone")
        await writer.drain()
        writer.close()

    await world.serve(slow)
    waiting = asyncio.create_task(world.get("/w/api/"))
    await asked.wait()
    stopping = asyncio.create_task(world.front.stop())
    await asyncio.sleep(0)
    go.set()
    assert (await waiting).body == b"done"
    await stopping
    with pytest.raises(OSError):
        await world.open()
    (sighting,) = (await world.signals.read_activity()).sightings
    assert (sighting.workspace_id.int, sighting.source) == (1, "traffic")
