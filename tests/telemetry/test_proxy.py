"""What passes a proxy, as its metrics and its log tell of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codehub.proxy.seam import Answer, Ask, Forward
from codehub.telemetry.instruments import TRAFFIC
from tests.integration.stored import insert
from tests.proxy.gate_world import asleep
from tests.proxy.heads_of import VISIT
from tests.proxy.whole_world import whole
from tests.proxy.wire.wire_world import GET, HANDSHAKE, SWITCH, Workspace, wire
from tests.telemetry.shown import Rises, lines, shown, until

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator
    from io import StringIO
    from pathlib import Path

    from codehub.proxy.seam import RequestHead
    from tests.proxy.whole_world import Whole

pytestmark = pytest.mark.anyio

END = b"\r\n\r\n"
VISITING = [f"{name}: {value}" for name, value in VISIT.items()]


@pytest.fixture
async def proxy(database_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[Whole]:
    async with whole(database_url, redis_url, tmp_path) as made:
        yield made


def answered(rises: Rises, who: str, status: str) -> float:
    return rises.of("codehub_proxy_requests_total", **{"class": who, "status": status})


async def test_requests_are_counted_by_who_answered(proxy: Whole) -> None:
    rises = Rises()
    for _ in range(3):
        await proxy.ask(proxy.get("/w/api/", proxy.cookie))
    await proxy.ask(proxy.get("/w/nothing/", proxy.cookie))
    await proxy.ask(proxy.get("/healthz"))
    await proxy.ask(proxy.get("/w/api/"))
    await proxy.ask(proxy.get("/w/api/", "Accept: text/html"))
    await proxy.ask(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
    await proxy.ask(b"GET / HTTP/1.1\r\nHost: elsewhere.test\r\nConnection: close\r\n\r\n")
    assert answered(rises, "forwarded", "2xx") == 3
    assert answered(rises, "page", "4xx") == 1
    assert answered(rises, "own", "2xx") == 1
    assert answered(rises, "refused", "3xx") == 1
    assert answered(rises, "refused", "4xx") == 3


async def test_a_visit_that_wakes_is_counted(proxy: Whole) -> None:
    await insert(proxy.conn, *(asleep(f"ws{each}", each) for each in range(2, 5)))
    rises = Rises()
    for each in range(2, 5):
        await proxy.ask(proxy.get(f"/w/ws{each}/", proxy.cookie, *VISITING))
    await proxy.ask(proxy.get("/w/ws2/", proxy.cookie))
    assert rises.of("codehub_proxy_wakes_total", result="asked") == 1, "alice may run two"
    assert rises.of("codehub_proxy_wakes_total", result="limited") == 2
    assert answered(rises, "page", "5xx") >= 2


async def test_open_websockets_are_counted_until_they_close(proxy: Whole) -> None:
    before = shown("codehub_proxy_websockets"), shown("codehub_proxy_connections")
    rises = Rises()
    socket = await proxy.socket(proxy.secret)
    assert await socket.echoes(b"hello")
    assert shown("codehub_proxy_websockets") == (before[0] or 0) + 1
    assert shown("codehub_proxy_connections") == (before[1] or 0) + 1
    assert answered(rises, "forwarded", "1xx") == 1
    socket.writer.close()
    await until(
        lambda: (shown("codehub_proxy_websockets"), shown("codehub_proxy_connections")) == before
    )


async def test_a_workspace_without_an_answer_is_counted() -> None:
    rises = Rises()
    async with wire() as world:
        assert await world.status(GET % b"") == 502
    assert rises.of("codehub_proxy_unanswered_total") == 1
    assert answered(rises, "refused", "5xx") == 1
    assert answered(rises, "forwarded", "5xx") == 0


async def test_the_hubs_own_web_application_is_no_workspace() -> None:
    rises = Rises()
    async with wire() as world:

        def own(head: RequestHead) -> Forward:
            forward = world.gate.forward(head)
            forward.own = True
            return forward

        world.gate.verdict = own
        await world.serve(Workspace())
        assert await world.status(GET % b"") == 200
    assert answered(rises, "own", "2xx") == 1
    assert answered(rises, "forwarded", "2xx") == 0


async def test_connections_that_are_too_many_are_counted() -> None:
    rises = Rises()
    async with wire(connections=1) as world, world.talk() as first:
        await world.serve(Workspace())
        first.send(GET % b"")
        assert (await first.answer()).status == 200
        assert await world.status(GET % b"") == 503
    assert rises.of("codehub_proxy_connections_refused_total") == 1


async def test_counts_of_open_things_end_where_they_began() -> None:
    before = (TRAFFIC.connections, TRAFFIC.websockets)

    async def switch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(SWITCH)
        await reader.read()
        writer.close()

    async with wire() as world:
        await world.serve(switch)
        async with world.talk() as talk:
            talk.send(HANDSHAKE)
            assert (await talk.answer()).status == 101
            assert (TRAFFIC.connections, TRAFFIC.websockets) == (before[0] + 1, before[1] + 1)
    await until(lambda: (TRAFFIC.connections, TRAFFIC.websockets) == before)


async def test_a_fault_is_logged_under_the_name_of_its_request(logged: StringIO) -> None:
    async def fail(_body: bytes) -> Answer:
        raise RuntimeError("a fault of ours")

    async with wire() as world:
        world.gate.verdict = lambda _: Ask(fail)
        asked = GET % b""
        named = asked.replace(b"\r\n\r\n", b"\r\nX-Request-Id: req-7\r\n\r\n")
        assert await world.status(named) == 500
        assert await world.status(asked) == 500
    first, second = (each["request_id"] for each in lines(logged) if "exception" in each)
    assert first == "req-7"
    assert second != first
    assert len(second) == 16


async def test_the_next_request_on_the_connection_has_a_name_of_its_own(logged: StringIO) -> None:
    """What is answered later on this connection is another request's."""

    async def answer(_body: bytes) -> Answer:
        return Answer(200, [])

    def fail(_head: RequestHead) -> Answer:
        raise RuntimeError("a fault of ours")

    async with wire() as world, world.talk() as talk:
        world.gate.verdict = lambda head: Ask(answer) if head.target == b"/first" else fail(head)
        named = (GET % b"first").replace(b"\r\n\r\n", b"\r\nX-Request-Id: first\r\n\r\n")
        talk.send(named + GET % b"second")
        assert (await talk.answer()).status == 200
        assert (await talk.answer()).status == 500
    (line,) = [each for each in lines(logged) if "exception" in each]
    assert line["request_id"] != "first"


