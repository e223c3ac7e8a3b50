"""What pages of workspaces tell the hub, and who is heard."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from codehub.model.access import Scope
from codehub.proxy.seam import Answer
from codehub.proxy.watch import SCRIPT
from tests.proxy.gate_world import asleep, awake, gate_world, until
from tests.proxy.heads_of import FETCH, HOST, ORIGIN, VISIT, head

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from codehub.proxy.seam import RequestHead
    from tests.proxy.gate_world import GateWorld

pytestmark = pytest.mark.anyio

ALIVE = "/_codehub/alive?w=api"
BEACON = {"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "no-cors"}
OWN_HOST = "api.localhost:8080"
OWN_BEACON = BEACON | {"Origin": f"http://{OWN_HOST}"}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def world(database_url: str, redis_url: str) -> AsyncIterator[GateWorld]:
    """Workspaces of alice and of carol, and one that sleeps."""
    async with gate_world(database_url, redis_url) as found:
        await found.add(awake(), awake("web", 2, owner="carol"), asleep("late", 3))
        await until(lambda: len(found.table) == 2)
        yield found


def beacon(target: str = ALIVE, **more: Any) -> RequestHead:
    more.setdefault("headers", BEACON)
    more.setdefault("method", "POST")
    return head(target, **more)


def recorded(world: GateWorld) -> set[tuple[int, str]]:
    return {(workspace.int, source) for workspace, source in world.buffer._seen}


def alive(world: GateWorld) -> int:
    return len(world.watch._pages)


# The script


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_the_script_is_anybodys(world: GateWorld, method: str) -> None:
    """A page whose login has just ended need not break."""
    for host in (HOST, OWN_HOST):
        answer = await world.answer(head("/_codehub/activity.js", method=method, host=host))
        assert (answer.status, answer.body) == (200, SCRIPT)
        assert (b"Content-Type", b"text/javascript; charset=utf-8") in answer.headers
        assert (b"X-Content-Type-Options", b"nosniff") in answer.headers


def test_the_script_is_small_and_looks_at_no_key() -> None:
    """It tells that there was input, never what it was."""
    text = SCRIPT.decode()
    code = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
    assert len(code) < 1600
    assert not re.search(r"\.(key|code|data|clipboardData|value|innerText|textContent)\b", code)
    assert "https:" not in code
    assert "http:" not in code


# Reports


async def test_a_page_that_is_open_lives_and_input_is_activity(world: GateWorld) -> None:
    cookie = await world.log_in()
    answer = await world.answer(beacon(cookie=cookie))
    assert (answer.status, answer.body) == (204, b"")
    assert alive(world) == 1
    assert recorded(world) == set()
    await world.answer(beacon(f"{ALIVE}&input=1", cookie=cookie))
    assert alive(world) == 1
    assert recorded(world) == {(1, "input")}


async def test_on_its_own_host_a_page_tells_of_its_own_workspace(world: GateWorld) -> None:
    cookie = await world.log_in_on("api.localhost")
    await world.answer(
        beacon("/_codehub/alive?w=web&input=1", host=OWN_HOST, headers=OWN_BEACON, cookie=cookie)
    )
    assert recorded(world) == {(1, "input")}


async def test_after_a_report_that_sessions_traffic_counts_no_more(world: GateWorld) -> None:
    cookie = await world.log_in()
    await world.answer(beacon(cookie=cookie))
    forward = await world.forward(head(headers=FETCH, cookie=cookie))
    forward.watcher.answered(200)
    assert recorded(world) == set()
    other = await world.forward(head(headers=FETCH, cookie=await world.log_in()))
    other.watcher.answered(200)
    assert recorded(world) == {(1, "traffic")}


async def test_a_page_is_called_what_its_tag_calls_it(world: GateWorld) -> None:
    """So the hub knows which of those that somebody opened tell of input, and which do not."""
    cookie = await world.log_in()
    await world.answer(beacon(cookie=cookie))
    opened = await world.forward(head("/w/api/a?b", headers=VISIT, cookie=cookie))
    opened.watcher.answered(200)
    assert recorded(world) == {(1, "traffic")}, "it has not told yet"
    world.buffer._seen.clear()
    called = re.search(rb'data-page="([0-9a-f]{8})"', opened.script or b"")
    assert called is not None
    asked = head("/w/api/x", headers=FETCH, cookie=cookie)
    for nonsense in ("null", "", "0" * 8, called[1].decode() + "0"):
        await world.answer(beacon(f"{ALIVE}&p={nonsense}", cookie=cookie))
        (await world.forward(asked)).watcher.answered(200)
    assert recorded(world) == {(1, "traffic")}
    world.buffer._seen.clear()
    await world.answer(beacon(f"{ALIVE}&p={called[1].decode()}", cookie=cookie))
    (await world.forward(head("/w/api/y", headers=FETCH, cookie=cookie))).watcher.answered(200)
    assert recorded(world) == set()


async def test_a_page_that_hides_its_name_is_heard(world: GateWorld) -> None:
    """Its policy is `no-referrer`, and so it is with its reports, too."""
    hidden = BEACON | {"Origin": "null"}
    cookie = await world.log_in()
    await world.answer(beacon(f"{ALIVE}&input=1", headers=hidden, cookie=cookie))
    assert recorded(world) == {(1, "input")}


async def test_an_admin_is_heard_on_the_workspace_of_another(world: GateWorld) -> None:
    cookie = await world.log_in("bob")
    assert (await world.answer(beacon(f"{ALIVE}&input=1", cookie=cookie))).status == 204
    assert recorded(world) == {(1, "input")}


@pytest.mark.parametrize(
    ("target", "more"),
    [
        ("/_codehub/alive?w=web&input=1", {}),
        ("/_codehub/alive?w=late&input=1", {}),
        ("/_codehub/alive?w=no-such&input=1", {}),
        ("/_codehub/alive?w=&input=1", {}),
        ("/_codehub/alive?input=1", {}),
        ("/_codehub/alive", {}),
        (f"/_codehub/alive?x={'x' * 300}&w=api&input=1", {}),
        (f"{ALIVE}&input=1", {"method": "GET"}),
        (f"{ALIVE}&input=1", {"method": "PUT"}),
        (f"{ALIVE}&input=1", {"headers": {}}),
        (f"{ALIVE}&input=1", {"headers": BEACON | {"Origin": "http://evil.example"}}),
        (f"{ALIVE}&input=1", {"headers": BEACON | {"Sec-Fetch-Site": "cross-site"}}),
        (f"{ALIVE}&input=1", {"headers": BEACON | {"Sec-Fetch-Site": "same-site"}}),
        (f"{ALIVE}&input=1", {"headers": {"Origin": "http://api.localhost:8080"}}),
        (f"{ALIVE}&input=1", {"headers": {"Origin": "null"}}),
        (
            f"{ALIVE}&input=1",
            {"headers": {"Origin": "null", "Sec-Fetch-Site": "cross-site"}},
        ),
    ],
)
async def test_nobody_is_heard_who_has_no_business_there(
    world: GateWorld, target: str, more: dict[str, Any]
) -> None:
    cookie = await world.log_in()
    await world.answer(beacon(cookie=cookie))
    before = alive(world)
    answer = await world.ask(beacon(target, cookie=cookie, **more))
    assert isinstance(answer, Answer)
    assert answer.status == 404
    assert recorded(world) == set()
    assert alive(world) == before


async def test_all_refusals_look_alike(world: GateWorld) -> None:
    """Whether a workspace is there is not to be learnt here."""
    cookie = await world.log_in()
    other, missing, sleeping = [
        await world.answer(beacon(f"/_codehub/alive?w={name}", cookie=cookie))
        for name in ("web", "no-such", "late")
    ]
    assert other == missing == sleeping


@pytest.mark.parametrize("secret", [None, "x" * 43])
async def test_without_a_login_nothing_is_heard(world: GateWorld, secret: str | None) -> None:
    answer = await world.answer(beacon(f"{ALIVE}&input=1", cookie=secret))
    assert answer.status == 404
    assert (alive(world), recorded(world)) == (0, set())


async def test_a_session_of_another_host_is_none_here(world: GateWorld) -> None:
    cookie = await world.log_in_on("api.localhost")
    assert (await world.answer(beacon(cookie=cookie))).status == 404
    assert alive(world) == 0


async def test_a_workspace_on_its_own_host_gets_the_rest_of_the_hubs_path(
    world: GateWorld,
) -> None:
    """What is none of the hub's there is the workspace's own."""
    cookie = await world.log_in_on("api.localhost")
    forward = await world.forward(head("/_codehub/other", host=OWN_HOST, cookie=cookie))
    assert forward.target == b"/_codehub/other"


async def test_a_program_with_a_token_says_from_where_it_tells(world: GateWorld) -> None:
    token = await world.token(Scope.WAKE)
    assert (await world.answer(beacon(headers={}, bearer=token))).status == 404
