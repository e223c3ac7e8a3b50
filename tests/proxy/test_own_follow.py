"""Pages that wait: what they are told, when they go on, and that nobody listens who may not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from codehub.errors import Unreachable
from codehub.model.access import Scope
from codehub.model.runtime import Upstream
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.workspace import Intent, PathPrefix, Status
from codehub.proxy.follow import BEAT, MOST, READY, RETRY, TURN, Follow, answers_http
from codehub.store.workspaces import Found
from tests.make import NOW, workspace
from tests.proxy.own_world import own_world, request
from tests.proxy.test_own_actions import token

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from codehub.proxy.seam import Answer
    from tests.proxy.own_world import World

pytestmark = pytest.mark.anyio

WANTED = Intent(DesiredState.RUNNING)
UPSTREAM = Upstream("127.0.0.1", 4711)


def at(phase: Phase, operation: Operation = Operation.NONE, **more: Any) -> Found:
    progress = more.pop("progress", {})
    error = more.pop("error", None)
    more.setdefault("intent", WANTED)
    status = Status(
        phase,
        operation=operation,
        op_progress=progress,
        error_reason=error,
        upstream=UPSTREAM if phase is Phase.RUNNING else None,
    )
    return Found(workspace("api", status=status, **more), NOW)


@dataclass
class Stage:
    """A workspace that a test moves, and a page that follows it."""

    found: Found | None = None
    broken: bool = False
    answers: bool = True
    routed: bool = True
    asked: list[str] = field(default_factory=list)
    looks: int = 0
    mine: Callable[[Found], bool] = lambda _: True
    held: set[Callable[[], None]] = field(default_factory=set)

    def follow(self, **more: Any) -> Follow:
        more = {"pause": 0.001, "beat": 30.0} | more
        return Follow(self.find, routed=lambda _: self.routed, answers=self.probe, **more)

    async def find(self, name: str) -> Found | None:
        self.looks += 1
        if self.broken:
            raise Unreachable("away")
        return self.found

    async def probe(self, upstream: Upstream, path: str) -> bool:
        assert upstream == UPSTREAM
        self.asked.append(path)
        return self.answers

    def hold(self, hang_up: Callable[[], None]) -> Callable[[], None]:
        self.held.add(hang_up)
        return lambda: self.held.discard(hang_up)


@asynccontextmanager
async def page(stage: Stage, follow: Follow) -> AsyncIterator[AsyncGenerator[bytes, None]]:
    events = follow.events("api", stage.mine, stage.hold)
    async with aclosing(events) as opened, asyncio.timeout(60):
        assert await anext(opened) == RETRY
        yield opened


def told(event: bytes) -> dict[str, Any]:
    kind, data = event.decode().removesuffix("\n\n").split("\n")
    assert kind == "event: state"
    found: dict[str, Any] = json.loads(data.removeprefix("data: "))
    return found


async def test_an_application_whose_first_answer_takes_long_is_waited_for() -> None:
    """And the database is looked at meanwhile: it may still fail."""
    stage = Stage()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        seen = stage.looks
        while stage.looks < seen + 3:  # noqa: ASYNC110 (whoever looks tells nobody)
            await asyncio.sleep(0.005)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    runs = at(Phase.RUNNING).workspace
    there = Upstream("127.0.0.1", server.sockets[0].getsockname()[1])
    stage.found = Found(replace(runs, status=replace(runs.status, upstream=there)), NOW)
    follow = Follow(stage.find, answers=answers_http, pause=0.001)
    async with server, page(stage, follow) as events:
        assert told(await anext(events))["title"] == "api is running"
        assert await anext(events) == READY


async def test_nothing_is_asked_of_an_application_for_which_nobody_waits() -> None:
    stage, asked, given_up = Stage(at(Phase.RUNNING)), asyncio.Event(), asyncio.Event()

    async def never(upstream: Upstream, path: str) -> bool:
        asked.set()
        try:
            return await asyncio.Event().wait()
        finally:
            given_up.set()

    follow = Follow(stage.find, answers=never, pause=0.001)
    async with page(stage, follow):
        await asked.wait()
    async with asyncio.timeout(60):
        await given_up.wait()


async def test_a_page_hears_of_every_step_and_goes_on_at_the_end() -> None:
    stage = Stage(at(Phase.ARCHIVED, Operation.RESTORING, progress={"bytes": 1, "total": 4}))
    async with page(stage, stage.follow()) as events:
        first = told(await anext(events))
        assert (first["title"], first["percent"]) == ("Restoring api", 25)
        stage.found = at(Phase.STANDBY)
        assert told(await anext(events))["title"] == "api is about to start"
        stage.found = at(Phase.STANDBY, Operation.STARTING)
        starting = told(await anext(events))
        assert (starting["title"], starting["percent"]) == ("Starting api", None)
        stage.found = at(Phase.RUNNING)
        assert await anext(events) == READY
        with pytest.raises(StopAsyncIteration):
            await anext(events)


async def test_it_goes_on_only_when_the_workspace_answers_and_can_be_reached() -> None:
    stage = Stage(at(Phase.RUNNING), answers=False, routed=False)
    async with page(stage, stage.follow()) as events:
        assert told(await anext(events))["title"] == "api is running"
        assert stage.asked == [], "nobody is asked who cannot be reached yet"
        stage.routed = True
        async with asyncio.timeout(60):
            while not stage.asked:  # noqa: ASYNC110
                await asyncio.sleep(0)
        stage.answers = True
        assert await anext(events) == READY


async def test_one_that_keeps_its_prefix_is_asked_below_it() -> None:
    stage = Stage(at(Phase.RUNNING, path_prefix=PathPrefix.KEEP))
    async with page(stage, stage.follow()) as events:
        assert await anext(events) == READY
    assert stage.asked == ["/w/api/"]


TURNS = {
    "error": at(Phase.ERROR, error=ErrorReason.TIMEOUT),
    "asleep": at(Phase.STANDBY, intent=Intent(DesiredState.STANDBY, IntentSource.CLI)),
    "archived": at(Phase.ARCHIVED, intent=Intent(DesiredState.ARCHIVED, IntentSource.TTL)),
    "suspended": at(Phase.STANDBY, suspend=True),
    "deleted": at(Phase.DELETED),
    "gone": None,
}


@pytest.mark.parametrize("name", TURNS)
async def test_what_does_not_come_by_itself_makes_the_page_load_again(name: str) -> None:
    stage = Stage(at(Phase.STANDBY, Operation.STARTING))
    async with page(stage, stage.follow()) as events:
        await anext(events)
        stage.found = TURNS[name]
        assert await anext(events) == TURN
        with pytest.raises(StopAsyncIteration):
            await anext(events)


async def test_somebody_who_may_not_see_it_any_more_is_turned_away() -> None:
    stage = Stage(at(Phase.STANDBY, Operation.STARTING))
    stage.mine = lambda found: found.workspace.declaration.owner == "alice"
    async with page(stage, stage.follow()) as events:
        await anext(events)
        stage.found = at(Phase.STANDBY, Operation.RESTORING, owner="bob")
        assert await anext(events) == TURN


async def test_nor_does_anything_else_have_to_change_for_that() -> None:
    stage = Stage(at(Phase.STANDBY, Operation.STARTING))
    stage.mine = lambda found: found.workspace.declaration.owner == "alice"
    async with page(stage, stage.follow(beat=3600.0)) as events:
        await anext(events)
        stage.found = at(Phase.STANDBY, Operation.STARTING, owner="bob")
        assert await anext(events) == TURN


async def test_a_quiet_line_beats() -> None:
    stage = Stage(at(Phase.STANDBY, Operation.STARTING))
    async with page(stage, stage.follow(beat=0.01)) as events:
        await anext(events)
        assert await anext(events) == BEAT
        assert await anext(events) == BEAT


async def test_a_database_that_is_away_is_waited_for() -> None:
    stage = Stage(at(Phase.STANDBY, Operation.STARTING), broken=True)
    async with page(stage, stage.follow(beat=0.01)) as events:
        assert await anext(events) == BEAT
        stage.broken = False
        event = BEAT
        while event == BEAT:
            event = await anext(events)
        assert told(event)["title"] == "Starting api"


async def test_all_pages_of_one_workspace_share_one_watcher() -> None:
    stage = Stage(at(Phase.STANDBY, Operation.STARTING))
    follow = stage.follow(pause=3600.0)
    async with page(stage, follow) as one, page(stage, follow) as two, page(stage, follow) as three:
        firsts = [await anext(each) for each in (one, two, three)]
        assert len(set(firsts)) == 1
        assert len(follow) == 3
        assert stage.looks == 1
    assert len(follow) == 0
    assert follow._watched == {}
    assert stage.held == set()


async def test_the_end_of_a_login_ends_the_page() -> None:
    stage = Stage(at(Phase.STANDBY, Operation.STARTING))
    async with page(stage, stage.follow()) as events:
        await anext(events)
        (hang_up,) = stage.held
        hang_up()
        with pytest.raises(StopAsyncIteration):
            await anext(events)


async def test_a_process_that_ends_lets_all_pages_go() -> None:
    stage = Stage(at(Phase.STANDBY, Operation.STARTING))
    follow = stage.follow()
    async with page(stage, follow) as events:
        await anext(events)
        follow.close()
        with pytest.raises(StopAsyncIteration):
            await anext(events)
    assert follow.full


async def test_nothing_in_a_message_can_end_an_event() -> None:
    found = at(Phase.STANDBY, Operation.STARTING)
    status = replace(
        found.workspace.status,
        error_reason=ErrorReason.ACTION_FAILED,
        error_message="x\n\nevent: ready\ndata: 1\n\n</script>\u2028",
    )
    stage = Stage(replace(found, workspace=replace(found.workspace, status=status)))
    async with page(stage, stage.follow()) as events:
        event = await anext(events)
    assert event.count(b"\n\n") == 1
    assert "\\n\\nevent: ready" in told(event)["details"][0]


# Asking a port


async def served(answer: bytes) -> asyncio.Server:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0)


@pytest.mark.parametrize(
    ("answer", "speaks"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.0 503 Later\r\n\r\n", True),
        (b"SSH-2.0-OpenSSH_9.6\r\n", False),
        (b"HT", False),
        (b"", False),
    ],
)
async def test_only_http_counts_as_an_answer(answer: bytes, speaks: bool) -> None:
    async with await served(answer) as server:
        port = server.sockets[0].getsockname()[1]
        assert await answers_http(Upstream("127.0.0.1", port), "/") is speaks
    assert not await answers_http(Upstream("127.0.0.1", port), "/"), "nobody listens any more"


# The address


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    async with own_world(database_url) as found:
        started = {"op_id": UUID(int=9), "op_started_at": NOW}
        status = Status(Phase.STANDBY, operation=Operation.STARTING, **started)  # type: ignore[arg-type]
        await found.add(workspace("api", status=status))
        yield found


@asynccontextmanager
async def heard(answer: Answer) -> AsyncIterator[AsyncGenerator[bytes, None]]:
    """What a page is told, after the first word."""
    assert isinstance(answer.body, AsyncGenerator)
    async with aclosing(answer.body) as events, asyncio.timeout(60):
        assert await anext(events) == RETRY
        yield events


async def first(answer: Answer) -> bytes:
    """The first thing a page is told."""
    async with heard(answer) as events:
        return await anext(events)


async def test_the_address_tells_the_owner_and_admins(world: World) -> None:
    for name in ("alice", "bob"):
        browser = await world.somebody(name)
        opened = await browser.open("/_codehub/follow/api", Accept="text/event-stream")
        assert opened.status == 200
        assert opened.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert opened.headers["cache-control"] == "no-store"
        assert told(await first(opened.answer))["title"] == "Starting api"


async def test_others_hear_nothing(world: World) -> None:
    await world.add(workspace("theirs", number=2, owner="carol"))
    browser = await world.somebody("alice")
    for name in ("theirs", "never"):
        page = await browser.open(f"/_codehub/follow/{name}", Accept="text/event-stream")
        assert page.status == 404, name
    nobody = await world.answer(request("GET", "/_codehub/follow/api"))
    assert nobody is not None
    assert nobody.status == 401
    posted = await world.answer(request("POST", "/_codehub/follow/api"))
    assert posted is not None
    assert posted.status == 405


async def test_a_token_needs_to_be_for_looking(world: World) -> None:
    refused = await world.answer(
        request("GET", "/_codehub/follow/api", await token(world, Scope.PLAN))
    )
    assert refused is not None
    assert refused.status == 403
    allowed = await world.answer(
        request("GET", "/_codehub/follow/api", await token(world, Scope.READ))
    )
    assert allowed is not None
    assert told(await first(allowed))["title"] == "Starting api"


async def test_logging_out_ends_what_is_followed(world: World) -> None:
    browser = await world.somebody()
    opened = await browser.open("/_codehub/follow/api", Accept="text/event-stream")
    keeping = asyncio.create_task(world.identities.run())
    try:
        async with heard(opened.answer) as events:
            await anext(events)
            await browser.send(await browser.open("/logout"), "Log out")
            async for _ in events:
                pass
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def test_too_many_pages_ask_by_themselves(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MOST > 100
    monkeypatch.setattr("codehub.proxy.follow.MOST", 0)
    browser = await world.somebody()
    page = await browser.open("/_codehub/follow/api", Accept="text/event-stream")
    assert (page.status, page.headers["retry-after"]) == (503, "2")
