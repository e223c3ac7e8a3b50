"""`/api/v1/revisions` and `/api/v1/hub`: what was loaded, and the hub in a few figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codehub import __version__
from codehub.model.access import Scope
from codehub.model.people import Hub, Role
from codehub.model.revision import Origin
from codehub.store.hubs import write_hub
from codehub.store.revisions import record_failed
from codehub.store.users import upsert_users
from tests.integration.stored import apply
from tests.make import spec_set, user
from tests.web.web_world import API, web_world

if TYPE_CHECKING:
    import httpx

    from tests.web.web_world import WebWorld

pytestmark = pytest.mark.anyio

REVISIONS = f"{API}/revisions"
COMMIT = "9d1f6c2b7e0a4d35b8c1f2e3a4b5c6d7e8f90a1b"
CANARY = "specs/a.yaml:3: the secret line"


async def failed(world: WebWorld, number: int) -> int:
    """One more load that failed; its id."""
    made = await record_failed(
        world.conn,
        digest=f"d{number}",
        origin=Origin("specs", COMMIT, dirty=True, ref="main"),
        problems=[CANARY],
        author="watcher",
        source="watch",
    )
    return made.id


async def test_pages_hold_each_revision_once_latest_first(
    world: WebWorld, root: httpx.AsyncClient
) -> None:
    ids = [1, *[await failed(world, number) for number in range(6)]]
    seen: list[int] = []
    query: dict[str, str] = {"limit": "3"}
    while True:
        page = (await root.get(REVISIONS, params=query)).raise_for_status().json()
        assert len(page["items"]) <= 3
        seen += [each["id"] for each in page["items"]]
        if page["next"] is None:
            break
        query["cursor"] = page["next"]
        await failed(world, 100 + len(seen))  # what comes meanwhile moves nothing
    assert seen == sorted(ids, reverse=True)


async def test_a_page_that_is_just_full_is_the_last(
    world: WebWorld, root: httpx.AsyncClient
) -> None:
    await failed(world, 1)
    page = (await root.get(REVISIONS, params={"limit": 2})).json()
    assert (len(page["items"]), page["next"]) == (2, None)


async def test_one_of_them(world: WebWorld, root: httpx.AsyncClient) -> None:
    number = await failed(world, 1)
    told = (await root.get(f"{REVISIONS}/{number}")).raise_for_status().json()
    assert told["problems"] == [CANARY]
    assert (told["applied"], told["commit"], told["dirty"]) == (False, COMMIT, True)
    assert (told["ref"], told["author"], told["directory"]) == ("main", "watcher", "specs")


async def test_members_see_that_and_not_why_it_failed(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    number = await failed(world, 1)
    for path in (REVISIONS, f"{REVISIONS}/{number}"):
        told = (await ana.get(path)).raise_for_status()
        assert CANARY not in told.text
    assert told.json()["problems"] is None


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/4711", 404),
        ("/0", 422),
        ("/x", 422),
        (f"/{2**63}", 422),
        (f"/{2**63 - 1}", 404),
        ("?cursor=nonsense", 422),
        ("?cursor=" + "OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5", 422),
        ("?limit=0", 422),
        ("?limit=501", 422),
    ],
)
async def test_what_is_not_there(root: httpx.AsyncClient, path: str, status: int) -> None:
    told = await root.get(REVISIONS + path)
    assert told.status_code == status
    assert told.headers["content-type"] == "application/problem+json"


async def test_strangers_and_tokens_of_another_scope_see_nothing(
    world: WebWorld, stranger: httpx.AsyncClient
) -> None:
    waker = await world.token("root", Scope.WAKE)
    for path in (REVISIONS, f"{REVISIONS}/1", f"{API}/hub"):
        assert (await stranger.get(path)).status_code == 401
        assert (await waker.get(path)).status_code == 403


async def test_the_hub_for_admins_is_about_all(world: WebWorld, root: httpx.AsyncClient) -> None:
    await write_hub(world.conn, Hub(name="team", max_running_global=7))
    told = (await root.get(f"{API}/hub")).raise_for_status().json()
    assert (told["name"], told["version"]) == ("team", __version__)
    assert told["id"] is not None
    assert told["revision"]["id"] == 1
    # ana-pending, ana-running and ana-starting; bob-running.
    assert told["running"] == 4
    assert told["workspaces"] == {
        "PENDING": 1,
        "ARCHIVED": 2,
        "STANDBY": 4,
        "RUNNING": 2,
        "ERROR": 1,
        "DELETING": 1,
    }
    assert told["limits"] == {"perUser": 1000, "global": 7}


async def test_the_hub_for_members_is_about_theirs(bob: httpx.AsyncClient) -> None:
    told = (await bob.get(f"{API}/hub")).raise_for_status().json()
    assert told["workspaces"]["RUNNING"] == 1
    assert sum(told["workspaces"].values()) == 3
    assert told["running"] == 1


async def test_limits_are_those_that_count_for_the_caller(
    database_url: str, redis_url: str
) -> None:
    settings = {"limits_max_running_per_user": 3, "limits_max_running_global": 30}
    async with web_world(database_url, redis_url, **settings) as world:
        ana = await world.session("ana")

        async def limits() -> dict[str, int]:
            told: dict[str, int] = (await ana.get(f"{API}/hub")).json()["limits"]
            return told

        assert await limits() == {"perUser": 3, "global": 30}
        await write_hub(world.conn, Hub(max_running_per_user=4, max_running_global=0))
        assert await limits() == {"perUser": 4, "global": 0}
        await upsert_users(world.conn, [user("ana", max_running=0)])
        assert await limits() == {"perUser": 0, "global": 0}


async def test_a_hub_that_nothing_was_applied_to(database_url: str, redis_url: str) -> None:
    async with web_world(database_url, redis_url) as world:
        await world.conn.execute("DELETE FROM workspaces")
        await world.conn.execute("DELETE FROM spec_revisions")
        root = await world.session("root")
        told = (await root.get(f"{API}/hub")).json()
        assert (told["id"], told["revision"], told["running"]) == (None, None, 0)
        assert (await root.get(REVISIONS)).json() == {"items": [], "next": None}
        people = {name: user(name, role=Role.ADMIN) for name in ("root",)}
        await apply(world.conn, spec_set(users=people, digest="d2"))
        told = (await root.get(f"{API}/hub")).json()
        assert told["revision"] is not None
