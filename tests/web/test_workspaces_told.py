"""`explain`, the audit, and what comes of odd requests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from codehub.model.events import EventKind
from codehub.model.states import DesiredState, Phase
from codehub.render.explain_text import explain_data
from codehub.service.explaining import customs_of, explain_workspace
from codehub.store.events import append, entry
from codehub.web.api.explain import ExplanationShape
from tests.integration.stored import change, live
from tests.web.web_world import at_rest, web_world

if TYPE_CHECKING:
    import httpx

    from tests.web.web_world import WebWorld

pytestmark = pytest.mark.anyio

LIST = "/api/v1/workspaces"
AUDIT = "/api/v1/audit"
EVERY = ["ana-pending", "ana-running", "ana-standby", "ana-archived", "ana-error"]
EVERY += ["ana-starting", "ana-deleting", "ana-deleted", "ana-orphan"]
STABLE = ["phase", "declared", "asked", "way", "operation", "error", "conditions", "leader"]


async def test_explain_says_what_the_command_line_says(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    for name in EVERY:
        told = (await ana.get(f"{LIST}/{name}/explain")).json()
        ExplanationShape.model_validate(told)
        found = await explain_workspace(
            world.conn, name, customs_of(world.settings), world.hub.limits
        )
        same = json.loads(json.dumps(explain_data(found)))
        assert told.keys() == same.keys()
        assert [told[key] for key in STABLE] == [same[key] for key in STABLE]


async def test_explain_has_a_shape_for_all_that_can_be_said(
    database_url: str, redis_url: str
) -> None:
    async with web_world(database_url, redis_url, limits_max_running_per_user=1) as world:
        bob, root = await world.session("bob"), await world.session("root")
        await change(world.conn, "bob-standby", desired_state="RUNNING")
        queued = (await bob.get(f"{LIST}/bob-standby/explain")).json()
        assert (queued["queue"]["position"], queued["queue"]["running"]) == (1, ["bob-running"])
        wish = {"state": "STANDBY", "for": "8h", "reason": "audit"}
        await root.put(f"{LIST}/bob-archived/override", json=wish)
        held = (await bob.get(f"{LIST}/bob-archived/explain")).json()
        assert held["asked"]["override"]["reason"] == "audit"
        for told in (queued, held):
            ExplanationShape.model_validate(told)


async def test_explain_suggests_nothing_that_is_somebody_elses(bob: httpx.AsyncClient) -> None:
    answer = await bob.get(f"{LIST}/ana-runnin/explain")
    assert answer.status_code == 404
    assert "ana" not in answer.text


async def note(world: WebWorld, name: str, *reasons: str) -> None:
    one = await live(world.conn, name)
    await append(
        world.conn,
        [
            entry(
                one.id,
                name,
                EventKind.DESIRED,
                old="STANDBY",
                new="RUNNING",
                source="cli",
                by="test",
                reason=reason,
            )
            for reason in reasons
        ],
    )


async def read_all(client: httpx.AsyncClient, url: str, limit: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    params: dict[str, Any] = {"limit": limit}
    while True:
        page = (await client.get(url, params=params)).raise_for_status().json()
        assert len(page["items"]) <= limit
        found += page["items"]
        if page["next"] is None:
            return found
        params["cursor"] = page["next"]


async def test_the_audit_is_told_latest_first_a_page_at_a_time(
    world: WebWorld, ana: httpx.AsyncClient, bob: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    await note(world, "ana-running", "1", "2")
    await note(world, "bob-running", "3")
    await note(world, "ana-standby", "4")
    await note(world, "ana-running", "5")
    reasons = {
        (name, url): [each["reason"] for each in await read_all(client, url, 2)]
        for name, client in {"ana": ana, "bob": bob, "root": root}.items()
        for url in (AUDIT, f"{LIST}/{'bob' if name == 'bob' else 'ana'}-running/events")
    }
    assert reasons == {
        ("ana", AUDIT): ["5", "4", "2", "1"],
        ("ana", f"{LIST}/ana-running/events"): ["5", "2", "1"],
        ("bob", AUDIT): ["3"],
        ("bob", f"{LIST}/bob-running/events"): ["3"],
        ("root", AUDIT): ["5", "4", "3", "2", "1"],
        ("root", f"{LIST}/ana-running/events"): ["5", "2", "1"],
    }


async def test_an_event_tells_who_moved_what(world: WebWorld, ana: httpx.AsyncClient) -> None:
    await note(world, "ana-running", "because")
    (event,) = (await ana.get(f"{LIST}/ana-running/events")).json()["items"]
    del event["at"], event["id"]
    assert event == {
        "workspaceId": str((await live(world.conn, "ana-running")).id),
        "workspace": "ana-running",
        "kind": "desired",
        "old": "STANDBY",
        "new": "RUNNING",
        "source": "cli",
        "by": "test",
        "reason": "because",
    }


async def test_what_is_deleted_keeps_its_audit_for_whose_it_was(
    world: WebWorld, ana: httpx.AsyncClient, bob: httpx.AsyncClient
) -> None:
    """Also when somebody else has the name since: each sees their own."""
    await note(world, "ana-orphan", "mine")
    await change(world.conn, "ana-orphan", deleted_at="2026-11-01T12:00:00Z")
    await world.add(at_rest("ana-orphan", 95, Phase.STANDBY, "bob"))
    assert [each["reason"] for each in await read_all(ana, AUDIT, 5)] == ["mine"]
    assert [each["reason"] for each in await read_all(ana, f"{LIST}/ana-orphan/events", 5)] == [
        "mine"
    ]
    assert await read_all(bob, f"{LIST}/ana-orphan/events", 5) == []
    assert (await ana.get(f"{LIST}/ana-orphan")).status_code == 404


async def test_an_audit_that_begins_nowhere_is_told(ana: httpx.AsyncClient) -> None:
    for cursor in ("x", "-1", "9" * 19, "1.5", "", "٣"):
        for url in (AUDIT, f"{LIST}/ana-running/events"):
            assert (await ana.get(url, params={"cursor": cursor})).status_code == 422, cursor


ODD = [
    "%00",
    "a%00b",
    "%ff%fe",
    "%ed%a0%80",
    "%F0%9F%98%80",
    "%2e%2e",
    "a%2Fb",
    "'%20OR%201=1",
    "a" * 5000,
    "%0a",
    "00000000-0000-0000-0000-00000000000%00",
    "ana-running%00",
    "ana-running%20",
    "%7Bname%7D",
]


async def test_odd_names_are_not_there(world: WebWorld, ana: httpx.AsyncClient) -> None:
    before = await world.everything()
    for odd in ODD:
        for method, path in (
            ("GET", ""),
            ("GET", "/explain"),
            ("GET", "/events"),
            ("GET", "/logs"),
        ):
            answer = await ana.request(method, f"{LIST}/{odd}{path}")
            assert answer.status_code == 404, (odd, path, answer.status_code)
        for path in ("start", "touch", "undelete"):
            answer = await ana.post(f"{LIST}/{odd}/{path}")
            assert answer.status_code in (404, 405), (odd, path, answer.status_code)
    assert await world.everything() == before


async def test_odd_headers_and_queries_are_no_mistake_of_ours(ana: httpx.AsyncClient) -> None:
    for query in ("q=%00", "q=%ff", "cursor=%00", "limit=1e3", "limit=" + "9" * 400, "&&=&", "q"):
        assert (await ana.get(f"{LIST}?{query}")).status_code in (200, 422), query
    for value in (b"\xff\xfe", b'"' * 999, b"*" * 999, b", ,,"):
        answer = await ana.get(f"{LIST}/ana-running", headers=[(b"If-None-Match", value)])
        assert answer.status_code == 200
        answer = await ana.post(f"{LIST}/ana-running/stop", headers=[(b"If-Match", value)])
        assert answer.status_code == 412


async def test_head_is_get_without_the_body(ana: httpx.AsyncClient) -> None:
    ana.headers["X-Request-Id"] = "r"
    for url in (LIST, f"{LIST}/ana-archived", f"{LIST}/nobody", AUDIT, "/api/v1/me"):
        whole, head = await ana.get(url), await ana.head(url)
        assert (head.status_code, head.content) == (whole.status_code, b"")
        assert dict(head.headers) == dict(whole.headers)
    assert (await ana.head(f"{LIST}/ana-running/start")).status_code == 405


async def test_other_methods_are_told_which_there_are(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    before = await world.everything()
    for method, url, allowed in (
        ("POST", LIST, {"GET", "HEAD"}),
        ("PUT", f"{LIST}/ana-running", {"GET", "HEAD", "PATCH", "DELETE"}),
        ("DELETE", f"{LIST}/ana-running/start", {"POST"}),
    ):
        answer = await ana.request(method, url)
        assert answer.status_code == 405
        assert answer.headers["content-type"] == "application/problem+json"
        assert set(answer.headers["allow"].split(", ")) == allowed
    assert await world.everything() == before
    assert (await live(world.conn, "ana-running")).intent.desired is DesiredState.RUNNING
