"""`/api/v1/report` and the probes: for whom they are, and in which form."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from codehub.model.access import Scope
from codehub.web.api import report as route
from tests.web.web_world import API, PATIENCE, web_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from tests.web.web_world import WebWorld

pytestmark = pytest.mark.anyio

REPORT = f"{API}/report"


async def test_an_admin_reads_of_everybody(root: httpx.AsyncClient) -> None:
    told = (await root.get(REPORT)).raise_for_status().json()
    names = {each["name"] for each in told["workspaces"]}
    assert {"ana-running", "bob-running"} <= names
    assert [each["name"] for each in told["errors"]] == ["ana-error"]


async def test_a_member_reads_of_their_own_in_every_form(bob: httpx.AsyncClient) -> None:
    for form in ("json", "md", "html"):
        told = (await bob.get(REPORT, params={"format": form})).raise_for_status()
        assert "bob-running" in told.text
        assert "ana-" not in told.text


async def test_looking_at_what_it_names_wakes_nobody(
    root: httpx.AsyncClient, bob: httpx.AsyncClient
) -> None:
    for client in (root, bob):
        page = (await client.get("/report", headers={"Accept": "text/html"})).raise_for_status()
        assert '<a href="/workspaces/bob-running">bob-running</a>' in page.text
        kept = (await client.get(REPORT, params={"format": "html"})).raise_for_status()
        assert "<span>bob-running</span>" in kept.text
        assert 'href="/w/' not in page.text + kept.text


@pytest.mark.parametrize(
    ("accept", "kind", "begins"),
    [
        ("*/*", "application/json", "{"),
        ("text/markdown", "text/markdown; charset=utf-8", "# CodeHub"),
        ("text/html,*/*;q=0.8", "text/html; charset=utf-8", "<!doctype html>"),
        ("text/plain", "application/json", "{"),
    ],
)
async def test_its_form_is_chosen(
    root: httpx.AsyncClient, accept: str, kind: str, begins: str
) -> None:
    told = await root.get(REPORT, headers={"Accept": accept})
    assert (told.status_code, told.headers["content-type"]) == (200, kind)
    assert told.text.startswith(begins)


async def test_how_far_back_it_looks(root: httpx.AsyncClient) -> None:
    assert (await root.get(REPORT, params={"days": 366})).status_code == 200
    for wrong in ({"days": 0}, {"days": 367}, {"days": "x"}, {"format": "text"}, {"x": 1}):
        assert (await root.get(REPORT, params=wrong)).status_code == 422, wrong


async def test_only_so_many_at_once(root: httpx.AsyncClient) -> None:
    taken = [route.PLACES.take() for _ in range(route.PLACES.free)]
    try:
        told = await root.get(REPORT)
        assert (told.status_code, told.headers["retry-after"]) == (503, "3")
    finally:
        for place in taken:
            place.__exit__(None, None, None)
    assert (await root.get(REPORT)).status_code == 200


async def test_strangers_read_nothing(world: WebWorld, stranger: httpx.AsyncClient) -> None:
    assert (await stranger.get(REPORT)).status_code == 401
    assert (await (await world.token("root", Scope.WAKE)).get(REPORT)).status_code == 403


async def test_metrics_are_for_admins(
    world: WebWorld, root: httpx.AsyncClient, ana: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    told = await root.get("/metrics")
    assert told.status_code == 200
    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "codehub_build_info{" in told.text
    assert (await (await world.token("root", Scope.READ)).get("/metrics")).status_code == 200
    hidden, missing = await ana.get("/metrics"), await ana.get("/no-such-address")
    assert hidden.status_code == missing.status_code == 404
    assert (await stranger.get("/metrics")).status_code == 401


async def test_ready_while_the_database_answers(
    world: WebWorld, stranger: httpx.AsyncClient
) -> None:
    assert (await stranger.get("/healthz")).text == "ok\n"
    assert (await stranger.get("/readyz")).text == "ready\n"


async def test_not_ready_without_a_database(database_url: str, redis_url: str) -> None:
    async with web_world(database_url, redis_url) as world:
        stranger = await world.anonymous()
        await world.hub.pool.__aexit__(None, None, None)
        assert (await stranger.get("/healthz")).status_code == 200
        told = await stranger.get("/readyz", timeout=PATIENCE)
        assert told.status_code == 503
        assert told.headers["content-type"] == "application/problem+json"
        assert "retry-after" in told.headers


async def test_what_can_be_done_at_an_address_is_told_in_full(root: httpx.AsyncClient) -> None:
    for path, methods in (
        ("/tokens", "GET, HEAD, POST"),
        ("/workspaces/ana-running", "DELETE, GET, HEAD, PATCH"),
        ("/plan", "POST"),
    ):
        told = await root.options(f"{API}{path}")
        assert (told.status_code, told.headers["allow"]) == (405, methods)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


async def test_the_document_is_complete(root: httpx.AsyncClient) -> None:
    document = (await root.get(f"{API}/openapi.json")).json()
    problem = {"$ref": "#/components/schemas/Problem"}
    ids = [operation["operationId"] for _, operation in operations(document)]
    assert len(ids) == len(set(ids))
    assert [each for each in ids if not re.fullmatch("[a-z]+([A-Z][a-z]+)*", each)] == []
    for where, operation in operations(document):
        assert operation.get("summary"), where
        assert {"401", "403", "500", "503"} <= set(operation["responses"]), where
        for status, response in operation["responses"].items():
            assert response["description"], where
            if status >= "400":
                (told,) = response["content"].items()
                assert told[0] == "application/problem+json", f"{where} {status}"
                assert told[1]["schema"] == problem, f"{where} {status}"
    assert "ValidationError" not in document["components"]["schemas"]
    assert document["security"] == [{"token": []}, {"session": []}]


async def test_the_document_refers_to_nothing_that_is_not_there(root: httpx.AsyncClient) -> None:
    text = (await root.get(f"{API}/openapi.json")).text
    known = json.loads(text)["components"]["schemas"]
    used = {part.partition('"')[0] for part in text.split('"#/components/schemas/')[1:]}
    assert used <= set(known)
    assert "$defs" not in text
