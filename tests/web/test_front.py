"""Between proxy and web application: what is handed over, what is believed, what is left."""

from __future__ import annotations

from contextlib import asynccontextmanager
from enum import Enum
from typing import TYPE_CHECKING

import httpx
import pytest
from structlog.contextvars import get_contextvars

from codehub.errors import Unreachable
from codehub.model.access import Scope
from codehub.model.runtime import Upstream
from codehub.proxy import server
from codehub.proxy.client import Client
from codehub.proxy.process import Listening, serve_proxy
from codehub.service.tokens import create_token
from codehub.web.api import me
from codehub.web.app import create_app
from codehub.web.pages import home
from codehub.web.process import open_hub, serve_web
from tests.web.web_world import DAY, PATIENCE, web_world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from codehub.web.api.me import Me
    from codehub.web.hub import Hub
    from codehub.web.who import Caller
    from tests.web.web_world import WebWorld

pytestmark = pytest.mark.anyio

SSO = {
    "auth_trusted_header": "X-Forwarded-User",
    "auth_trusted_addresses": frozenset({"127.0.0.1"}),
}
ME = "/api/v1/me"
NOTHING: Mapping[str, str] = {}
PAGE = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@asynccontextmanager
async def straight(
    hub: Hub, headers: Mapping[str, str] = NOTHING
) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody who comes past the proxy."""
    wire = httpx.ASGITransport(create_app(hub), client=("127.0.0.1", 4711))
    async with httpx.AsyncClient(
        base_url="http://localhost", transport=wire, headers=headers
    ) as client:
        yield client


class Web(Enum):
    """The web application behind a proxy."""

    THERE = "there"
    AWAY = "away"
    NONE = "none"


@asynccontextmanager
async def through(
    world: WebWorld, pages: Path, headers: Mapping[str, str] = NOTHING, *, web: Web = Web.THERE
) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody who comes through a proxy with, or without, a web application behind it."""
    args = (world.settings, world.url, world.signals)
    async with serve_web(*args, Listening(port=0)) as port:
        behind = Upstream("127.0.0.1", port if web is Web.THERE else 1)
        async with (
            serve_proxy(
                *args, pages, Listening(port=0), None if web is Web.NONE else behind
            ) as front,
            httpx.AsyncClient(
                base_url=f"http://localhost:{front}",
                headers=headers,
                timeout=PATIENCE,
                trust_env=False,
            ) as client,
        ):
            yield client


async def test_a_header_that_nobody_vouches_for_lets_nobody_in(
    database_url: str, redis_url: str
) -> None:
    """The web application's own port is no way around the proxy."""
    async with (
        web_world(database_url, redis_url, **SSO) as world,
        open_hub(world.settings, database_url, world.signals) as hub,
    ):
        claimed = {"X-Forwarded-User": "root", "X-Forwarded-For": "127.0.0.1"}
        async with straight(hub, claimed) as nobody:
            assert (await nobody.get(ME)).status_code == 401
        async with straight(hub, claimed | {"X-CodeHub-Front": "guessed"}) as nobody:
            assert (await nobody.get(ME)).status_code == 401
        known = {"X-CodeHub-Front": hub.front_key.decode(), "X-Forwarded-Host": "localhost"}
        async with straight(hub, claimed | known) as proxy:
            assert (await proxy.get(ME)).json()["name"] == "root"


@pytest.mark.parametrize(("peer", "status"), [("127.0.0.1", 200), ("10.9.8.7", 401)])
async def test_a_name_is_passed_on_from_those_who_may_vouch(
    database_url: str, redis_url: str, tmp_path: Path, peer: str, status: int
) -> None:
    trusted = SSO | {"auth_trusted_addresses": frozenset({peer})}
    async with (
        web_world(database_url, redis_url, **trusted) as world,
        through(world, tmp_path, {"X-Forwarded-User": "ana"}) as visitor,
    ):
        assert (await visitor.get(ME)).status_code == status


async def test_what_a_client_says_of_itself_is_not_handed_over(
    world: WebWorld, tmp_path: Path
) -> None:
    claimed = {"X-CodeHub-Front": world.hub.front_key.decode(), "X-Forwarded-Host": "evil.example"}
    async with through(world, tmp_path, claimed) as visitor:
        assert (await visitor.get("/api/v1/openapi.json")).status_code == 200
        made = await visitor.get(ME)
        assert made.status_code == 401
        assert world.hub.front_key.decode() not in str(made.headers)


@pytest.mark.parametrize("host", ["evil.example", "ana-running.localhost", ""])
async def test_another_name_gets_nothing(world: WebWorld, host: str) -> None:
    async with straight(world.hub, {"Host": host}) as client:
        assert (await client.get("/api/v1/openapi.json")).status_code == 421
        assert (await client.get("/healthz")).status_code == 200


