"""The beaten way: a request whose headers came before is judged as if they had not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from codehub.model.access import Visitor, Way
from codehub.model.runtime import Upstream
from codehub.model.workspace import PathPrefix
from codehub.proxy.heads import header_lines
from codehub.proxy.seam import Forward, Same
from codehub.service.sessions import log_out
from codehub.store.users import read_user_ids
from tests.integration.stored import change
from tests.proxy.gate_world import awake, gate_world, until
from tests.proxy.heads_of import FETCH, HOST, VISIT, head

if TYPE_CHECKING:
    from codehub.model.workspace import Workspace
    from codehub.proxy.seam import Answer, RequestHead
    from tests.proxy.gate_world import GateWorld

pytestmark = pytest.mark.anyio

OWN_HOST = "api.localhost:8080"
TARGETS = [
    *("/w/api/", "/w/api/a?b=c", "/w/api//x", "/w/api/../other/", "/w/api/x?_codehub=again"),
    *("/w/api?x", "/w/apis/", "/w/other/", "/w/nobody/", "/", "/login", "/healthz"),
    *("/_codehub/activity.js", "/w/api/_codehub/activity.js", "/_codehub/alive"),
]


def first_of(asked: RequestHead) -> RequestHead:
    """As the wire gives the first of those that have the same headers."""
    asked.same = Same()
    return asked


def told(verdict: Answer | Forward) -> object:
    """What can be seen of a verdict from outside."""
    if not isinstance(verdict, Forward):
        return (verdict.status, verdict.headers, verdict.body)
    lines = header_lines(verdict.headers) if verdict.lines is None else verdict.lines
    where = (verdict.upstream, verdict.target, verdict.base)
    return (*where, lines, verdict.script, verdict.forbidden_cookies, verdict.own)


async def ways(world: GateWorld, api: Workspace | None = None) -> None:
    """Two workspaces that run."""
    await world.add(api or awake(), awake("other", number=2))
    await until(lambda: world.table.find("api") and world.table.find("other"))


@pytest.mark.parametrize("headers", [FETCH, VISIT, {"Cookie": "own=1"}])
@pytest.mark.parametrize("prefix", [PathPrefix.STRIP, PathPrefix.KEEP])
async def test_every_address_gets_what_it_would_get_alone(
    database_url: str, redis_url: str, headers: dict[str, str], prefix: PathPrefix
) -> None:
    async with gate_world(database_url, redis_url) as world:
        api = awake()
        declared = replace(api.declaration, path_prefix=prefix)
        await ways(world, replace(api, declaration=declared))
        for host, secret in (
            (HOST, await world.log_in()),
            (OWN_HOST, await world.log_in_on("api.localhost")),
        ):
            asked = first_of(head("/w/api/first", headers, host=host, cookie=secret))
            await world.ask(asked)
            for target in [*TARGETS, *reversed(TARGETS)]:
                again = asked.repeated(target.encode())
                alone = head(target, headers, host=host, cookie=secret)
                assert told(await world.ask(again)) == told(await world.ask(alone)), target


async def test_the_way_is_used_at_all(database_url: str, redis_url: str) -> None:
    async with gate_world(database_url, redis_url) as world:
        await ways(world)
        asked = first_of(head("/w/api/a", FETCH, cookie=await world.log_in()))
        forward = await world.forward(asked)
        assert asked.same is not None
        assert asked.same.passage is not None
        assert await world.forward(asked.repeated(b"/w/api/b")) is forward
        assert forward.target == b"/b"


async def test_a_page_is_judged_each_time(database_url: str, redis_url: str) -> None:
    """What is put into it tells of its address."""
    async with gate_world(database_url, redis_url) as world:
        await ways(world)
        asked = first_of(head("/w/api/a", VISIT, cookie=await world.log_in()))
        scripts = [(await world.forward(asked)).script]
        scripts.append((await world.forward(asked.repeated(b"/w/api/b"))).script)
        assert None not in scripts
        assert scripts[0] != scripts[1]


async def test_who_logs_out_is_not_let_in_again(database_url: str, redis_url: str) -> None:
    async with gate_world(database_url, redis_url) as world:
        await ways(world)
        secret = await world.log_in()
        asked = first_of(head("/w/api/", FETCH, cookie=secret))
        await world.forward(asked)
        await world.forward(asked.repeated(b"/w/api/b"))
        login = world.identities.login(asked)
        assert login is not None
        assert login.identity.way is Way.SESSION
        await log_out(world.conn, login.identity.id, Visitor())
        await until(lambda: login.dropped)
        assert (await world.answer(asked.repeated(b"/w/api/c"))).status == 401


async def test_a_login_that_runs_out_does_so_on_this_way_too(
    database_url: str, redis_url: str
) -> None:
    async with gate_world(database_url, redis_url) as world:
        await ways(world)
        asked = first_of(head("/w/api/", FETCH, cookie=await world.log_in()))
        await world.forward(asked)
        login = world.identities.login(asked)
        assert login is not None
        login.until = 0.0
        assert (await world.answer(asked.repeated(b"/w/api/b"))).status == 401


async def test_what_becomes_somebody_elses_is_not_there(database_url: str, redis_url: str) -> None:
    async with gate_world(database_url, redis_url) as world:
        await ways(world)
        asked = first_of(head("/w/api/", FETCH, cookie=await world.log_in()))
        await world.forward(asked)
        carol = (await read_user_ids(world.conn))["carol"]
        await change(world.conn, "api", owner_user_id=carol)
        await until(lambda: getattr(world.table.find("api"), "owner_id", None) == carol)
        assert (await world.answer(asked.repeated(b"/w/api/b"))).status == 404


async def test_what_moved_is_found_where_it_is_now(database_url: str, redis_url: str) -> None:
    async with gate_world(database_url, redis_url) as world:
        await ways(world)
        asked = first_of(head("/w/api/", FETCH, cookie=await world.log_in()))
        await world.forward(asked)
        there = Upstream("127.0.0.1", 4712)
        await change(world.conn, "api", upstream_port=there.port)
        await until(lambda: getattr(world.table.find("api"), "upstream", None) == there)
        moved = await world.forward(asked.repeated(b"/w/api/b"))
        assert moved.upstream == there


async def test_each_request_is_told_of_by_itself(database_url: str, redis_url: str) -> None:
    """Polls are known by their addresses, and a failure is told for the address that failed."""
    async with gate_world(database_url, redis_url) as world:
        await ways(world)
        asked = first_of(head("/w/api/a", FETCH, cookie=await world.log_in()))
        noted = []
        for target in (b"/w/api/a", b"/w/api/a", b"/w/api/b", b"/w/api/b"):
            forward = await world.forward(asked.repeated(target))
            world.buffer._seen.clear()
            forward.watcher.answered(200)
            noted.append(len(world.buffer._seen))
        assert noted == [1, 0, 1, 0]
        assert forward.failed is not None
        alone = await world.forward(head("/w/api/b", FETCH, cookie=await world.log_in()))
        assert alone.failed is not None
        assert told(await forward.failed()) == told(await alone.failed())
