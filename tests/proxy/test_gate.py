"""The gate: who may reach which workspace, from where and with what, and nobody else does."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from codehub.core.fingerprint import TOKEN_PREFIX
from codehub.model.access import Scope, Visitor
from codehub.model.runtime import Upstream
from codehub.model.states import DesiredState, Operation, Phase
from codehub.model.workspace import ActivityPolicy, Intent, PathPrefix, Status
from codehub.proxy.cookies import NAMES
from codehub.proxy.credentials import NO_TRUST, Trust
from codehub.proxy.gate import Front
from codehub.proxy.hosts import Hosts
from codehub.proxy.seam import Answer, Ask, Forward
from codehub.service.sessions import log_out
from codehub.store import pool as pool_module
from tests.integration.relay import Relay
from tests.integration.stored import change, live
from tests.make import NOW, workspace
from tests.proxy.gate_world import PATIENCE, UPSTREAM, asleep, awake, gate_world, until
from tests.proxy.heads_of import FETCH, HOST, ORIGIN, PEER, RELOAD, SOCKET, VISIT, head

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from codehub.model.workspace import Workspace
    from codehub.proxy.seam import RequestHead
    from tests.proxy.gate_world import GateWorld

pytestmark = pytest.mark.anyio

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND")
SAME = {"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def world(database_url: str, redis_url: str) -> AsyncIterator[GateWorld]:
    """Alice has `api`, which runs."""
    async with gate_world(database_url, redis_url) as found:
        await found.add(awake())
        await until(lambda: found.table.find("api"))
        yield found


def values(answer: Answer, name: bytes) -> list[bytes]:
    return [value for key, value in answer.headers if key.lower() == name]


def text(answer: Answer) -> str:
    assert isinstance(answer.body, bytes)
    return answer.body.decode()


# The way in


async def test_the_owner_is_let_through_to_the_recorded_address(world: GateWorld) -> None:
    cookie = await world.log_in()
    forward = await world.forward(head("/w/api/a%2Fb?c=/d", cookie=cookie))
    assert forward.upstream == UPSTREAM
    assert (forward.target, forward.base) == (b"/a%2Fb?c=/d", b"/w/api")
    assert forward.forbidden_cookies >= NAMES
    sent = dict(forward.headers)
    assert sent[b"X-Forwarded-Prefix"] == b"/w/api"
    assert sent[b"X-Forwarded-For"] == PEER.encode()
    assert cookie.encode() not in b"".join(b"%b%b" % each for each in forward.headers)


async def test_who_is_known_is_let_through_at_once(world: GateWorld) -> None:
    """No question: neither to the database nor to anybody else."""
    cookie = await world.log_in()
    asked = head(cookie=cookie)
    assert isinstance(world.gate.judge(asked), Ask), "nobody knows this session yet"
    await world.forward(asked)
    assert isinstance(world.gate.judge(head(cookie=cookie)), Forward)


async def test_on_its_own_host_a_workspace_has_all_paths(world: GateWorld) -> None:
    cookie = await world.log_in_on("api.localhost")
    for target in ("/", "/w/api/", "/login", "/logout?x", "//x"):
        forward = await world.forward(head(target, host="api.localhost:8080", cookie=cookie))
        assert (forward.target, forward.base) == (target.encode(), b"")
        assert b"X-Forwarded-Prefix" not in dict(forward.headers)


async def test_the_prefix_is_kept_where_the_spec_says_so(world: GateWorld) -> None:
    await change(world.conn, "api", path_prefix="keep")
    await until(lambda: world.table.find("api").path_prefix is PathPrefix.KEEP)  # type: ignore[union-attr]
    forward = await world.forward(head("/w/api/a?b", cookie=await world.log_in()))
    assert forward.target == b"/w/api/a?b"


@pytest.mark.parametrize(
    ("target", "leads_to"),
    [
        ("/w/api", b"/w/api/"),
        ("/w/api?a=/b", b"/w/api/?a=/b"),
        ("/w/no-such", b"/w/no-such/"),
        ("/w/api?", b"/w/api/?"),
    ],
)
async def test_the_slash_is_added_for_everybody(
    world: GateWorld, target: str, leads_to: bytes
) -> None:
    """Whether it is there is not told by that."""
    answer = await world.answer(head(target, headers=VISIT))
    assert answer.status == 308
    assert values(answer, b"location") == [leads_to]


async def test_an_id_leads_to_the_name(world: GateWorld) -> None:
    cookie, api = await world.log_in(), UUID(int=1)
    answer = await world.answer(head(f"/w/{api}/a%20b?c", headers=VISIT, cookie=cookie))
    assert answer.status == 303
    assert values(answer, b"location") == [b"/w/api/a%20b?c"]
    others = await world.log_in("carol")
    for name in (api, UUID(int=9)):
        answer = await world.answer(head(f"/w/{name}/a", headers=VISIT, cookie=others))
        assert answer.status == 404
    unsafe = head(f"/w/{api}/", headers=SAME, method="POST", cookie=cookie)
    assert (await world.answer(unsafe)).status == 404


async def test_a_document_gets_the_script_and_is_asked_for_plain(world: GateWorld) -> None:
    cookie = await world.log_in()
    page = await world.forward(head(headers=VISIT | {"Accept-Encoding": "br"}, cookie=cookie))
    assert page.script is not None
    assert dict(page.headers)[b"Accept-Encoding"] == b"identity"
    for other in (FETCH, SOCKET, {}):
        forward = await world.forward(
            head(headers=other | {"Accept-Encoding": "br"}, cookie=cookie)
        )
        assert forward.script is None
        assert dict(forward.headers)[b"Accept-Encoding"] == b"br"
    await change(world.conn, "api", activity_policy="traffic")
    await until(lambda: world.table.find("api").activity is ActivityPolicy.TRAFFIC)  # type: ignore[union-attr]
    assert (await world.forward(head(headers=VISIT, cookie=cookie))).script is None


async def test_who_gives_no_answer_is_doubted_and_people_are_told(world: GateWorld) -> None:
    cookie = await world.log_in()
    forward = await world.forward(head(headers=VISIT, cookie=cookie))
    await change(world.conn, "api", upstream_port=5000)
    await until(lambda: world.table.find("api").upstream.port == 5000)  # type: ignore[union-attr]
    world.table.reads.clear()
    assert forward.failed is not None
    answer = await forward.failed()
    assert answer.status == 502
    assert "does not answer" in text(answer)
    await until(lambda: frozenset({UUID(int=1)}) in world.table.reads)


async def test_what_has_come_a_moment_ago_is_reached_at_once(
    database_url: str, redis_url: str
) -> None:
    """Whoever waited for it must not be told that it has stopped."""
    async with gate_world(database_url, redis_url, run=False) as world:
        await world.add(awake())
        forward = await world.forward(head(cookie=await world.log_in()))
        assert forward.upstream == UPSTREAM
        await change(world.conn, "api", upstream_host=None, upstream_port=None)
        await world.table.refresh()
        answer = await world.answer(head(headers=VISIT, cookie=await world.log_in()))
        assert answer.status == 503


# Under which name


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io:8080", "x.api.localhost", None],
)
async def test_a_name_that_is_not_ours_gets_nothing(world: GateWorld, host: str | None) -> None:
    """Somebody else's name that points here (DNS rebinding), with cookie, token and all."""
    cookie, token = await world.log_in(), await world.token(Scope.WRITE)
    shown: list[dict[str, Any]] = [{"cookie": cookie}, {"bearer": token}, {}]
    for more in shown:
        for target in ("/w/api/", "/login", "/_codehub/activity.js", "/"):
            answer = await world.answer(head(target, headers=VISIT, host=host, **more))
            assert answer.status == 421
            assert values(answer, b"location") == []