def names(workspace: Workspace) -> list[str]:
    """What a request was called when it arrived."""
    pairs = (line.partition(": ") for line in workspace.lines)
    return [value for name, _, value in pairs if name.lower() == "x-request-id"]


@pytest.mark.parametrize("given", ["", "X-Request-Id: req-7", "X-Request-Id: not a name"])
async def test_the_web_application_gets_the_name_that_is_in_our_log(
    logged: StringIO, given: str
) -> None:
    async def fail() -> Answer:
        raise RuntimeError("a fault of ours")

    async with wire() as world:

        def own(head: RequestHead) -> Forward:
            forward = world.gate.forward(head)
            forward.own, forward.failed = True, fail
            return forward

        world.gate.verdict = own
        web = Workspace(None)
        await world.serve(web)
        more = f"\r\n{given}".encode() if given else b""
        asked = (GET % b"").replace(END, more + END)
        assert await world.status(asked) == 500
    (line,) = [each for each in lines(logged) if "exception" in each]
    assert names(web) == [line["request_id"]]
    assert (line["request_id"] == "req-7") == (given == "X-Request-Id: req-7")


async def test_a_workspace_gets_the_name_that_the_client_gave_and_no_other() -> None:
    async with wire() as world:
        workspace = Workspace()
        await world.serve(workspace)
        assert await world.status(GET % b"") == 200
        assert names(workspace) == []
        named = (GET % b"").replace(END, b"\r\nX-Request-Id: a b\r\n\r\n")
        assert await world.status(named) == 200
        assert names(workspace) == ["a b"]
