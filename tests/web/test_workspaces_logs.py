"""`…/logs`: the last lines and what comes, for as long as somebody may see them."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from codehub.adapters.process import ProcessRuntime
from codehub.cli.outputs import Outputs
from codehub.errors import Unreachable
from codehub.model.runtime import VolumeRef
from codehub.model.workspace import Runtime
from codehub.service.asking import missing
from codehub.store.access import find_account
from codehub.store.hubs import ensure_hub_id
from codehub.store.sessions import end_all_sessions
from codehub.web.followers import Followers, Output
from codehub.wiring import WORKSPACES, HubChoice
from tests.contract.process_world import ProcessWorld
from tests.contract.runtime_world import LONG, leads, request_for
from tests.integration.stored import change, live
from tests.proxy.gate_world import until
from tests.web.web_world import PATIENCE, served

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import Path

    import httpx

    from codehub.model.access import Person
    from codehub.model.workspace import Workspace
    from codehub.ports import Runtime as RuntimePort
    from tests.web.web_world import WebWorld

pytestmark = pytest.mark.anyio

LOGS = "/api/v1/workspaces/ana-running/logs"


class Told:
    """An output that says what the test says."""

    def __init__(self) -> None:
        self.open = 0
        self.news: asyncio.Queue[bytes] = asyncio.Queue()

    async def read(
        self, workspace: Workspace, lines: int, follow: bool
    ) -> AsyncGenerator[bytes, None]:
        return self._copy(f"the last {lines} of {workspace.name}\n".encode(), follow=follow)

    async def _copy(self, first: bytes, *, follow: bool) -> AsyncGenerator[bytes, None]:
        self.open += 1
        try:
            yield first
            while follow:
                yield await self.news.get()
        finally:
            self.open -= 1


class Reading:
    """Somebody who follows, from the first bytes on."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._chunks = answer.aiter_bytes()

    async def next(self) -> bytes:
        """What comes next; nothing once it is over."""
        async with asyncio.timeout(PATIENCE):
            return await anext(self._chunks, b"")


@asynccontextmanager
async def following(client: httpx.AsyncClient, url: str = LOGS) -> AsyncIterator[Reading]:
    async with client.stream("GET", url, params={"follow": "true", "tail": "7"}) as answer:
        assert answer.status_code == 200, await answer.aread()
        yield Reading(answer)


async def test_the_last_lines_then_what_comes(world: WebWorld) -> None:
    told = Told()
    async with served(world, told.read) as base:
        ana = await world.session("ana", base)
        answer = await ana.get(LOGS)
        assert answer.text == "the last 200 of ana-running\n"
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        async with following(ana) as reading:
            assert await reading.next() == b"the last 7 of ana-running\n"
            await told.news.put(b"\x1b[1mnews\xff\n")
            assert await reading.next() == b"\x1b[1mnews\xff\n"
        await until(lambda: told.open == 0)


async def test_what_cannot_be_asked_for_is_told(world: WebWorld, ana: httpx.AsyncClient) -> None:
    for query in ("tail=-1", "tail=10001", "tail=all", "follow=maybe"):
        assert (await ana.get(f"{LOGS}?{query}")).status_code == 422, query
    nowhere = await ana.get(LOGS)
    assert nowhere.status_code == 501
    assert "codehub logs ana-running" in nowhere.json()["hint"]
    assert world.hub.logs is None


async def test_a_follower_ends_with_the_login(world: WebWorld) -> None:
    told = Told()
    async with served(world, told.read) as base:
        ana, bob = await world.session("ana", base), await world.session("bob", base)
        async with (
            following(ana) as hers,
            following(bob, LOGS.replace("ana", "bob")) as his,
        ):
            await hers.next()
            await his.next()
            account = await find_account(world.conn, "ana")
            assert account is not None
            await end_all_sessions(world.conn, account.person.id)
            assert await hers.next() == b""
            await told.news.put(b"still here\n")
            assert await his.next() == b"still here\n"


async def test_a_follower_ends_with_the_process_at_once(world: WebWorld) -> None:
    told = Told()
    async with AsyncExitStack() as stack:
        async with served(world, told.read) as base:
            ana = await world.session("ana", base)
            reading = await stack.enter_async_context(following(ana))
            await reading.next()
        # A drain that cut it off would not have ended the answer as HTTP ends one.
        assert await reading.next() == b""
    assert told.open == 0


async def test_a_client_that_leaves_frees_its_place(world: WebWorld) -> None:
    told = Told()
    async with served(world, told.read) as base:
        ana = await world.session("ana", base)
        for _ in range(20):
            async with following(ana) as reading:
                await reading.next()
            await until(lambda: told.open == 0)


async def test_so_many_follow_and_no_more(world: WebWorld) -> None:
    told = Told()
    async with served(world, told.read) as base:
        ana, root = await world.session("ana", base), await world.session("root", base)
        async with AsyncExitStack() as stack:
            readings = [await stack.enter_async_context(following(ana)) for _ in range(8)]
            for each in readings:
                await each.next()
            refused = await ana.get(LOGS)
            assert refused.status_code == 429
            assert 5 <= int(refused.headers["retry-after"]) <= 15
            assert (await root.get(LOGS)).status_code == 200, "others have places of their own"
        await until(lambda: told.open == 0)
        assert (await ana.get(LOGS)).status_code == 200