async def test_a_session_is_good_on_the_host_it_was_made_for_alone(world: GateWorld) -> None:
    await world.add(awake("web", 2))
    await until(lambda: world.table.find("web"))
    hub, api = await world.log_in(), await world.log_in_on("api.localhost")
    assert (await world.answer(head(cookie=api))).status == 401
    for host, cookie in (("api.localhost", hub), ("web.localhost", api)):
        assert (await world.answer(head("/", host=host, cookie=cookie))).status == 401
    assert await world.forward(head("/", host="API.localhost:8080", cookie=api))


@pytest.mark.parametrize(
    "target",
    ["/w/", "/w", "/w//", "/w/-x/", "/w/API/", "/w/a.b/", "/w/%61pi/", "/w/api%2f", "//w/api/"],
)
async def test_what_is_no_name_is_not_found(world: GateWorld, target: str) -> None:
    answer = await world.answer(head(target, headers=VISIT, cookie=await world.log_in()))
    assert answer.status == 404


@pytest.mark.parametrize("long", ["x" * 41, "x" * 5000, "x" * 61 + "/", "api" + "x" * 62])
async def test_a_long_name_is_not_found(world: GateWorld, long: str) -> None:
    answer = await world.answer(head(f"/w/{long}/", headers=VISIT, cookie=await world.log_in()))
    assert answer.status == 404


