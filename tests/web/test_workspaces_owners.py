"""Who may what: over every route of the OpenAPI document that names a workspace."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from codehub.model.access import Scope
from codehub.service.tokens import revoke_token
from codehub.store.access import find_account
from codehub.store.sessions import end_all_sessions
from codehub.web.app import create_app
from tests.proxy.gate_world import PATIENCE
from tests.web.web_world import ORIGIN, workspaces

if TYPE_CHECKING:
    import httpx

    from tests.web.web_world import WebWorld

pytestmark = pytest.mark.anyio

BODIES: dict[tuple[str, str], Any] = {
    ("PATCH", ""): {"desired": "RUNNING"},
    ("PUT", "/override"): {"state": "RUNNING", "for": "1h", "reason": "demo"},
    ("POST", "/recover"): {"mode": "plain"},
}
PREFIX = "/api/v1/workspaces/{name}"
ANAS = [each for each in workspaces() if each.declaration.owner == "ana"]
SAFE = ("GET", "HEAD")


def document() -> dict[str, Any]:
    """The document alone: no route is called, so there need not be a hub."""
    return create_app(cast("Any", None)).openapi()


def routes() -> list[tuple[str, str]]:
    """Method and what follows the name."""
    found = [
        (method.upper(), path.removeprefix(PREFIX))
        for path, operations in document()["paths"].items()
        for method in operations
        if "{name}" in path and path.startswith(PREFIX)
    ]
    return [*found, *(("HEAD", path) for method, path in found if method == "GET")]


ROUTES = routes()


async def call(client: httpx.AsyncClient, method: str, path: str, name: str) -> httpx.Response:
    url = f"/api/v1/workspaces/{name}{path}"
    return await client.request(method, url, json=BODIES.get((method, path)))


def test_the_routes_are_those_that_we_know() -> None:
    assert len(ROUTES) >= 19
    assert ("PATCH", "") in ROUTES
    assert ("GET", "/logs") in ROUTES
    assert set(BODIES) < set(ROUTES)


@pytest.mark.parametrize(("method", "path"), ROUTES, ids=lambda each: each or "itself")
async def test_anothers_workspace_looks_like_one_that_is_not_there(
    world: WebWorld, bob: httpx.AsyncClient, method: str, path: str
) -> None:
    bob_token = await world.token("bob")
    for client in (bob, bob_token):  # each request has a name of its own, unless it comes with one
        client.headers["X-Request-Id"] = "r"
    before = await world.everything()
    missing = await call(bob, method, path, "nobody-has-it")
    assert missing.status_code == 404
    for each in ANAS:
        for client in (bob, bob_token):
            for key in (each.name, str(each.id)):
                answer = await call(client, method, path, key)
                assert answer.status_code == 404, (each.name, answer.text)
                assert answer.content == missing.content
                assert dict(answer.headers) == dict(missing.headers)
    assert await world.everything() == before


async def test_an_admin_reaches_everybodys(world: WebWorld, root: httpx.AsyncClient) -> None:
    for method, path in ROUTES:
        answer = await call(root, method, path, "ana-standby")
        assert answer.status_code not in (401, 403, 404), (method, path, answer.text)
    assert (await root.get("/api/v1/workspaces/bob-running")).json()["owner"] == "bob"


async def test_nobody_gets_anything_without_showing_who_they_are(
    world: WebWorld, stranger: httpx.AsyncClient
) -> None:
    before = await world.everything()
    for method, path in [*ROUTES, ("GET", "")]:
        answer = await call(stranger, method, path, "ana-running")
        assert answer.status_code == 401, (method, path)
        assert answer.headers["www-authenticate"] == 'Bearer realm="codehub"'
    for url in ("/api/v1/workspaces", "/api/v1/audit"):
        assert (await stranger.get(url)).status_code == 401
    assert await world.everything() == before


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [
        (Scope.READ, {route for route in ROUTES if route[0] in SAFE}),
        (Scope.WAKE, {("POST", "/start")}),
        (Scope.PLAN, set()),
        (Scope.WRITE, set(ROUTES)),
    ],
)
async def test_a_token_does_what_its_scope_says(
    world: WebWorld, scope: Scope, allowed: set[tuple[str, str]]
) -> None:
    client = await world.token("ana", scope)
    before = await world.everything()
    refused = [route for route in ROUTES if route not in allowed]
    for method, path in refused:
        answer = await call(client, method, path, "ana-standby")
        assert answer.status_code == 403, (method, path)
    assert await world.everything() == before
    for method, path in allowed - {("PUT", "/override"), ("DELETE", "/override")}:
        answer = await call(client, method, path, "ana-standby")
        assert answer.status_code not in (401, 403), (method, path, answer.text)
    lists = [(await client.get(f"/api/v1/{url}")).status_code for url in ("workspaces", "audit")]
    assert lists == ([200, 200] if scope in (Scope.READ, Scope.WRITE) else [403, 403])


async def test_a_token_that_has_expired_or_was_revoked_counts_for_nothing(world: WebWorld) -> None:
    expired, revoked = await world.token("ana"), await world.token("bob")
    await world.rows(
        "UPDATE api_tokens SET expires_at = now() - interval '1 second'"
        " WHERE user_id = (SELECT id FROM users WHERE name = 'ana')"
    )
    name = (await world.rows("SELECT name FROM api_tokens WHERE expires_at > now()"))[0]["name"]
    await revoke_token(world.conn, "bob", name, by="test")
    for client in (expired, revoked):
        assert (await client.get("/api/v1/workspaces")).status_code == 401
        assert (await client.post("/api/v1/workspaces/ana-standby/start")).status_code == 401


async def test_a_login_that_ended_counts_for_nothing_soon_after(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    assert (await ana.get("/api/v1/workspaces")).status_code == 200
    account = await find_account(world.conn, "ana")
    assert account is not None
    await end_all_sessions(world.conn, account.person.id)
    await _until_refused(ana)
    assert (await ana.post("/api/v1/workspaces/ana-standby/start")).status_code == 401


async def test_a_login_that_expired_counts_for_nothing(world: WebWorld) -> None:
    secret = await world.log_in("ana")
    await world.rows("UPDATE sessions SET expires_at = now() - interval '1 second'")
    client = await world.anonymous(Cookie=f"codehub={secret}", Origin=ORIGIN)
    assert (await client.get("/api/v1/workspaces")).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"X-CSRF-Token": ""},
        {"X-CSRF-Token": "0" * 64},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://ana-running.localhost"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=lambda each: "-".join(next(iter(each.items()))).replace("/", "_"),
)
async def test_another_sites_page_changes_nothing_with_ones_login(
    world: WebWorld, ana: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    before = await world.everything()
    ana.headers.update(headers)
    for method, path in ROUTES:
        answer = await call(ana, method, path, "ana-standby")
        if method in SAFE:
            assert answer.status_code in (200, 501), (method, path)
        else:
            assert answer.status_code == 403, (method, path)
    assert await world.everything() == before


async def test_no_csrf_token_of_somebody_elses_login_will_do(
    world: WebWorld, ana: httpx.AsyncClient, bob: httpx.AsyncClient
) -> None:
    ana.headers["X-CSRF-Token"] = bob.headers["X-CSRF-Token"]
    assert (await ana.post("/api/v1/workspaces/ana-standby/start")).status_code == 403
    del ana.headers["X-CSRF-Token"]
    assert (await ana.post("/api/v1/workspaces/ana-standby/start")).status_code == 403


def test_every_route_documents_what_may_go_wrong() -> None:
    found = document()
    assert found["components"]["schemas"]["Problem"]["required"] == ["title", "status", "detail"]
    ids = []
    for path, operations in found["paths"].items():
        if not path.startswith("/api/v1/workspaces"):
            continue
        for operation in operations.values():
            ids.append(operation["operationId"])
            wrong = {code for code in operation["responses"] if int(code) >= 400}
            assert {"401", "403", "503"} <= wrong, path
            assert ("404" in wrong) == ("{name}" in path)
            for code in wrong:
                content = operation["responses"][code]["content"]
                assert list(content) == ["application/problem+json"], (path, code)
    assert len(set(ids)) == len(ids)
    assert {"listWorkspaces", "getWorkspace", "patchWorkspace", "startWorkspace"} <= set(ids)


async def _until_refused(client: httpx.AsyncClient) -> None:
    """Postgres tells of it; nobody else is waited for."""
    async with asyncio.timeout(PATIENCE):
        while (await client.get("/api/v1/workspaces")).status_code != 401:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