async def test_no_more_get_in_while_outputs_are_slow_to_open(world: WebWorld) -> None:
    """A place is taken before there is anything to read, and given back where nothing comes."""
    told, opened = Told(), asyncio.Event()

    async def read(one: Workspace, lines: int, follow: bool) -> AsyncGenerator[bytes, None]:
        await opened.wait()
        if lines == 0:
            raise Unreachable("it gives no answer")
        return await told.read(one, lines, follow)

    async with served(world, read) as base:
        ana = await world.session("ana", base)
        asked = [asyncio.create_task(ana.get(LOGS, params={"tail": n % 2})) for n in range(12)]
        await until(lambda: sum(each.done() for each in asked) == 4)
        opened.set()
        statuses = [(await each).status_code for each in asked]
        assert statuses.count(429) == 4
        assert statuses.count(200) + statuses.count(503) == 8
        assert 503 in statuses
        again = await asyncio.gather(*(ana.get(LOGS) for _ in range(8)))
        assert [each.status_code for each in again] == [200] * 8


async def test_head_does_not_wait_for_the_end(world: WebWorld) -> None:
    told = Told()
    async with served(world, told.read) as base:
        ana = await world.session("ana", base)
        answer = await ana.head(LOGS, params={"follow": "true"})
        assert (answer.status_code, answer.content) == (200, b"")
        await until(lambda: told.open == 0)


async def test_a_follower_ends_when_the_workspace_is_anothers(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    """Looked at often, as nobody would wait for in a test."""
    told, person = Told(), await _person(world, "ana")
    workspace = await live(world.conn, "ana-running")
    output = Output(
        await told.read(workspace, 7, True),
        Followers(look=0.01).take(person),
        lambda _: lambda: None,
        lambda: _theirs(ana),
    )
    sent: list[bytes] = []

    async def send(message: dict[str, object]) -> None:
        sent.append(bytes(message.get("body", b"") or b""))  # type: ignore[call-overload]

    async def receive() -> dict[str, object]:
        await asyncio.Event().wait()
        raise AssertionError

    serving = asyncio.create_task(output({}, receive, send))  # type: ignore[arg-type]
    await until(lambda: told.open == 1)
    await world.rows(
        "UPDATE workspaces SET owner_user_id = (SELECT id FROM users WHERE name = 'bob')"
    )
    async with asyncio.timeout(PATIENCE):
        await serving
    assert (told.open, sent[-1]) == (0, b"")


async def _theirs(client: httpx.AsyncClient) -> None:
    if (await client.get("/api/v1/workspaces/ana-running")).status_code == 404:
        raise missing()


async def _person(world: WebWorld, name: str) -> Person:
    account = await find_account(world.conn, name)
    assert account is not None
    return account.person


# ---- With a real workspace ----


async def test_a_workspace_that_runs_here_is_read_here(world: WebWorld, tmp_path: Path) -> None:
    hub_id = str(await ensure_hub_id(world.conn))
    runtime: RuntimePort = ProcessRuntime(tmp_path / WORKSPACES, hub_id)
    assert isinstance(runtime, ProcessRuntime)
    await runtime.claim()
    one = await live(world.conn, "ana-running")
    ref = VolumeRef(one.id, 1)
    script = f"echo hello; {ProcessWorld.serve} >/dev/null 2>&1 & "
    script += "until [ -e $HOME/say ]; do sleep 0.05; done; echo news; wait"
    await runtime.create_volume(ref)
    try:
        await runtime.start(request_for(_Here(), ref, script), leads)
        async with (
            Outputs(HubChoice(tmp_path, world.url), world.settings, world.url) as outputs,
            served(world, outputs.read) as base,
        ):
            ana = await world.session("ana", base)
            assert (await ana.get(LOGS)).text == "hello\n"
            assert (await ana.get(LOGS, params={"tail": 0})).text == ""
            async with following(ana) as reading:
                assert await reading.next() == b"hello\n"
                (tmp_path / WORKSPACES / "volumes" / ref.name / "say").write_text("")
                assert await reading.next() == b"news\n"
                await runtime.stop(one.id, LONG)
                assert await reading.next() == b""
            never_ran = await ana.get(LOGS.replace("running", "standby"))
            assert (never_ran.status_code, never_ran.text) == (200, "")
    finally:
        await runtime.stop(one.id, LONG)


class _Here(ProcessWorld):
    """Only what a start needs to know of it."""

    def __init__(self) -> None:
        pass


async def test_where_it_runs_elsewhere_that_is_told(world: WebWorld, tmp_path: Path) -> None:
    async with (
        Outputs(HubChoice(tmp_path, world.url), world.settings, world.url) as outputs,
        served(world, outputs.read) as base,
    ):
        ana = await world.session("ana", base)
        assert (await ana.get(LOGS)).status_code == 503, "no coordinator was ever here"
        await ensure_hub_id(world.conn)
        answer = await ana.get(LOGS, params={"follow": "true"})
        assert answer.status_code == 503
        assert "does not run on this machine" in answer.json()["detail"]
        assert "codehub logs ana-running" in answer.json()["hint"]
        await change(world.conn, "ana-running", instance_backend="k8s", storage_backend="pvc")
        answer = await ana.get(LOGS)
        assert answer.status_code == 501
        assert Runtime.KUBERNETES in answer.json()["detail"]