async def test_a_login_holds_on_both_sides(world: WebWorld, tmp_path: Path) -> None:
    secret = await world.log_in("ana")
    async with through(world, tmp_path, {"Cookie": f"codehub={secret}"}) as ana:
        assert (await ana.get(ME)).json()["name"] == "ana"


async def test_a_page_without_a_login_leads_to_one(world: WebWorld, tmp_path: Path) -> None:
    async with through(world, tmp_path, PAGE) as visitor:
        answer = await visitor.get("/workspaces/ana-running?x=1")
        assert answer.status_code == 303
        assert answer.headers["location"] == "/login?next=%2Fworkspaces%2Fana-running%3Fx%3D1"


async def test_while_it_is_away_the_last_good_page_is_shown(
    world: WebWorld, tmp_path: Path
) -> None:
    (tmp_path / "index.html").write_text("the last report")
    secret = await world.log_in("root")
    async with through(world, tmp_path, {"Cookie": f"codehub={secret}"}, web=Web.AWAY) as root:
        page = await root.get("/", headers=PAGE)
        assert (page.status_code, page.text) == (200, "the last report")


async def test_who_wants_something_else_of_it_is_told_that_it_is_away(
    world: WebWorld, tmp_path: Path
) -> None:
    """Not that the database is: that answers."""
    secret = await world.log_in("ana")
    async with through(world, tmp_path, {"Cookie": f"codehub={secret}"}, web=Web.AWAY) as ana:
        page = await ana.get("/workspaces/ana-running", headers=PAGE)
        assert page.status_code == 503
        assert "The dashboard does not answer" in page.text
        assert "<code>codehub serve web</code>" in page.text
        assert "database" not in page.text
        program = await ana.get(ME)
        assert (program.status_code, program.headers["retry-after"]) == (503, "2")
        assert program.headers["content-type"] == "application/problem+json"
        told = program.json()
        assert told["title"] == "Service Unavailable", "as the API titles its own"
        assert told["detail"].startswith("The part of the hub that serves dashboard and API")
        assert "WEB_URL" in told["advice"]


@pytest.mark.parametrize("web", Web)
@pytest.mark.parametrize("scope", Scope)
async def test_the_front_page_is_for_those_who_may_look(
    world: WebWorld, tmp_path: Path, scope: Scope, web: Web
) -> None:
    """An admin's token that may plan or wake sees nothing of the fleet, whoever answers."""
    (tmp_path / "index.html").write_text("the last report names ana-running")
    token = await create_token(world.conn, "root", "t", [scope], DAY, by="test")
    shown = {"Authorization": f"Bearer {token.secret}"}
    async with through(world, tmp_path, shown, web=web) as program:
        answer = await program.get("/")
    looks = scope in (Scope.READ, Scope.WRITE)
    assert answer.status_code == (200 if looks else 403)
    assert ("ana-running" in answer.text) is looks


async def test_so_it_is_while_the_web_application_has_no_database(
    world: WebWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise Unreachable("the database gives no answer")

    (tmp_path / "index.html").write_text("the last report")
    secret = await world.log_in("root")
    async with through(world, tmp_path, {"Cookie": f"codehub={secret}"}) as root:
        assert "ana-running" in (await root.get("/", headers=PAGE)).text
        monkeypatch.setattr(home, "read_listing", away)
        page = await root.get("/", headers=PAGE)
        assert (page.status_code, page.text) == (200, "the last report")


async def test_every_answer_is_kept_from_frames_and_guesses(world: WebWorld) -> None:
    async with straight(world.hub) as client:
        for path in (ME, "/nothing", "/api/v1/openapi.json"):
            headers = (await client.get(path)).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert "frame-ancestors 'none'" in headers["content-security-policy"]


@pytest.mark.parametrize("given", [{}, {"X-Request-Id": "req-7"}, {"X-Request-Id": "not a name"}])
async def test_a_request_has_one_name_on_both_sides(
    world: WebWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    kept: list[str] = []
    heard: list[object] = []

    class Remembering(Client):
        @property
        def request_id(self) -> str:
            kept.append(super().request_id)
            return kept[-1]

    def me_of(caller: Caller) -> Me:
        heard.append(get_contextvars()["request_id"])
        return told(caller)

    told = me.me_of
    monkeypatch.setattr(server, "Client", Remembering)
    monkeypatch.setattr(me, "me_of", me_of)
    secret = await world.log_in("ana")
    async with through(world, tmp_path, {"Cookie": f"codehub={secret}"}) as ana:
        assert (await ana.get(ME, headers=given)).status_code == 200
    assert heard == kept[-1:]
    assert len(set(kept)) == 1
    assert (kept[0] == "req-7") == (given == {"X-Request-Id": "req-7"})
