"""`/api/v1/workspaces`: the list with its filters and pages, one workspace, asking for a state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codehub.model.states import DesiredState, Phase
from tests.integration.stored import change, live
from tests.web.web_world import at_rest, web_world

if TYPE_CHECKING:
    import httpx

    from tests.web.web_world import WebWorld

pytestmark = pytest.mark.anyio

LIST = "/api/v1/workspaces"
JSON = {"Content-Type": "application/json"}
ANAS = ["ana-archived", "ana-deleting", "ana-error", "ana-orphan", "ana-pending"]
ANAS += ["ana-running", "ana-standby", "ana-starting"]
BOBS = ["bob-archived", "bob-running", "bob-standby"]


async def names(client: httpx.AsyncClient, **params: Any) -> list[str]:
    answer = await client.get(LIST, params=params)
    assert answer.status_code == 200, answer.text
    return [each["name"] for each in answer.json()["items"]]


async def test_a_member_sees_their_own_by_name_and_an_admin_sees_all(
    ana: httpx.AsyncClient, root: httpx.AsyncClient
) -> None:
    assert await names(ana) == ANAS
    assert await names(root) == ANAS + BOBS
    assert await names(root, owner="bob") == BOBS
    assert await names(ana, owner="ana") == ANAS
    assert await names(ana, owner="bob") == []


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({"phase": "RUNNING"}, ["ana-running"]),
    ({"phase": ["ERROR", "ARCHIVED"]}, ["ana-archived", "ana-error"]),
    ({"operation": "STARTING"}, ["ana-starting"]),
    ({"busy": "true"}, ["ana-starting"]),
    ({"busy": "false", "phase": "STANDBY"}, ["ana-orphan", "ana-standby"]),
    ({"desired": "DELETED"}, ["ana-deleting"]),
    ({"archived": "true"}, ["ana-archived"]),
    ({"archived": "false"}, [each for each in ANAS if each != "ana-archived"]),
    ({"orphaned": "true"}, ["ana-deleting", "ana-orphan"]),
    ({"label": "team=payments"}, ["ana-running"]),
    ({"label": "team"}, ["ana-running"]),
    ({"label": ["team", "team=payments"]}, ["ana-running"]),
    ({"label": ["team=payments", "team=web"]}, []),
    ({"q": "PAYMENTS"}, ["ana-standby"]),
    ({"q": "-st"}, ["ana-standby", "ana-starting"]),
    ({"q": "%"}, []),
    ({"q": "nothing of the kind"}, []),
]


async def test_filters(ana: httpx.AsyncClient) -> None:
    found = [(params, await names(ana, **params)) for params, _ in FILTERS]
    assert found == FILTERS


UNCLEAR: list[dict[str, Any]] = [
    {"limit": 0},
    {"limit": 501},
    {"limit": "many"},
    {"phase": "ASLEEP"},
    {"busy": "perhaps"},
    {"label": "=x"},
    {"q": "a\x00b"},
    {"owner": "a\x00b"},
    {"label": "a=\x00"},
    {"cursor": "?"},
    {"cursor": "AAAA"},
    {"cursor": ""},
    {"colour": "red"},
]


async def test_what_cannot_be_meant_is_told(ana: httpx.AsyncClient) -> None:
    for params in UNCLEAR:
        answer = await ana.get(LIST, params=params)
        assert answer.status_code == 422, params
        assert answer.headers["content-type"] == "application/problem+json"


async def test_pages_go_on_behind_a_name_whatever_is_added_or_removed_meanwhile(
    world: WebWorld, root: httpx.AsyncClient
) -> None:
    seen: list[str] = []
    params: dict[str, Any] = {"limit": 3}
    while True:
        page = (await root.get(LIST, params=params)).json()
        seen += [each["name"] for each in page["items"]]
        if page["next"] is None:
            break
        params["cursor"] = page["next"]
        if len(seen) == 3:
            await world.add(at_rest("aaa-first", 90, Phase.STANDBY, "ana"))
            await world.rows("DELETE FROM workspaces WHERE name = %s", seen[-1])
    assert seen == ANAS + BOBS
    whole = await root.get(LIST, params={"limit": len(ANAS + BOBS)})
    assert whole.json()["next"] is None, "a page that is just full leads nowhere"


async def test_only_the_page_is_read(world: WebWorld, root: httpx.AsyncClient) -> None:
    """What lies behind the page cannot even be decoded; nobody notices."""
    await world.rows("UPDATE workspaces SET spec_source = 'x:y' WHERE name = 'bob-standby'")
    assert (await names(root, limit=5))[:2] == ANAS[:2]
    assert (await root.get(LIST)).status_code == 500


async def test_one_workspace_tells_all_that_is_decided_on(ana: httpx.AsyncClient) -> None:
    found = (await ana.get(f"{LIST}/ana-running")).json()
    assert found["phase"] == found["desired"] == found["declared"] == "RUNNING"
    assert found["actions"] == ["open", "stop", "archive"]
    assert found["source"] == "workspaces.yaml:2"
    assert found["labels"] == {"team": "payments"}
    assert found["url"] == "http://ana-running.localhost/"
    assert found["nextMove"]["to"] == "STANDBY"
    assert "env" not in found
    assert "command" not in found


async def test_the_list_tells_the_same_as_the_workspace_itself(ana: httpx.AsyncClient) -> None:
    for each in (await ana.get(LIST)).json()["items"]:
        alone = (await ana.get(f"{LIST}/{each['name']}")).json()
        # Overdue moves are forecast for now, which has passed meanwhile.
        assert alone | {"nextMove": None} == each | {"nextMove": None}


async def test_an_id_is_as_good_as_a_name(world: WebWorld, ana: httpx.AsyncClient) -> None:
    one = (await ana.get(f"{LIST}/ana-running")).json()
    assert (await ana.get(f"{LIST}/{one['id']}")).json()["name"] == "ana-running"
    assert (await ana.get(f"{LIST}/{one['id'].upper()}")).json()["name"] == "ana-running"
    stopped = await ana.post(f"{LIST}/{one['id']}/stop")
    assert stopped.json()["desired"] == "STANDBY"
    # Whose name looks like somebody else's id does not stand in their way.
    await world.add(at_rest(one["id"], 91, Phase.RUNNING, "bob"))
    assert (await ana.get(f"{LIST}/{one['id']}")).json()["name"] == "ana-running"


async def test_what_is_not_there_is_a_404(ana: httpx.AsyncClient) -> None:
    for name in ("ana-deleted", "nobody-has-it", "ANA-RUNNING", "a" * 41):
        answer = await ana.get(f"{LIST}/{name}")
        assert answer.status_code == 404
        assert answer.json()["detail"] == "there is no such workspace"


async def test_an_etag_saves_reading_it_again_until_it_changes(ana: httpx.AsyncClient) -> None:
    first = await ana.get(f"{LIST}/ana-standby")
    tag = first.headers["etag"]
    assert tag == f'"{first.json()["version"]}"'
    for known in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        again = await ana.get(f"{LIST}/ana-standby", headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    changed = await ana.patch(f"{LIST}/ana-standby", json={"desired": "RUNNING"})
    assert changed.headers["etag"] != tag
    fresh = await ana.get(f"{LIST}/ana-standby", headers={"If-None-Match": tag})
    assert (fresh.status_code, fresh.headers["etag"]) == (200, changed.headers["etag"])


async def test_what_is_under_way_is_told_every_time(ana: httpx.AsyncClient) -> None:
    tag = (await ana.get(f"{LIST}/ana-starting")).headers["etag"]
    again = await ana.get(f"{LIST}/ana-starting", headers={"If-None-Match": tag})
    assert again.status_code == 200


async def test_patch_moves_what_is_desired_with_who_and_from_where(
    world: WebWorld, ana: httpx.AsyncClient, ana_token: httpx.AsyncClient
) -> None:
    answer = await ana.patch(
        f"{LIST}/ana-standby", json={"desired": "RUNNING", "reason": "demo at ten"}
    )
    assert (answer.status_code, answer.json()["desired"]) == (200, "RUNNING")
    assert (await live(world.conn, "ana-standby")).intent.desired is DesiredState.RUNNING
    await ana_token.patch(f"{LIST}/ana-running", json={"desired": "ARCHIVED"})
    first, second = await world.rows("SELECT * FROM workspace_events ORDER BY id")
    assert (first["source"], first["by"], first["new"]) == ("api", "ana", "RUNNING")
    assert first["reason"] == "demo at ten (asked on a page, from 127.0.0.1)"
    assert second["reason"] == "asked with a token, from 127.0.0.1"


async def test_patch_asked_twice_happens_once(world: WebWorld, ana: httpx.AsyncClient) -> None:
    first = await ana.patch(f"{LIST}/ana-standby", json={"desired": "RUNNING"})
    before = await world.everything()
    second = await ana.patch(f"{LIST}/ana-standby", json={"desired": "RUNNING"})
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.headers["etag"] == second.headers["etag"]
    assert await world.everything() == before


async def test_patch_with_if_match_moves_only_what_was_seen(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    tag = (await ana.get(f"{LIST}/ana-standby")).headers["etag"]
    await change(world.conn, "ana-standby", generation=2)
    before = await world.everything()
    for stale in (tag, f"W/{tag}", "garbage", '""'):
        answer = await ana.patch(
            f"{LIST}/ana-standby", json={"desired": "RUNNING"}, headers={"If-Match": stale}
        )
        assert (answer.status_code, answer.json()["title"]) == (412, "Precondition Failed")
    assert await world.everything() == before
    now = (await ana.get(f"{LIST}/ana-standby")).headers["etag"]
    for fits in (f'"x", {now}', "*"):
        answer = await ana.patch(
            f"{LIST}/ana-standby", json={"desired": "RUNNING"}, headers={"If-Match": fits}
        )
        assert answer.status_code == 200


BODIES = [
    b"",
    b"{",
    b"[]",
    b'"RUNNING"',
    b"{}",
    b'{"desired": "DELETED"}',
    b'{"desired": "ERROR"}',
    b'{"desired": "RUNNING", "phase": "RUNNING"}',
    b'{"desired": "RUNNING", "reason": "a\\u0000b"}',
    b'{"desired": "RUNNING", "reason": "a\\ud800b"}',
    b'{"desired": "RUNNING", "reason": "a\\nb"}',
    b'{"desired": "RUNNING", "reason": 7}',
    b'{"desired": null}',
]


async def test_a_body_that_is_not_as_it_should_be_changes_nothing(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    before = await world.everything()
    for body in BODIES:
        answer = await ana.patch(f"{LIST}/ana-standby", content=body, headers=JSON)
        assert answer.status_code == 422, body
        assert answer.json()["errors"]
    assert await world.everything() == before


async def test_a_body_in_no_known_encoding_is_told(ana: httpx.AsyncClient) -> None:
    answer = await ana.patch(
        f"{LIST}/ana-standby",
        content=b'{"desired": "\xff"}',
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ana-starting", "STARTING is under way"),
        ("ana-error", "is in ERROR"),
        ("ana-deleting", "is being deleted"),
        ("ana-held", "may not go above STANDBY: declared at"),
        ("ana-suspended", "is suspended"),
    ],
)
async def test_what_is_in_the_way_is_a_conflict_and_changes_nothing(
    world: WebWorld, ana: httpx.AsyncClient, name: str, words: str
) -> None:
    await world.add(
        at_rest("ana-held", 92, Phase.STANDBY, "ana", declared_state=DesiredState.STANDBY),
        at_rest("ana-suspended", 93, Phase.STANDBY, "ana", suspend=True),
    )
    before = await world.everything()
    goal = "STANDBY" if name == "ana-starting" else "RUNNING"
    answer = await ana.patch(f"{LIST}/{name}", json={"desired": goal})
    assert answer.status_code == 409
    assert words in answer.json()["detail"]
    assert answer.json()["hint"]
    assert await world.everything() == before


async def test_what_is_asked_for_already_and_held_back_is_told(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    held = at_rest("ana-held", 92, Phase.RUNNING, "ana", declared_state=DesiredState.STANDBY)
    await world.add(held)
    await change(world.conn, "ana-held", phase="STANDBY")
    answer = await ana.patch(f"{LIST}/ana-held", json={"desired": "RUNNING"})
    assert answer.status_code == 409


async def test_over_the_limit_is_a_429_with_the_facts(database_url: str, redis_url: str) -> None:
    async with web_world(database_url, redis_url, limits_max_running_per_user=1) as world:
        bob = await world.session("bob")
        answer = await bob.patch(f"{LIST}/bob-standby", json={"desired": "RUNNING"})
        assert answer.status_code == 429
        told = answer.json()
        assert (told["limit"], told["position"], told["running"]) == (1, 2, ["bob-running"])
        waits = set()
        for _ in range(20):
            again = await bob.post(f"{LIST}/bob-standby/start")
            waits.add(int(again.headers["retry-after"]))
        assert min(waits) >= 10
        assert len(waits) > 1, "all those who are one too many would come back at once"
        assert (await live(world.conn, "bob-standby")).intent.desired is DesiredState.STANDBY


async def test_a_workspace_that_changes_hands_is_gone_for_who_had_it(
    world: WebWorld, ana: httpx.AsyncClient, bob: httpx.AsyncClient
) -> None:
    await world.rows(
        "UPDATE workspaces SET owner_user_id = (SELECT id FROM users WHERE name = 'bob')"
        " WHERE name = 'ana-running'"
    )
    assert (await ana.get(f"{LIST}/ana-running")).status_code == 404
    assert "ana-running" not in await names(ana)
    assert (await bob.post(f"{LIST}/ana-running/stop")).json()["desired"] == "STANDBY"


async def test_an_operation_tells_how_far_it_is(world: WebWorld, ana: httpx.AsyncClient) -> None:
    progress = '{"stage": "downloading", "bytes": 512, "total": 2048}'
    await change(world.conn, "ana-starting", op_progress=progress)
    told = (await ana.get(f"{LIST}/ana-starting")).json()
    assert told["progress"]["part"] == 0.25
    assert "25%" in told["progress"]["words"]
