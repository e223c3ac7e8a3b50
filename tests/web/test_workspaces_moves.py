"""What one does with a workspace: start, stop, archive, restore, delete … once, and twice."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from codehub.model.events import EventKind
from codehub.model.states import DesiredState, ErrorReason, Phase
from codehub.store.events import events
from tests.integration.stored import apply, change, live
from tests.make import declaration, spec_set
from tests.web.web_world import at_rest

if TYPE_CHECKING:
    import httpx

    from tests.web.web_world import WebWorld

pytestmark = pytest.mark.anyio

LIST = "/api/v1/workspaces"


async def ask(client: httpx.AsyncClient, path: str, method: str = "POST", **more: Any) -> Any:
    answer = await client.request(method, f"{LIST}/{path}", **more)
    assert answer.status_code in (200, 202), answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("path", "desired"),
    [
        ("ana-pending/start", "RUNNING"),
        ("ana-standby/start", "RUNNING"),
        ("ana-archived/start", "RUNNING"),
        ("ana-starting/start", "RUNNING"),
        ("ana-running/stop", "STANDBY"),
        ("ana-archived/stop", "ARCHIVED"),
        ("ana-running/archive", "ARCHIVED"),
        ("ana-standby/archive", "ARCHIVED"),
        ("ana-archived/restore", "RUNNING"),
        ("ana-archived/restore?start=false", "STANDBY"),
        ("ana-running/restore?start=false", "RUNNING"),
    ],
)
async def test_a_verb_asks_for_its_state_and_asked_twice_it_happens_once(
    world: WebWorld, ana: httpx.AsyncClient, path: str, desired: str
) -> None:
    told = await ask(ana, path)
    assert told["desired"] == desired
    name = path.partition("/")[0]
    assert (await live(world.conn, name)).intent.desired.value == desired
    before = await world.everything()
    assert (await ask(ana, path))["desired"] == desired
    assert await world.everything() == before


async def test_verbs_heed_if_match_too(world: WebWorld, ana: httpx.AsyncClient) -> None:
    before = await world.everything()
    for method, path in (
        ("POST", "ana-running/stop"),
        ("POST", "ana-standby/start"),
        ("DELETE", "ana-orphan"),
        ("POST", "ana-error/recover"),
    ):
        answer = await ana.request(method, f"{LIST}/{path}", headers={"If-Match": '"old"'})
        assert answer.status_code == 412, path
    assert await world.everything() == before


async def test_deleting_is_for_what_no_spec_declares(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    declared = await ana.delete(f"{LIST}/ana-standby")
    assert declared.status_code == 409
    assert "declared at workspaces.yaml:3" in declared.json()["detail"]
    for _ in range(2):
        answer = await ana.delete(f"{LIST}/ana-orphan")
        assert (answer.status_code, answer.json()["desired"]) == (202, "DELETED")
    found = await world.rows("SELECT new, by FROM workspace_events")
    assert found == [{"new": "DELETED", "by": "ana"}]


async def test_giving_up_a_home_is_for_admins_and_for_a_deletion_that_is_stuck(
    world: WebWorld, ana: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    path = f"{LIST}/ana-error?discardData=true"
    await change(world.conn, "ana-error", orphaned=True)
    assert (await ana.delete(path)).status_code == 403
    assert (await root.delete(f"{LIST}/ana-orphan?discardData=true")).status_code == 409
    assert (await live(world.conn, "ana-error")).intent.recover_requested is None
    answer = await root.delete(path)
    assert (answer.status_code, answer.json()["desired"]) == (202, "DELETED")
    assert (await live(world.conn, "ana-error")).intent.recover_requested == "discard-data"


async def test_undelete_brings_back_what_a_spec_declares(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    undeclared = await ana.post(f"{LIST}/ana-deleted/undelete")
    assert undeclared.status_code == 409
    assert "no spec declares ana-deleted" in undeclared.json()["detail"]
    document = {"kind": "Workspace", "metadata": {"name": "fresh"}, "spec": {"owner": "ana"}}
    await apply(world.conn, spec_set(declaration("fresh", owner="ana"), documents=(document,)))
    await change(
        world.conn,
        "fresh",
        desired_state="DELETED",
        phase="DELETED",
        deleted_at="2026-11-01T12:00:00Z",
    )
    assert (await ana.get(f"{LIST}/fresh")).status_code == 404
    back = await ana.post(f"{LIST}/fresh/undelete")
    assert (back.status_code, back.json().get("phase")) == (200, "PENDING"), back.text
    before = await world.everything()
    assert (await ask(ana, "fresh/undelete"))["id"] == back.json()["id"]
    assert await world.everything() == before


async def test_undelete_leaves_alone_what_is_there(world: WebWorld, ana: httpx.AsyncClient) -> None:
    before = await world.everything()
    for name in ("ana-running", "ana-error", "ana-orphan"):
        assert (await ask(ana, f"{name}/undelete"))["name"] == name
    assert await world.everything() == before
    leaving = await ana.post(f"{LIST}/ana-deleting/undelete")
    assert leaving.status_code == 409, "no spec declares it, so it goes on leaving"


async def test_an_admin_overrides_for_a_while_and_ends_it(
    world: WebWorld, ana: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    path = f"{LIST}/ana-standby/override"
    wish = {"state": "ARCHIVED", "for": "8h", "reason": "holidays"}
    assert (await ana.put(path, json=wish)).status_code == 403
    assert (await ana.delete(path)).status_code == 403
    told = await ask(root, "ana-standby/override", "PUT", json=wish)
    assert (told["override"]["state"], told["override"]["reason"]) == ("ARCHIVED", "holidays")
    stored = (await live(world.conn, "ana-standby")).intent.override
    assert stored is not None
    assert stored.until - (await world.rows("SELECT now() AS at"))[0]["at"] > timedelta(hours=7)
    held = await ana.post(f"{LIST}/ana-standby/start")
    assert held.status_code == 409
    assert "overridden until" in held.json()["detail"]
    for _ in range(2):
        assert (await ask(root, "ana-standby/override", "DELETE"))["override"] is None
    first, second = await world.rows("SELECT * FROM workspace_events ORDER BY id")
    assert (first["by"], first["new"]) == ("root", "ARCHIVED")
    assert first["reason"] == "holidays (asked on a page, from 127.0.0.1)"
    assert (second["by"], second["old"], second["new"]) == ("root", "ARCHIVED", "")


async def test_an_override_must_say_what_how_long_and_why(
    world: WebWorld, root: httpx.AsyncClient
) -> None:
    before = await world.everything()
    sound = {"state": "RUNNING", "for": "8h", "reason": "demo"}
    for change_ in (
        {"state": "DELETED"},
        {"for": "0h"},
        {"for": "-1h"},
        {"for": "999999999d"},
        {"for": "soon"},
        {"for": 8},
        {"reason": ""},
        {"reason": "  "},
        {"reason": "a\x00b"},
        {"lasts": "8h"},
        {"until": "tomorrow"},
    ):
        answer = await root.put(f"{LIST}/ana-standby/override", json=sound | change_)
        assert answer.status_code == 422, change_
    for missing in sound:
        rest = {key: value for key, value in sound.items() if key != missing}
        answer = await root.put(f"{LIST}/ana-standby/override", json=rest)
        assert answer.status_code == 422, missing
    assert await world.everything() == before


async def test_recovery_is_plain_unless_data_was_lost(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    path = "ana-error/recover"
    for _ in range(2):
        await ask(ana, path)
    assert (await live(world.conn, "ana-error")).intent.recover_requested == "plain"
    assert len(await world.rows("SELECT id FROM workspace_events")) == 1
    careless = await ana.post(f"{LIST}/{path}", json={"mode": "accept-empty"})
    assert (careless.status_code, careless.json()["title"]) == (409, "Conflict")
    await change(world.conn, "ana-error", error_reason=ErrorReason.DATA_LOST.value)
    assert (await ana.post(f"{LIST}/{path}", json={})).status_code == 409
    await ask(ana, path, json={"mode": "accept-empty"})
    assert (await live(world.conn, "ana-error")).intent.recover_requested == "accept-empty"
    for wrong in ({"mode": "discard-data"}, {"mode": "plain", "force": True}):
        assert (await ana.post(f"{LIST}/{path}", json=wrong)).status_code == 422


async def test_a_recovery_that_was_carried_out_may_be_asked_for_again(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    await ask(ana, "ana-error/recover")
    await change(
        world.conn,
        "ana-error",
        phase="RUNNING",
        error_reason=None,
        error_message=None,
        error_count=0,
        recover_requested=None,
    )
    before = await world.everything()
    for mode in ("plain", "from-archive", "accept-empty"):
        assert (await ask(ana, "ana-error/recover", json={"mode": mode}))["phase"] == "RUNNING"
    assert await world.everything() == before


async def test_touch_makes_idleness_count_from_now(world: WebWorld, ana: httpx.AsyncClient) -> None:
    before = (await live(world.conn, "ana-running")).activity
    answer = await ana.post(f"{LIST}/ana-running/touch")
    assert (answer.status_code, answer.content) == (204, b"")
    after = (await live(world.conn, "ana-running")).activity
    assert before.last_access_at is not None
    assert after.last_access_at is not None
    assert after.last_access_at > before.last_access_at
    assert after.source == "touch"
    (said,) = [e for e in await events(world.conn, "ana-running") if e.kind is EventKind.TOUCH]
    assert (said.new, said.source, said.by) == ("active", "api", "ana")
    assert said.reason.startswith("asked on a page, from ")
    assert (await ana.post(f"{LIST}/ana-deleted/touch")).status_code == 404


async def test_what_is_pinned_stays_where_it_is(world: WebWorld, ana: httpx.AsyncClient) -> None:
    await world.add(at_rest("ana-pinned", 94, Phase.RUNNING, "ana", pinned=True))
    answer = await ana.post(f"{LIST}/ana-pinned/stop")
    assert answer.status_code == 409
    assert "pinned to RUNNING" in answer.json()["detail"]
    assert (await live(world.conn, "ana-pinned")).intent.desired is DesiredState.RUNNING
