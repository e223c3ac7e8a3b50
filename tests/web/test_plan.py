"""`POST /api/v1/plan`: the plan of the command line, for whom it is meant, within its bounds."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from typing import TYPE_CHECKING

import pytest
from starlette.exceptions import HTTPException

from codehub.model.access import Scope
from codehub.model.states import Phase
from codehub.model.workspace import Runtime
from codehub.render.plan_json import plan_json
from codehub.service.planning import plan_options, plan_specs
from codehub.specs.load import load_directory
from codehub.store.clock import read_now
from codehub.store.hubs import read_hub_state
from codehub.web.api import plan as route
from codehub.web.api.places import Places
from codehub.web.api.plan_shapes import PlanShape
from tests.integration.spec_files import document
from tests.make import workspace
from tests.web.plan_world import (
    PEOPLE,
    PLAN,
    SPECS,
    as_gzip,
    as_json,
    as_tar,
    link_in_a_tar,
    raw,
    tar_body,
    without_time,
    write_files,
)
from tests.web.web_world import API, PATIENCE, at_rest, web_world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import httpx

    from tests.web.web_world import WebWorld

pytestmark = pytest.mark.anyio

JSON = "application/json"
CANARY = "canary-5f1c0a2b"


async def test_the_plan_is_that_of_the_command_line(
    world: WebWorld, root: httpx.AsyncClient, tmp_path: Path
) -> None:
    incoming = load_directory(write_files(tmp_path / "specs"))
    state, now = await read_hub_state(world.conn), await read_now(world.conn)
    options = plan_options(world.settings, frozenset({Runtime.DOCKER}))
    expected = json.loads(plan_json(plan_specs(state, incoming, now=now, options=options)))
    where = {"directory": str(tmp_path / "specs")}
    told = await root.post(PLAN, params=where, **as_json(SPECS))
    assert told.status_code == 200
    assert without_time(told.json()) == without_time(expected)
    assert told.json()["summary"]["create"] == 1
    PlanShape.model_validate(told.json())


async def test_however_it_is_sent_it_is_the_same(root: httpx.AsyncClient) -> None:
    first = await root.post(PLAN, **as_json(SPECS))
    assert "new" in [each["name"] for each in first.json()["changes"]]
    for sent in (as_tar, as_gzip):
        then = await root.post(PLAN, **sent(SPECS))
        assert without_time(then.json()) == without_time(first.json())


async def test_nothing_is_written(world: WebWorld, root: httpx.AsyncClient) -> None:
    before, revisions = await world.everything(), await world.rows("TABLE spec_revisions")
    assert (await root.post(PLAN, **as_json(SPECS))).status_code == 200
    assert await world.everything() == before
    assert await world.rows("TABLE spec_revisions") == revisions


FORMS = (
    (None, "*/*", JSON, "{"),
    ("json", "text/html", JSON, "{"),
    (None, "text/markdown", "text/markdown; charset=utf-8", "### CodeHub plan"),
    (None, "text/html,application/json;q=0.9", "text/html; charset=utf-8", "<!doctype html>"),
    ("html", "*/*", "text/html; charset=utf-8", "<!doctype html>"),
    (None, "text/plain;q=0.5, image/png", "text/plain; charset=utf-8", "Plan for ."),
    (None, "text/plain;q=0, text/markdown;q=x", JSON, "{"),
    (None, "image/png", JSON, "{"),
)


async def test_every_form_can_be_asked_for(root: httpx.AsyncClient) -> None:
    for asked, accept, kind, begins in FORMS:
        sent = as_json(SPECS)
        sent["headers"] |= {"Accept": accept}
        told = await root.post(PLAN, params={"format": asked} if asked else {}, **sent)
        assert (told.status_code, told.headers["content-type"]) == (200, kind), accept
        assert told.text.startswith(begins)


async def test_a_page_may_show_its_style_and_nothing_else(root: httpx.AsyncClient) -> None:
    told = await root.post(PLAN, params={"format": "html"}, **as_json(SPECS))
    assert told.headers["content-security-policy"] == "frame-ancestors 'none'"
    assert "default-src 'none'; style-src 'sha256-" in told.text


async def test_a_target_restricts_it(root: httpx.AsyncClient) -> None:
    told = await root.post(PLAN, params={"target": "new"}, **as_json(SPECS))
    assert [each["name"] for each in told.json()["changes"]] == ["new"]
    unknown = await root.post(PLAN, params={"target": "newt"}, **as_json(SPECS))
    assert unknown.status_code == 422
    assert unknown.json()["detail"] == 'no workspace is called "newt", did you mean "new"?'


async def test_a_forecast_can_be_had(world: WebWorld, root: httpx.AsyncClient) -> None:
    docker = {"runtime": Runtime.DOCKER, "image": "i", "command": ()}
    await world.add(at_rest("sleepy", 50, Phase.STANDBY, "ana", **docker))
    files = SPECS | {"s.yaml": document("Workspace", "sleepy", "{owner: ana, image: i}")}
    for until in ("%2B8h", "+8h", "2099-01-01T00:00Z", "9999-12-31T23:59-23:00"):
        told = await root.post(f"{PLAN}?asOf={until}", **as_json(files))
        assert told.json()["asOf"] is not None
        assert [each["to"] for each in told.json()["forecast"]] == ["ARCHIVED"]
        for form in ("text", "md", "html"):
            told = await root.post(f"{PLAN}?asOf={until}&format={form}", **as_json(files))
            assert "if nobody comes" in told.text, (until, form)


async def test_a_forecast_until_no_time(root: httpx.AsyncClient) -> None:
    for until in ("", "soon", "2020-01-01", "%2B99999999999d", "%2B-1h", "%00"):
        told = await root.post(f"{PLAN}?asOf={until}", **as_json(SPECS))
        assert told.status_code == 422, until
        assert "asOf" in told.json()["detail"]


async def test_problems_have_places_as_validate_has_them(root: httpx.AsyncClient) -> None:
    wrong = SPECS | {"team/new.yaml": "apiVersion: codehub.dev/v1\nkind: Workspace\nspec: [\n"}
    told = await root.post(PLAN, params={"directory": "specs"}, **as_json(wrong))
    assert told.status_code == 422
    assert told.headers["content-type"] == "application/problem+json"
    first = told.json()["problems"][0]
    assert set(first) == {"file", "line", "column", "field", "message", "excerpt"}
    assert (first["file"], first["line"]) == ("specs/team/new.yaml", 4)


async def test_what_this_hub_cannot_hold_is_a_problem_of_the_specs(
    root: httpx.AsyncClient,
) -> None:
    spec = document("Workspace", "new", "{owner: ana, runtime: process, command: [sh]}")
    told = await root.post(PLAN, **as_json(SPECS | {"team/new.yaml": spec}))
    assert told.status_code == 422
    assert "process" in told.json()["problems"][0]["message"]


async def test_runtimes_are_those_of_the_hub(database_url: str, redis_url: str) -> None:
    spec = document("Workspace", "new", "{owner: ana, runtime: process, command: [sh]}")
    allowed = frozenset(Runtime)
    async with web_world(database_url, redis_url, runtime_enabled=allowed) as world:
        root = await world.session("root")
        told = await root.post(PLAN, **as_json(SPECS | {"team/new.yaml": spec}))
    assert told.status_code == 200


REFUSED = (
    (link_in_a_tar(), 422),
    (tar_body(b"no tar"), 422),
    (as_json({"../a.yaml": PEOPLE}), 422),
    (as_json({"/a.yaml": PEOPLE}), 422),
    (as_json({}), 422),
    (raw(JSON, b""), 422),
    (raw(JSON, b"[" * 9999), 422),
    (raw(JSON, b'{"files": {}, "x": 1}'), 422),
    (raw(JSON, b'{"files": {"a.yaml": 1}}'), 422),
    (raw(JSON, b'{"files": {"a.yaml": "\\ud800"}}'), 422),
    (raw(JSON, b'{"files": {"a.yaml": "\xff"}}'), 422),
    (raw("application/gzip", b"x"), 422),
    (raw("application/gzip", gzip.compress(bytes(99 << 20))), 422),
    (raw("application/yaml", b"a: 1"), 415),
    ({"content": b"a: 1"}, 415),
)


async def test_bodies_that_are_refused(world: WebWorld, root: httpx.AsyncClient) -> None:
    before = await world.everything()
    for sent, status in REFUSED:
        told = await root.post(PLAN, **sent)
        assert told.status_code == status, sent["content"][:80]
        assert told.headers["content-type"] == "application/problem+json"
        assert told.json()["detail"]
    assert await world.everything() == before
    assert route.PLACES.free == route.AT_ONCE


async def test_questions_that_are_none(root: httpx.AsyncClient) -> None:
    for query in ("format=pdf", "dirty=maybe", "colour=red", "commit=HEAD", "directory="):
        told = await root.post(f"{PLAN}?{query}", **as_json(SPECS))
        assert told.status_code == 422, query
        assert query.partition("=")[0] in told.json()["errors"][0]["where"]


async def test_a_body_that_is_too_large_is_not_read_to_its_end(
    database_url: str, redis_url: str
) -> None:
    async with web_world(database_url, redis_url, web_plan_bytes=4096) as world:
        root = await world.session("root")
        sent = 0

        async def endless() -> AsyncIterator[bytes]:
            nonlocal sent
            while True:
                sent += 1024
                yield bytes(1024)

        told = await root.post(
            PLAN, content=endless(), headers={"Content-Type": "application/x-tar"}
        )
        assert told.status_code == 413
        assert told.json()["detail"] == "the body has more than 4,096 bytes"
        assert sent < 64 * 1024
        packed = {"big.yaml": "#" * 8192, "people.yaml": PEOPLE}
        assert (await root.post(PLAN, **as_gzip(packed))).status_code == 422


async def test_values_of_env_are_told_to_nobody(world: WebWorld, root: httpx.AsyncClient) -> None:
    await world.add(workspace("secretive", number=99, owner="ana", env={"KEY": CANARY}))
    now = f"{{owner: ana, image: i, env: {{KEY: other-{CANARY}}}}}"
    files = SPECS | {"s.yaml": document("Workspace", "secretive", now)}
    for form in ("json", "md", "html", "text"):
        told = await root.post(PLAN, params={"format": form}, **as_json(files))
        assert told.status_code == 200
        assert "secretive" in told.text
        assert CANARY not in told.text


async def test_who_may_plan_with_a_token(world: WebWorld) -> None:
    for who, scopes, status in (
        ("root", (Scope.PLAN,), 200),
        ("root", (Scope.WRITE,), 200),
        ("root", (Scope.READ, Scope.WAKE), 403),
        ("ana", (Scope.PLAN,), 403),
        ("ana", tuple(Scope), 403),
    ):
        client = await world.token(who, *scopes)
        told = await client.post(PLAN, **as_json(SPECS))
        assert told.status_code == status, (who, scopes)


async def test_who_may_plan_without_one(
    root: httpx.AsyncClient, ana: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    assert (await root.post(PLAN, **as_json(SPECS))).status_code == 200
    assert (await ana.post(PLAN, **as_json(SPECS))).status_code == 403
    assert (await stranger.post(PLAN, **as_json(SPECS))).status_code == 401
    del root.headers["X-CSRF-Token"]
    assert (await root.post(PLAN, **as_json(SPECS))).status_code == 403


async def test_a_token_that_may_plan_may_do_nothing_else(world: WebWorld) -> None:
    client = await world.token("root", Scope.PLAN)
    document = (await client.get(f"{API}/openapi.json")).json()
    before, allowed = await world.everything(), set()
    for path, operations in document["paths"].items():
        address = path.replace("{name}", "ana-standby").replace("{number}", "1")
        for method in operations:
            told = await client.request(method, address)
            if told.status_code != 403:
                allowed.add((method, path))
    assert allowed == {("post", PLAN), ("get", f"{API}/me")}
    assert (await client.get("/metrics")).status_code == 403
    assert await world.everything() == before


async def test_only_so_many_plans_are_made_at_once(root: httpx.AsyncClient) -> None:
    begun, finish = asyncio.Semaphore(0), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        whole = as_json(SPECS)["content"].encode()
        yield whole[:10]
        begun.release()
        await finish.wait()
        yield whole[10:]

    kind = {"Content-Type": "application/json"}
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        under_way = [
            group.create_task(root.post(PLAN, content=slow(), headers=kind))
            for _ in range(route.AT_ONCE)
        ]
        for _ in under_way:
            await begun.acquire()
        refused = await root.post(PLAN, **as_json(SPECS))
        finish.set()
    assert refused.status_code == 503
    assert int(refused.headers["retry-after"]) > 0
    assert [each.result().status_code for each in under_way] == [200] * route.AT_ONCE
    assert (await root.post(PLAN, **as_json(SPECS))).status_code == 200


async def test_a_thread_that_takes_too_long_keeps_its_place_until_it_is_done() -> None:
    places, done = Places(1, "waits"), threading.Event()
    with pytest.raises(HTTPException) as caught, places.take() as place:
        await place.work(lambda: done.wait(PATIENCE), 0)
    assert caught.value.status_code == 503
    assert "Retry-After" not in (caught.value.headers or {})
    assert places.free == 0
    with pytest.raises(HTTPException, match="as many as it can"):
        places.take()
    done.set()
    async with asyncio.timeout(PATIENCE):
        while not places.free:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    with places.take() as place:
        assert await place.work(lambda: "done", PATIENCE) == "done"
    assert places.free == 1
