"""The hub's own pages ask again by themselves, in browsers that do not say who asks.

Without TLS they say so nowhere but on their own machine. Such a page is not a person: it wakes
nothing, and what it waits for gets to see nothing of how it asked.
"""

from __future__ import annotations

import asyncio
import html
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from codehub.proxy.behind import Behind
from codehub.proxy.credentials import NO_TRUST
from codehub.proxy.gate import Front
from codehub.proxy.home import Home
from codehub.proxy.hosts import Hosts
from codehub.store import pool as pool_module
from tests.integration.relay import Relay
from tests.integration.stored import change, live
from tests.proxy.gate_world import PATIENCE, UPSTREAM, asleep, awake, gate_world, until
from tests.proxy.heads_of import FETCH, VISIT, head

if TYPE_CHECKING:
    from codehub.proxy.seam import Answer
    from tests.proxy.gate_world import GateWorld

pytestmark = pytest.mark.anyio

PLAIN = {"Accept": "text/html,*/*;q=0.8"}
TARGET = "/w/api/lab?file=a"
OWN_HOST = "api.localhost:8080"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


def read(answer: Answer) -> str:
    assert isinstance(answer.body, bytes)
    return answer.body.decode()


def refresh(answer: Answer) -> str:
    """Where a page leads by itself."""
    found = set(re.findall(r'content="[0-9]+; url=([^"]*)"', read(answer)))
    assert len(found) == 1, read(answer)
    return html.unescape(found.pop())


async def desired(world: GateWorld) -> str:
    return (await live(world.conn, "api")).intent.desired.value


async def runs(world: GateWorld) -> None:
    where = {"upstream_host": UPSTREAM.host, "upstream_port": UPSTREAM.port}
    await change(world.conn, "api", phase="RUNNING", desired_state="RUNNING", **where)
    await until(lambda: world.table.find("api"))


async def test_a_page_that_waits_wakes_nothing_and_hands_over(
    database_url: str, redis_url: str
) -> None:
    async with gate_world(database_url, redis_url) as world:
        await world.add(asleep())
        cookie = await world.log_in()
        waking = await world.answer(head(TARGET, PLAIN, cookie=cookie))
        assert "Waking api" in read(waking)
        assert await desired(world) == "RUNNING"
        await change(world.conn, "api", desired_state="STANDBY")
        again = head(refresh(waking), PLAIN, cookie=cookie)
        assert "api is asleep" in read(await world.answer(again))
        assert await desired(world) == "STANDBY", "somebody stopped it meanwhile"
        await runs(world)
        over = await world.answer(head(refresh(waking), PLAIN, cookie=cookie))
        assert over.status == 303
        assert dict(over.headers)[b"Location"] == TARGET.encode()
        assert (await world.forward(head(TARGET, PLAIN, cookie=cookie))).target == b"/lab?file=a"


async def test_nor_does_one_that_waits_for_the_database(
    database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "PATIENCE", 0.5)
    async with (
        Relay(database_url) as relay,
        gate_world(database_url, redis_url, through=relay.url) as world,
    ):
        await world.add(asleep())
        cookie = await world.log_in()
        await relay.stop()
        page = await world.answer(head(TARGET, PLAIN, cookie=cookie))
        assert "cannot read its database" in read(page)
        await relay.start()
        async with asyncio.timeout(PATIENCE):
            while "database" in read(page):
                page = await world.answer(head(refresh(page), PLAIN, cookie=cookie))
        assert "api is asleep" in read(page)
        assert await desired(world) == "STANDBY"


async def test_nor_does_one_that_waits_for_an_answer(database_url: str, redis_url: str) -> None:
    async with gate_world(database_url, redis_url) as world:
        await world.add(awake())
        await until(lambda: world.table.find("api"))
        cookie = await world.log_in()
        forward = await world.forward(head(TARGET, PLAIN, cookie=cookie))
        assert forward.failed is not None
        page = await forward.failed()
        assert "does not answer" in read(page)
        nowhere = {"upstream_host": None, "upstream_port": None}
        await change(world.conn, "api", phase="STANDBY", desired_state="STANDBY", **nowhere)
        await until(lambda: world.table.find("api") is None)
        answer = await world.answer(head(refresh(page), PLAIN, cookie=cookie))
        assert "api is asleep" in read(answer)
        assert await desired(world) == "STANDBY"


async def test_the_web_application_does_not_see_how_it_was_asked_either(
    database_url: str, redis_url: str
) -> None:
    async with gate_world(database_url, redis_url) as world:
        front = Front(Hosts(), NO_TRUST)
        behind = Behind(UPSTREAM, world.pool, front, Home(Path(), own_page))
        world.gate._own = (behind,)
        cookie = await world.log_in()
        assert (await world.forward(head("/", PLAIN, cookie=cookie))).target == b"/"
        answer = await world.answer(head("/?_codehub=again", PLAIN, cookie=cookie))
        assert (answer.status, dict(answer.headers)[b"Location"]) == (303, b"/")


async def own_page(_: str) -> str:
    raise AssertionError("the web application is there")


async def test_who_is_not_logged_in_comes_back_without_the_mark(
    database_url: str, redis_url: str
) -> None:
    async with gate_world(database_url, redis_url) as world:
        answer = await world.answer(head(f"{TARGET}&_codehub=again", PLAIN))
        assert dict(answer.headers)[b"Location"] == b"/login?next=%2Fw%2Fapi%2Flab%3Ffile%3Da"


@pytest.mark.parametrize("target", ["//evil.example/", "/\\evil.example/", "/\t/evil.example/"])
async def test_the_mark_leads_nobody_elsewhere(
    database_url: str, redis_url: str, target: str
) -> None:
    async with gate_world(database_url, redis_url) as world:
        await world.add(awake())
        await until(lambda: world.table.find("api"))
        cookie = await world.log_in_on("api.localhost")
        marked = head(f"{target}?_codehub=again", VISIT, host=OWN_HOST, cookie=cookie)
        answer = await world.answer(marked)
        assert dict(answer.headers)[b"Location"] == b"/"


async def test_what_is_no_page_passes_byte_for_byte(database_url: str, redis_url: str) -> None:
    async with gate_world(database_url, redis_url) as world:
        await world.add(awake())
        await until(lambda: world.table.find("api"))
        asked = head("/w/api/x?_codehub=again", FETCH, cookie=await world.log_in())
        assert (await world.forward(asked)).target == b"/x?_codehub=again"
