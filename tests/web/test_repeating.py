"""Whoever lost an answer sends the request again: it is answered alike, and happens once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.integration.stored import apply, change
from tests.make import declaration, spec_set
from tests.web.plan_world import SPECS, as_json, without_time
from tests.web.test_tokens import WISH
from tests.web.web_world import API

if TYPE_CHECKING:
    import httpx

    from tests.web.web_world import WebWorld

pytestmark = pytest.mark.anyio

PLACE = f"{API}/workspaces"
KEY: Final = {"Idempotency-Key": "0e6f3c52-43c7-4f5e-8a62-0f5f1b3a9d10"}

# By operation: who asks, for what, with what, and what they get.
REPEATED: Final[dict[str, tuple[str, str, dict[str, Any], int]]] = {
    "startWorkspace": ("ana", f"{PLACE}/ana-standby/start", {}, 200),
    "stopWorkspace": ("ana", f"{PLACE}/ana-running/stop", {}, 200),
    "archiveWorkspace": ("ana", f"{PLACE}/ana-standby/archive", {}, 200),
    "restoreWorkspace": ("ana", f"{PLACE}/ana-archived/restore", {}, 200),
    "undeleteWorkspace": ("ana", f"{PLACE}/fresh/undelete", {}, 200),
    "recoverWorkspace": ("ana", f"{PLACE}/ana-error/recover", {"json": {"mode": "plain"}}, 200),
    "touchWorkspace": ("ana", f"{PLACE}/ana-running/touch", {}, 204),
    "planSpecs": ("root", f"{API}/plan", as_json(SPECS), 200),
    "createToken": ("ana", f"{API}/tokens", {"json": WISH, "headers": KEY}, 201),
}
NEWER = {"touchWorkspace": {"last_access_at", "standby_due_at"}, "createToken": {"token_hash"}}
"""Columns that say when something was last asked for, or what cannot be told twice."""


async def written(world: WebWorld, *besides: str) -> list[dict[str, Any]]:
    """All that a request could change, columns named `besides` left out."""
    found: list[dict[str, Any]] = []
    for table in ("workspaces", "workspace_events", "api_tokens", "spec_revisions", "users"):
        rows = await world.rows(f"SELECT * FROM {table} ORDER BY id")
        found += [{k: v for k, v in row.items() if k not in besides} for row in rows]
    return found


def told(answer: httpx.Response) -> Any:
    """What it says, the moment and the secret left out."""
    said = answer.json() if answer.content else {}
    return {key: value for key, value in without_time(said).items() if key != "secret"}


async def delete_one(world: WebWorld) -> None:
    """`fresh` of ana's: a spec declares it, and it was deleted."""
    document = {"kind": "Workspace", "metadata": {"name": "fresh"}, "spec": {"owner": "ana"}}
    await apply(world.conn, spec_set(declaration("fresh", owner="ana"), documents=(document,)))
    gone = {"desired_state": "DELETED", "phase": "DELETED", "deleted_at": "2026-11-01T12:00:00Z"}
    await change(world.conn, "fresh", **gone)


async def test_no_post_is_missing_here(stranger: httpx.AsyncClient) -> None:
    document = (await stranger.get(f"{API}/openapi.json")).json()
    posts = {item["post"]["operationId"] for item in document["paths"].values() if "post" in item}
    assert posts == set(REPEATED)


@pytest.mark.parametrize("operation", REPEATED)
async def test_a_post_that_is_sent_again_is_answered_alike_and_happens_once(
    world: WebWorld, operation: str
) -> None:
    who, path, more, status = REPEATED[operation]
    client = await world.session(who)
    if operation == "undeleteWorkspace":
        await delete_one(world)
    before = await written(world)
    first = await client.post(path, **more)
    assert first.status_code == status, first.text
    newer = NEWER.get(operation, set())
    once = await written(world, *newer)
    second = await client.post(path, **more)
    assert (second.status_code, told(second)) == (status, told(first))
    assert await written(world, *newer) == once
    assert (await written(world) != before) == (operation != "planSpecs")


async def test_an_override_is_set_twice_and_ended_twice(
    world: WebWorld, root: httpx.AsyncClient
) -> None:
    path = f"{PLACE}/ana-standby/override"
    wish = {"state": "ARCHIVED", "for": "8h", "reason": "holidays"}
    ends = [(await root.put(path, json=wish)).json()["override"]["until"] for _ in range(2)]
    assert ends == sorted(ends)
    assert [(await root.delete(path)).status_code for _ in range(2)] == [200, 200]
    (one,) = await world.rows("SELECT override_state FROM workspaces WHERE name = 'ana-standby'")
    assert one["override_state"] is None


async def test_giving_up_a_home_is_asked_for_once(world: WebWorld, root: httpx.AsyncClient) -> None:
    await change(world.conn, "ana-error", orphaned=True)
    path = f"{PLACE}/ana-error?discardData=true"
    assert (await root.delete(path)).status_code == 202
    once = await written(world)
    assert (await root.delete(path)).status_code == 202
    assert await written(world) == once
