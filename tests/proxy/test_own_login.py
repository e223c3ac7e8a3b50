"""Coming in and going out: the form, the one-time link, logging out, and those who try to cheat."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from codehub.service.links import create_login_link
from codehub.store.access import access_events
from tests.auth.people import PASSWORD
from tests.proxy.own_world import own_world, request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.proxy.own_world import Browser, World

pytestmark = pytest.mark.anyio

SESSION = ("localhost", "/", "codehub")


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    async with own_world(database_url) as found:
        yield found


async def events(world: World) -> list[tuple[str, str, str]]:
    return [(e.kind.value, e.user, e.address) for e in await access_events(world.conn)]


# Name and password


async def test_a_login_leads_to_where_one_wanted_to_go(world: World) -> None:
    browser = world.browser()
    page = await browser.open("/login?next=/w/api/lab%3Fa%3D1")
    assert page.status == 200
    done = await browser.send(page, "Log in", name="alice", password=PASSWORD)
    assert (done.status, done.headers["location"]) == (303, "/w/api/lab?a=1")
    assert SESSION in browser.jar
    assert await events(world) == [("login", "alice", "192.0.2.7")]


async def test_the_session_cookie_is_for_this_host_alone_and_no_script(world: World) -> None:
    browser = world.browser()
    page = await browser.open("/login")
    done = await browser.send(page, "Log in", name="alice", password=PASSWORD)
    cookies = [value.decode() for name, value in done.answer.headers if name == b"Set-Cookie"]
    assert "; Path=/; " in cookies[0]
    assert "HttpOnly; SameSite=Lax" in cookies[0]
    assert "Domain" not in "".join(cookies)


async def test_with_tls_the_cookie_has_the_safe_name(world: World) -> None:
    browser = world.browser(secure=True, at="https://localhost/")
    page = await browser.open("/login")
    done = await browser.send(page, "Log in", name="alice", password=PASSWORD)
    assert done.status == 303
    assert ("localhost", "/", "__Host-codehub") in browser.jar


async def test_whoever_is_logged_in_is_not_asked_again(world: World) -> None:
    browser = await world.somebody()
    page = await browser.open("/login?next=/w/api/")
    assert (page.status, page.headers["location"]) == (303, "/w/api/")


async def test_a_second_login_ends_the_first_one(world: World) -> None:
    browser = world.browser()
    page = await browser.open("/login")
    await browser.send(page, "Log in", name="alice", password=PASSWORD)
    old = browser.jar[SESSION]
    # The form was open in another tab all along.
    browser.jar[("localhost", "/login", "codehub-login")] = page.forms["Log in"]["fields"]["csrf"]
    await browser.send(page, "Log in", name="bob", password="another password")
    assert browser.jar[SESSION] != old
    rows = await world.hub.rows(
        "SELECT revoked_at IS NULL AS lives FROM sessions ORDER BY created_at"
    )
    assert [row["lives"] for row in rows] == [False, True]


async def test_a_wrong_login_says_nothing_of_what_was_wrong(world: World) -> None:
    browser = world.browser()
    page = await browser.open("/login")
    for name in ("alice", "nobody", "carol", "", "a\x00b", "x" * 5000):
        done = await browser.send(page, "Log in", name=name, password="no-such-password")
        assert done.status == 403
        assert "Name or password is wrong." in done.text
        assert "no-such-password" not in done.text
    assert SESSION not in browser.jar


async def test_after_a_slip_the_form_works_again_and_keeps_the_name(world: World) -> None:
    browser = world.browser()
    page = await browser.open("/login?next=/w/api/")
    slip = await browser.send(page, "Log in", name="alice", password="wrong")
    assert slip.forms["Log in"]["fields"]["name"] == "alice"
    assert "password" in slip.forms["Log in"]["fields"]
    assert not slip.forms["Log in"]["fields"]["password"]
    done = await browser.send(slip, "Log in", password=PASSWORD)
    assert (done.status, done.headers["location"]) == (303, "/w/api/")


async def test_too_many_tries_are_told_to_wait_and_for_how_long(world: World) -> None:
    browser = world.browser()
    page = await browser.open("/login")
    for _ in range(6):
        last = await browser.send(page, "Log in", name="alice", password="wrong")
    assert last.status == 429
    assert 3000 < int(last.headers["retry-after"]) <= 3600
    assert "Too many failed logins" in last.text
    even_right = await browser.send(page, "Log in", name="alice", password=PASSWORD)
    assert even_right.status == 429


async def test_without_the_database_logins_get_a_clear_503(world: World) -> None:
    browser = world.browser()
    page = await browser.open("/login")
    await world.conn.execute("ALTER TABLE login_failures RENAME TO away")
    done = await browser.send(page, "Log in", name="alice", password=PASSWORD)
    assert done.status == 503
    assert done.headers["retry-after"]
    assert "cannot reach its database" in done.text


HOSTILE = (
    *("//evil.test/", "/\\evil.test", "https://evil.test/", "\t//evil.test", "/a\nb"),
    *("javascript:x", "/%0d%0aX: y\r\n", "evil.test", "\\\\evil.test", "///evil.test"),
)


async def test_a_login_leads_nowhere_else(world: World) -> None:
    for target in HOSTILE:
        browser = world.browser()
        page = await browser.open("/login")
        done = await browser.send(page, "Log in", name="alice", password=PASSWORD, next=target)
        assert done.headers["location"] == "/", target


# Forms that are not ours


async def other_sites(browser: Browser) -> list[dict[str, str]]:
    return [
        {"Origin": "http://evil.test", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://api.localhost:8080", "Sec-Fetch-Site": "same-site"},
        {"Origin": "null", "Sec-Fetch-Site": ""},
        {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "http://localhost", "Sec-Fetch-Site": ""},
        {"Origin": "https://localhost:8080", "Sec-Fetch-Site": ""},
        {"Origin": "", "Sec-Fetch-Site": ""},
    ]


async def test_another_sites_form_logs_nobody_in(world: World) -> None:
    browser = world.browser()
    page = await browser.open("/login")
    for headers in await other_sites(browser):
        done = await browser.send(page, "Log in", headers, name="alice", password=PASSWORD)
        assert done.status == 403, headers
    assert SESSION not in browser.jar
    assert await events(world) == []


async def test_a_form_of_another_browser_logs_nobody_in(world: World) -> None:
    theirs = await world.browser().open("/login")
    mine = world.browser()
    await mine.open("/login")
    done = await mine.send(theirs, "Log in", name="alice", password=PASSWORD)
    assert done.status == 403
    assert "open for too long" in done.text
    without = await world.browser().send(theirs, "Log in", name="alice", password=PASSWORD)
    assert without.status == 403
    assert "keeps no cookies" in without.text


async def test_a_cookie_that_a_neighbour_slipped_in_locks_nobody_out(world: World) -> None:
    browser = world.browser()
    page = await browser.open("/login")
    browser.jar = {("localhost", "/", "codehub-login"): "B" * 43, **browser.jar}
    done = await browser.send(page, "Log in", name="alice", password=PASSWORD)
    assert done.status == 303


async def test_what_is_no_form_is_refused(world: World) -> None:
    browser = await world.somebody()
    del browser.jar[SESSION]
    page = await browser.open("/login")
    for kind in ("application/json", "text/plain", "multipart/form-data; boundary=x", ""):
        done = await browser.send(page, "Log in", {"Content-Type": kind}, name="alice")
        assert done.status == 415, kind
    twice = await world.answer(
        request("POST", "/login", ("Content-Type", "application/x-www-form-urlencoded")),
        b"name=a&name=b",
    )
    assert twice is not None
    assert twice.status == 400
    garbage = await world.answer(
        request("POST", "/login", ("Content-Type", "application/x-www-form-urlencoded")),
        b"name=%ff\xff",
    )
    assert garbage is not None
    assert garbage.status == 400


async def test_other_methods_are_told_what_there_is(world: World) -> None:
    for path in ("/login", "/login/link", "/logout"):
        answer = await world.answer(request("PUT", path))
        assert answer is not None
        assert answer.status == 405
        assert (b"Allow", b"GET, POST") in answer.headers
        assert isinstance(answer.body, bytes)
        assert b"this address can only be asked with GET, POST" in answer.body


async def test_programs_get_problems(world: World) -> None:
    answer = await world.answer(
        request(
            "POST",
            "/login",
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Accept", "application/json"),
        ),
        b"name=alice&password=x",
    )
    assert answer is not None
    assert isinstance(answer.body, bytes)
    assert (b"Content-Type", b"application/problem+json") in answer.headers
    assert json.loads(answer.body)["status"] == 403


# The one-time link


async def link_of(world: World, user: str = "carol") -> str:
    return await create_login_link(world.conn, user, by="root")


async def test_a_link_logs_in_once(world: World) -> None:
    code = await link_of(world)
    browser = world.browser()
    page = await browser.open(f"/login/link?code={code}&next=/w/api/")
    done = await browser.send(page, "Continue")
    assert (done.status, done.headers["location"]) == (303, "/w/api/")
    other = world.browser()
    again = await other.send(await other.open(f"/login/link?code={code}"), "Continue")
    assert again.status == 410
    assert "<code>codehub open --as NAME</code>" in again.text
    assert SESSION not in other.jar


async def test_looking_at_a_link_does_not_use_it_up(world: World) -> None:
    code = await link_of(world)
    for agent in ("Slackbot-LinkExpanding 1.0", "Googlebot", "Firefox"):
        for _ in range(2):
            page = await world.browser(agent=agent).open(f"/login/link?code={code}")
            assert page.status == 200
    assert await world.hub.rows("SELECT user_id FROM sessions") == []
    assert "script" not in page.text.lower().replace("description", "")
    browser = world.browser()
    done = await browser.send(await browser.open(f"/login/link?code={code}"), "Continue")
    assert done.status == 303


async def test_a_link_of_somebody_else_replaces_the_login(world: World) -> None:
    browser = await world.somebody("alice")
    page = await browser.open(f"/login/link?code={await link_of(world, 'bob')}")
    assert (await browser.send(page, "Continue")).status == 303
    lives = await world.hub.rows(
        "SELECT u.name FROM sessions s JOIN users u ON u.id = s.user_id WHERE revoked_at IS NULL"
    )
    assert [row["name"] for row in lives] == ["bob"]


async def test_a_link_that_is_none_lets_nobody_in(world: World) -> None:
    browser = world.browser()
    for code in ("", "short", "x" * 44, "../../etc", "%00", "A" * 43):
        page = await browser.open(f"/login/link?code={code}")
        if page.status == 200:
            page = await browser.send(page, "Continue")
        assert page.status == 410, code
        assert page.links["Log in with a password"] == "/login"
    assert SESSION not in browser.jar


async def test_another_sites_form_redeems_no_link(world: World) -> None:
    code = await link_of(world)
    browser = world.browser()
    page = await browser.open(f"/login/link?code={code}")
    for headers in await other_sites(browser):
        assert (await browser.send(page, "Continue", headers)).status == 403, headers
    assert (await browser.send(page, "Continue")).status == 303


# Going out


async def test_logging_out_ends_the_session_everywhere(world: World) -> None:
    browser = await world.somebody()
    page = await browser.open("/logout")
    assert "Log out?" in page.text
    done = await browser.send(page, "Log out")
    assert (done.status, done.headers["location"]) == (303, "/logout")
    assert SESSION not in browser.jar
    after = await browser.open("/logout")
    assert "You are logged out." in after.text
    assert after.links["Log in again"] == "/login"
    assert ("logout", "alice", "192.0.2.7") in await events(world)
    rows = await world.hub.rows("SELECT revoked_at FROM sessions")
    assert all(row["revoked_at"] for row in rows)


async def test_another_sites_form_logs_nobody_out(world: World) -> None:
    browser = await world.somebody()
    page = await browser.open("/logout")
    for headers in await other_sites(browser):
        assert (await browser.send(page, "Log out", headers)).status == 403, headers
    told = await browser.send(page, "Log out", csrf="0" * 64)
    assert told.status == 403
    assert '<a class="button" href="/logout">Open the page again</a>' in told.text
    other = await world.somebody("bob")
    assert (await other.send(page, "Log out")).status == 403, "a proof of alice's login"
    assert (await browser.open("/login")).status == 303, "still logged in"


async def test_no_address_ever_answers_with_a_secret(world: World) -> None:
    """The session's id is in one Set-Cookie header and nowhere else."""
    browser = await world.somebody()
    secret = browser.jar[SESSION]
    for path in ("/login", "/logout", "/healthz", "/_codehub/hub", "/login/link?code=x"):
        page = await browser.open(path)
        assert secret not in page.text + str(page.headers)
