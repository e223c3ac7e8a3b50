"""From the hub's login to a workspace's own host: once, in one browser, on one host."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.auth.people import PASSWORD
from tests.proxy.own_world import own_world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.proxy.own_world import World

pytestmark = pytest.mark.anyio

HOME = "http://api.localhost:8080"
HUB = "http://localhost:8080"


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    async with own_world(database_url) as found:
        yield found


async def test_the_whole_way_for_somebody_who_is_logged_in(world: World) -> None:
    browser = await world.somebody()
    begun = await browser.open(f"{HOME}/_codehub/begin?next=/lab%3Fa")
    assert begun.headers["location"].startswith(f"{HUB}/_codehub/handover?name=api&state=")
    handed = await browser.open(begun.headers["location"])
    assert handed.headers["location"].startswith(f"{HOME}/_codehub/enter?code=")
    arrived = await browser.open(handed.headers["location"])
    assert (arrived.status, arrived.headers["location"]) == (303, "/lab?a")
    assert ("api.localhost", "/", "codehub") in browser.jar
    assert ("api.localhost", "/_codehub/", "codehub-state") not in browser.jar
    again = await browser.open(f"{HOME}/_codehub/begin?next=/x")
    assert again.headers["location"] == "/x", "known here already"


async def test_who_is_not_logged_in_does_that_on_the_way(world: World) -> None:
    browser = world.browser()
    begun = await browser.open(f"{HOME}/_codehub/begin?next=/lab")
    sent = await browser.open(begun.headers["location"])
    assert sent.headers["location"].startswith("/login?next=%2F_codehub%2Fhandover")
    form = await browser.open(HUB + sent.headers["location"])
    assert "form-action 'self' http://*.localhost:8080" in form.headers["content-security-policy"]
    done = await browser.send(form, "Log in", name="alice", password=PASSWORD)
    page = await browser.open(HUB + done.headers["location"])
    arrived = await browser.open(page.headers["location"])
    assert arrived.headers["location"] == "/lab"
    assert ("api.localhost", "/", "codehub") in browser.jar


async def test_neither_address_of_the_way_is_worth_anything_to_another(world: World) -> None:
    mine, theirs = await world.somebody(), world.browser()
    begun = await mine.open(f"{HOME}/_codehub/begin?next=/")
    state = parse_qs(urlsplit(begun.headers["location"]).query)["state"][0]
    assert mine.jar[("api.localhost", "/_codehub/", "codehub-state")] != state
    handed = await mine.open(begun.headers["location"])
    stolen = await theirs.open(handed.headers["location"])
    assert stolen.status == 403
    assert theirs.jar == {}
    assert "could not be logged in" in stolen.text


async def test_nobody_is_logged_in_with_the_code_of_another(world: World) -> None:
    """Somebody sends a link with a code of theirs: it is bound to their browser."""
    attacker, victim = await world.somebody("bob"), world.browser()
    begun = await attacker.open(f"{HOME}/_codehub/begin?next=/")
    handed = await attacker.open(begun.headers["location"])
    await victim.open(f"{HOME}/_codehub/begin?next=/")
    page = await victim.open(handed.headers["location"])
    assert page.status == 403
    assert ("api.localhost", "/", "codehub") not in victim.jar


async def test_a_state_that_a_neighbour_slipped_in_is_not_used(world: World) -> None:
    attacker, victim = await world.somebody("bob"), world.browser()
    begun = await attacker.open(f"{HOME}/_codehub/begin?next=/")
    handed = await attacker.open(begun.headers["location"])
    await victim.open(f"{HOME}/_codehub/begin?next=/")
    slipped = attacker.jar[("api.localhost", "/_codehub/", "codehub-state")]
    victim.jar[("api.localhost", "/_codehub", "codehub-state")] = slipped
    assert (await victim.open(handed.headers["location"])).status == 403
    assert ("api.localhost", "/", "codehub") not in victim.jar


async def test_a_code_is_for_one_host_and_once(world: World) -> None:
    browser = await world.somebody()
    begun = await browser.open(f"{HOME}/_codehub/begin?next=/")
    handed = await browser.open(begun.headers["location"])
    elsewhere = handed.headers["location"].replace("api.", "web.")
    browser.jar[("web.localhost", "/_codehub/", "codehub-state")] = browser.jar[
        ("api.localhost", "/_codehub/", "codehub-state")
    ]
    assert (await browser.open(elsewhere)).status == 403
    assert (await browser.open(handed.headers["location"])).status == 403, "used up elsewhere"
    assert await world.hub.rows("SELECT 1 FROM sessions WHERE host <> ''") == []


async def test_two_tabs_arrive_both(world: World) -> None:
    browser = await world.somebody()
    first = await browser.open(f"{HOME}/_codehub/begin?next=/a")
    second = await browser.open(f"{HOME}/_codehub/begin?next=/b")
    ways = [await browser.open(each.headers["location"]) for each in (first, second)]
    one = await browser.open(ways[0].headers["location"])
    two = await browser.open(ways[1].headers["location"])
    assert (one.headers["location"], two.headers["location"]) == ("/a", "/b")


async def test_logging_out_of_the_hub_ends_the_login_on_the_host(world: World) -> None:
    browser = await world.somebody()
    await browser.open(f"{HOME}/_codehub/begin?next=/", hops=2)
    rows = await world.hub.rows("SELECT host FROM sessions ORDER BY created_at")
    assert [row["host"] for row in rows] == ["", "api.localhost"]
    browser.at = HUB + "/"
    await browser.send(await browser.open("/logout"), "Log out")
    rows = await world.hub.rows("SELECT revoked_at FROM sessions")
    assert all(row["revoked_at"] for row in rows)


HOSTILE = (
    "/_codehub/handover?name=api",
    "/_codehub/handover?name=api&state=x",
    "/_codehub/handover?name=evil.test/&state=" + "0" * 64,
    "/_codehub/handover?name=a@evil&state=" + "0" * 64,
    "/_codehub/handover?name=a%0d%0aX&state=" + "0" * 64,
)


async def test_a_handover_leads_to_workspaces_of_this_hub_only(world: World) -> None:
    browser = await world.somebody()
    for target in HOSTILE:
        assert (await browser.open(HUB + target)).status == 404, target
    good = "/_codehub/handover?name=api&state=" + "0" * 64
    for wanted in ("//evil.test", "https://evil.test", "/\\evil.test"):
        page = await browser.open(f"{HUB}{good}&next={wanted}")
        assert page.headers["location"].startswith(f"{HOME}/_codehub/enter?code=")
        assert page.headers["location"].endswith("&next=%2F")


async def test_the_way_to_the_hub_leads_nowhere_else(world: World) -> None:
    browser = world.browser()
    page = await browser.open(f"{HOME}/_codehub/hub?to=/_codehub/limit/api")
    assert page.headers["location"] == f"{HUB}/_codehub/limit/api"
    for target in ("//evil.test", "@evil.test", ".evil.test", ""):
        page = await browser.open(f"{HOME}/_codehub/hub?to={target}")
        assert page.headers["location"] == f"{HUB}/", target


async def test_the_hub_knows_where_each_workspace_is(world: World, database_url: str) -> None:
    page = await world.browser().open(f"{HUB}/_codehub/go/api")
    assert (page.status, page.headers["location"]) == (303, f"{HOME}/")
    for name in ("a.evil.test", "a@b", "A", "-a", "a%0d"):
        with pytest.raises(AssertionError, match="not ours"):
            await world.browser().open(f"{HUB}/_codehub/go/{name}")
    async with own_world(database_url, proxy_public_url="http://hub.test") as plain:
        page = await plain.browser(at="http://hub.test/").open("/_codehub/go/api")
        assert page.headers["location"] == "/w/api/"


async def test_everything_else_on_a_workspaces_host_is_the_workspaces(world: World) -> None:
    for path in ("/login", "/logout", "/healthz", "/readyz", "/", "/_codehub/handover"):
        with pytest.raises(AssertionError, match="not ours"):
            await world.browser().open(f"{HOME}{path}")
    for path in ("/_codehub/begin", "/_codehub/enter"):
        with pytest.raises(AssertionError, match="not ours"):
            await world.browser().open(f"{HUB}{path}")


async def test_behind_a_public_name_everything_is_https_there(database_url: str) -> None:
    settings = {
        "proxy_public_url": "https://hub.example.com",
        "proxy_workspace_domain": "ws.example.com",
    }
    async with own_world(database_url, **settings) as world:
        browser = world.browser(secure=True, at="https://hub.example.com/")
        page = await browser.open("/login")
        assert (
            "form-action 'self' https://*.ws.example.com" in page.headers["content-security-policy"]
        )
        await browser.send(page, "Log in", name="alice", password=PASSWORD)
        begun = await browser.open("https://api.ws.example.com/_codehub/begin?next=/lab")
        assert begun.headers["location"].startswith("https://hub.example.com/_codehub/handover?")
        handed = await browser.open(begun.headers["location"])
        assert handed.headers["location"].startswith("https://api.ws.example.com/_codehub/enter?")
        assert ("api.ws.example.com", "/", "__Host-codehub-state") in browser.jar
        await browser.open(handed.headers["location"])
        assert ("api.ws.example.com", "/", "__Host-codehub") in browser.jar
        assert ("api.ws.example.com", "/", "__Host-codehub-state") not in browser.jar