# Who


async def test_who_is_not_logged_in_is_shown_the_way_or_told(world: GateWorld) -> None:
    for name in ("api", "no-such"):
        page = await world.answer(head(f"/w/{name}/a?b=c&d", headers=VISIT))
        assert page.status == 303
        assert values(page, b"location") == [
            b"/login?next=%%2Fw%%2F%b%%2Fa%%3Fb%%3Dc%%26d" % name.encode()
        ]
        for more in ({}, FETCH, SOCKET):
            told = await world.answer(head(f"/w/{name}/", headers=more))
            assert told.status == 401
            assert values(told, b"www-authenticate") == [b'Bearer realm="codehub"']
    for method in METHODS[1:]:
        assert (await world.answer(head(headers=VISIT, method=method))).status == 401


async def test_on_a_workspaces_host_the_way_leads_over_the_hub(world: GateWorld) -> None:
    answer = await world.answer(head("/a", headers=VISIT, host="api.localhost:8080"))
    assert values(answer, b"location") == [b"/_codehub/begin?next=%2Fa"]


async def test_who_was_logged_out_is_out_everywhere(world: GateWorld) -> None:
    cookie = await world.log_in()
    asked = head(cookie=cookie)
    identity = await world.identities.look_up(asked)
    assert identity is not None
    await world.forward(asked)
    await log_out(world.conn, identity.id, Visitor())
    await until(lambda: not isinstance(world.gate.judge(head(cookie=cookie)), Forward))
    assert (await world.answer(head(cookie=cookie))).status == 401


@pytest.mark.parametrize(
    ("scopes", "let_in"),
    [
        ([Scope.WAKE], True),
        ([Scope.WRITE], True),
        ([Scope.READ, Scope.WAKE], True),
        ([Scope.READ], False),
        ([Scope.PLAN], False),
        ([Scope.READ, Scope.PLAN], False),
    ],
)
async def test_a_token_is_good_for_what_it_was_made_for(
    world: GateWorld, scopes: list[Scope], let_in: bool
) -> None:
    token = await world.token(*scopes)
    for method in METHODS:
        found = await world.ask(head(bearer=token, method=method))
        assert isinstance(found, Forward) is let_in
        if not let_in:
            assert isinstance(found, Answer)
            assert found.status == 403
            missing = await world.answer(head("/w/no-such/", bearer=token, method=method))
            assert missing == found


async def test_a_token_that_is_none_is_not_looked_past(world: GateWorld) -> None:
    """A program that shows a bad token is not let in by a cookie it happens to have."""
    cookie, token = await world.log_in(), await world.token(Scope.WAKE)
    for shown in (f"Bearer {TOKEN_PREFIX}nonsense", f"Basic {token}", f"Bearer {token} {token}"):
        answer = await world.answer(head(headers={"Authorization": shown}, cookie=cookie))
        assert answer.status == 401
    own = await world.forward(head(headers={"Authorization": "Bearer its-own"}, cookie=cookie))
    assert dict(own.headers)[b"Authorization"] == b"Bearer its-own"


# Somebody else's workspace


def of_carol() -> list[Workspace]:
    """One in every state, each with a namesake's length for the one that is not there."""
    busy = {"op_id": UUID(int=7), "op_started_at": NOW}
    return [
        awake("theirs-0", 10, owner="carol"),
        asleep("theirs-1", 11, owner="carol"),
        asleep("theirs-2", 12, Phase.ARCHIVED, owner="carol", wake_from=DesiredState.ARCHIVED),
        workspace("theirs-3", number=13, owner="carol", status=Status(Phase.PENDING)),
        workspace("theirs-4", number=14, owner="carol", status=Status(Phase.ERROR)),
        workspace(
            "theirs-5",
            number=15,
            owner="carol",
            status=Status(Phase.STANDBY, operation=Operation.STARTING, **busy),  # type: ignore[arg-type]
        ),
        asleep("theirs-6", 16, owner="carol", suspend=True),
        asleep("theirs-7", 17, owner="carol", declared_state=DesiredState.STANDBY),
        awake("theirs-8", 18, owner="carol", intent=Intent(DesiredState.DELETED)),
    ]


def blurred(found: Answer | Forward, name: str) -> tuple[object, ...]:
    """An answer without the name that was asked for."""
    assert isinstance(found, Answer)
    assert isinstance(found.body, bytes)
    secret = [(key, value.replace(name.encode(), b"NAME")) for key, value in found.headers]
    return found.status, secret, found.body.replace(name.encode(), b"NAME")


@pytest.mark.parametrize("number", range(9))
async def test_somebody_elses_workspace_cannot_be_told_from_none(
    world: GateWorld, number: int
) -> None:
    theirs = of_carol()[number]
    await world.add(theirs)
    await world.table.refresh()
    before = await live(world.conn, theirs.name)
    ways: list[dict[str, Any]] = [
        *({"headers": VISIT, "method": method} for method in ("GET", "HEAD")),
        *({"headers": SAME, "method": method} for method in METHODS),
        {"headers": FETCH},
        {"headers": RELOAD},
        {"headers": SOCKET},
        {"headers": VISIT | {"X-CodeHub-Wake": "1"}},
    ]
    cookie, token = await world.log_in(), await world.token(Scope.WRITE)
    for way in ways:
        for shown in ({"cookie": cookie}, {"bearer": token}):
            given = shown | way
            if "bearer" in given:
                given["headers"] = given["headers"] | {"X-CodeHub-Wake": "1"}
            found, missing = [
                blurred(await world.ask(head(f"/w/{name}/a", **given)), name)
                for name in (theirs.name, "nobodys0")
            ]
            assert found == missing
            assert found[0] == 404
    assert await live(world.conn, theirs.name) == before


async def test_nor_by_what_happens_while_the_database_is_away(
    database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "PATIENCE", 0.5)
    async with (
        Relay(database_url) as relay,
        gate_world(database_url, redis_url, through=relay.url) as world,
    ):
        await world.add(awake("theirs-0", 10, owner="carol"))
        await until(lambda: world.table.find("theirs-0"))
        cookie = await world.log_in()
        assert (await world.answer(head("/w/theirs-0/", cookie=cookie))).status == 404
        await relay.stop()
        found, missing = [
            blurred(await world.ask(head(f"/w/{name}/", cookie=cookie)), name)
            for name in ("theirs-0", "nobodys0")
        ]
        assert found == missing
        assert found[0] == 503


async def test_an_admin_sees_the_workspaces_of_all(world: GateWorld) -> None:
    cookie = await world.log_in("bob")
    assert await world.forward(head(cookie=cookie))
    for each in of_carol()[1:8]:
        await world.add(each)
        answer = await world.answer(head(f"/w/{each.name}/", headers=FETCH, cookie=cookie))
        assert answer.status in (502, 503)


async def test_a_workspace_that_changes_hands_is_the_new_owners_alone(world: GateWorld) -> None:
    alice, carol = await world.log_in("alice"), await world.log_in("carol")
    await world.forward(head(cookie=alice))
    assert (await world.answer(head(cookie=carol))).status == 404
    person = await world.person("carol")
    await change(world.conn, "api", owner_user_id=person.id)
    await until(lambda: world.table.find("api").owner_id == person.id)  # type: ignore[union-attr]
    await world.forward(head(cookie=carol))
    assert (await world.answer(head(cookie=alice))).status == 404


# From where


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://evil.localhost:8080"},
        {"Origin": "http://localhost"},
        {"Origin": "https://localhost:8080"},
        {"Origin": "http://localhost:8081"},
        {"Origin": "null"},
        {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "null", "Sec-Fetch-Site": "same-site"},
        {"Origin": "null", "Sec-Fetch-Site": "none"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        SAME | {"Sec-Fetch-Site": "cross-site"},
        {},
    ],
    ids=str,
)
async def test_another_sites_page_may_change_nothing(
    world: GateWorld, headers: dict[str, str]
) -> None:
    cookie = await world.log_in()
    for method in ("POST", "PUT", "PATCH", "DELETE", "PROPFIND"):
        answer = await world.answer(head(headers=headers, method=method, cookie=cookie))
        assert answer.status == 403
    for method in ("GET", "HEAD", "OPTIONS"):
        assert await world.forward(head(headers=headers, method=method, cookie=cookie))


async def test_a_page_of_its_own_may(world: GateWorld) -> None:
    """Also one whose referrer policy hides where it is."""
    cookie, hidden = await world.log_in(), SAME | {"Origin": "null"}
    for headers in (SAME, {"Origin": ORIGIN}, {"Sec-Fetch-Site": "same-origin"}, hidden):
        for method in METHODS:
            assert await world.forward(head(headers=headers, method=method, cookie=cookie))


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "http://evil.localhost:8080", "http://localhost", "null", "", None],
)
async def test_another_sites_page_opens_no_websocket(world: GateWorld, origin: str | None) -> None:
    headers = {key: value for key, value in SOCKET.items() if key != "Origin"}
    if origin is not None:
        headers["Origin"] = origin
    cookie, token = await world.log_in(), await world.token(Scope.WAKE)
    assert (await world.answer(head(headers=headers, cookie=cookie))).status == 403
    found = await world.ask(head(headers=headers, bearer=token))
    assert isinstance(found, Forward) is (origin is None), "only browsers name an origin"
    assert await world.forward(head(headers=SOCKET, cookie=cookie))


async def test_a_program_with_a_token_may_change_things(world: GateWorld) -> None:
    token = await world.token(Scope.WAKE)
    for method in METHODS:
        assert await world.forward(head(bearer=token, method=method))


# How much


async def test_a_form_of_the_hubs_own_is_read_and_a_workspaces_is_passed_on(
    world: GateWorld,
) -> None:
    """While nobody knows yet who sends it: what is for a workspace may be as long as it likes."""
    own, hub = "api.localhost:8080", HOST
    read = {
        (host, target)
        for host in (own, hub)
        for target in (
            "/login",
            "/login/x",
            "/logout",
            "/_codehub/do/api",
            "/_codehub/x",
            "/w/api/",
        )
        if _reads(world, head(target, host=host, method="POST", cookie=await world.log_in()))
    }
    assert read == {
        (own, "/_codehub/do/api"),
        *((hub, each) for each in ("/login", "/login/x", "/logout")),
        *((hub, each) for each in ("/_codehub/do/api", "/_codehub/x")),
    }


def _reads(world: GateWorld, asked: RequestHead) -> bool:
    verdict = world.gate.judge(asked)
    assert isinstance(verdict, Ask)
    return verdict.most > 0


async def test_one_person_has_so_many_websockets_and_no_more(
    database_url: str, redis_url: str
) -> None:
    """Over all their logins and workspaces; others are not affected, and nor are requests."""
    async with gate_world(database_url, redis_url, most=2) as world:
        await world.add(awake(), awake("web", 2), awake("carols", 3, owner="carol"))
        await until(lambda: len(world.table) == 3)
        hung_up: list[str] = []
        asked = [
            head(f"/w/{name}/", headers=SOCKET, cookie=await world.log_in())
            for name in ("api", "web", "api")
        ]
        first, second, late = [(await world.forward(each)).watcher for each in asked]
        first.opened(lambda: hung_up.append("first"))
        assert await world.forward(asked[0])
        second.opened(lambda: hung_up.append("second"))
        answer = await world.answer(asked[0])
        assert answer.status == 429
        assert "too many WebSockets" in text(answer)
        assert values(answer, b"retry-after") != []
        late.opened(lambda: hung_up.append("late"))
        await until(lambda: hung_up)
        assert hung_up == ["late"], "it was let in before the others were open"
        late.closed()
        assert (await world.answer(asked[0])).status == 429
        plain = head(headers=FETCH, cookie=await world.log_in())
        assert await world.forward(plain)
        carol = await world.log_in("carol")
        assert await world.forward(head("/w/carols/", headers=SOCKET, cookie=carol))
        first.closed()
        assert await world.forward(asked[0])
        second.closed()
        assert world.watch._held_by == {}


# Those in front


async def test_behind_tls_the_cookie_has_the_safe_name_and_workspaces_are_told(
    database_url: str, redis_url: str
) -> None:
    front = Front(
        Hosts("https://hub.example.com"), NO_TRUST, secure=True, address=lambda _: "203.0.113.9"
    )
    async with gate_world(database_url, redis_url, front=front) as world:
        await world.add(awake())
        await until(lambda: world.table.find("api"))
        secret, host = await world.log_in(), "hub.example.com"
        plain = head(host=host, headers={"Cookie": f"codehub={secret}"})
        assert (await world.answer(plain)).status == 401
        safe = head(host=host, headers={"Cookie": f"__Host-codehub={secret}"})
        sent = dict((await world.forward(safe)).headers)
        assert sent[b"X-Forwarded-Proto"] == b"https"
        assert sent[b"X-Forwarded-For"] == b"203.0.113.9"
        change_ = {"Cookie": f"__Host-codehub={secret}", "Origin": "https://hub.example.com"}
        assert await world.forward(head(host=host, headers=change_, method="POST"))
        change_["Origin"] = "http://hub.example.com"
        assert (await world.answer(head(host=host, headers=change_, method="POST"))).status == 403


async def test_a_name_is_believed_from_the_sso_proxy_alone(
    database_url: str, redis_url: str
) -> None:
    front = Front(Hosts(), Trust("X-Forwarded-User", ["10.0.0.0/8"]))
    async with gate_world(database_url, redis_url, front=front) as world:
        await world.add(awake())
        await until(lambda: world.table.find("api"))
        said = {"X-Forwarded-User": "alice"}
        forward = await world.forward(head(headers=said, peer="10.1.2.3"))
        assert b"X-Forwarded-User" not in dict(forward.headers)
        assert (await world.answer(head(headers=said, peer="192.0.2.1"))).status == 401
        carol = head(headers={"X-Forwarded-User": "carol"}, peer="10.1.2.3")
        assert (await world.answer(carol)).status == 404


# While the database is away


async def until_forwarded(world: GateWorld, **shown: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while not isinstance(await world.ask(head(**shown)), Forward):
            pass


async def test_while_the_database_is_away_who_is_known_works_on(
    database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "PATIENCE", 0.5)
    async with (
        Relay(database_url) as relay,
        gate_world(database_url, redis_url, through=relay.url) as world,
    ):
        await world.add(awake(), asleep("late", 2))
        await until(lambda: world.table.find("api"))
        known, unknown = await world.log_in(), await world.log_in()
        await world.forward(head(cookie=known))
        await relay.stop()
        for headers in (VISIT, FETCH, SOCKET):
            assert await world.forward(head(headers=headers, cookie=known))
        assert await world.forward(head(headers=SAME, method="POST", cookie=known))
        page = await world.answer(head(headers=VISIT, cookie=unknown))
        assert page.status == 503
        assert "The hub cannot read its database" in text(page)
        assert values(page, b"retry-after") != []
        told = await world.answer(head(headers=FETCH, cookie=unknown))
        assert json.loads(text(told))["status"] == 503
        late = await world.answer(head("/w/late/", headers=VISIT, cookie=known))
        assert late.status == 503
        assert (await world.answer(head(headers=VISIT))).status == 303, "nobody needs no database"
        await relay.start()
        await until_forwarded(world, cookie=unknown)
        assert (await world.answer(head("/w/late/", headers=FETCH, cookie=known))).status == 503
        assert (await live(world.conn, "late")).intent.desired is DesiredState.STANDBY


async def test_the_wire_is_told_what_to_say_to_what_it_cannot_take(world: GateWorld) -> None:
    for status in (400, 408, 413, 431, 501, 503):
        answer = world.gate.refuse(None, status, "it is too much")
        assert answer.status == status
        assert "it is too much" in text(answer)


async def test_an_upstream_is_whatever_the_controller_recorded_and_nothing_else(
    world: GateWorld,
) -> None:
    """No name, port or path that a client sends leads anywhere else."""
    cookie = await world.log_in()
    for target in (
        "/w/api/@evil.example/",
        "/w/api/:80/",
        "/w/api/http://evil.example/",
        "/w/api//",
    ):
        forward = await world.forward(
            head(target, headers={"X-Forwarded-Host": "evil.example"}, cookie=cookie)
        )
        assert forward.upstream == Upstream("127.0.0.1", 4711)
        assert dict(forward.headers)[b"X-Forwarded-Host"] == HOST.encode()
    for target in ("/w/api@evil.example/", "/w/api:80/", "/w/api.evil.example/", "/w/@/"):
        assert (await world.answer(head(target, cookie=cookie))).status == 404
