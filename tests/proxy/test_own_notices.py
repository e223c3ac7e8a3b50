"""What the hub says of itself: headers, pages and problems, health, the script."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest

from codehub.model.states import DesiredState, Operation, Phase
from codehub.model.workspace import Intent
from codehub.proxy.hosts import Place
from codehub.proxy.notices import line, log_in_first, notice, problem, redirect
from codehub.proxy.outcome import MISSING, no_answer, outcome, unattended, unreadable
from codehub.render.pages import script_path
from tests.proxy.own_world import own_world, request
from tests.snapshots.page_cases import ALICE, found, queued, restoring, too_many

if TYPE_CHECKING:
    from codehub.proxy.seam import Answer, RequestHead

HTML = ("Accept", "text/html")
SOCKET = (("Connection", "Upgrade"), ("Upgrade", "websocket"))


def head(*headers: tuple[str, str], method: str = "GET", target: str = "/w/api/") -> RequestHead:
    return request(method, target, *headers)


def named(answer: Answer) -> dict[str, str]:
    return {name.decode().lower(): value.decode() for name, value in answer.headers}


def read(answer: Answer) -> str:
    assert isinstance(answer.body, bytes)
    return answer.body.decode()


ANSWERS = {
    "page": lambda: notice(head(HTML), MISSING, ALICE),
    "problem": lambda: notice(head(), MISSING, ALICE),
    "line": lambda: line(HTTPStatus.OK, "ok"),
    "error": lambda: line(HTTPStatus.FORBIDDEN, "no"),
    "redirect": lambda: redirect(b"/login"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_every_answer_has_the_same_protection(name: str) -> None:
    headers = named(ANSWERS[name]())
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "strict-origin"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]


def test_a_page_has_the_same_policy_as_its_head() -> None:
    answer = notice(head(HTML), MISSING, ALICE)
    policy = named(answer)["content-security-policy"].removesuffix("; frame-ancestors 'none'")
    assert f'content="{policy}"' in read(answer)


def test_only_pages_that_follow_may_run_the_script() -> None:
    asleep = notice(head(HTML), MISSING, ALICE)
    browser = head(HTML, ("Sec-Fetch-Mode", "navigate"))
    live = notice(browser, outcome(found(Phase.STANDBY, Operation.STARTING)) or MISSING, ALICE)
    assert "script-src" not in named(asleep)["content-security-policy"]
    assert "<script" not in read(asleep)
    assert "script-src 'self'; connect-src 'self'" in named(live)["content-security-policy"]
    assert f'<script src="{script_path()}" defer></script>' in read(live)
    assert '<noscript><meta http-equiv="refresh" content="2"></noscript>' in read(live)


@pytest.mark.parametrize("target", ["/w/api/", "/w/api/lab?file=a&b", "/"])
def test_where_browsers_do_not_say_who_asks_the_address_says_that_nobody_does(target: str) -> None:
    """By its own refresh, and by the script."""
    mark = ("&amp;" if "?" in target else "?") + "_codehub=again"
    marked = target.replace("&", "&amp;") + mark
    results = (outcome(found(Phase.STANDBY, Operation.STARTING)), unreadable(), no_answer("api"))
    for result, seconds in zip(results, ((2, 30), (5,), (5,)), strict=True):
        assert result is not None
        text = read(notice(head(HTML, target=target), result, ALICE))
        for each in seconds:
            assert f'<meta http-equiv="refresh" content="{each}; url={marked}">' in text
        assert text.count("refresh") == len(seconds)
    live = read(notice(head(HTML, target=target), results[0] or MISSING, ALICE))
    assert f'data-to="{marked}"' in live
    asleep = read(notice(head(HTML, target=target), too_many(), ALICE))
    assert "_codehub=again" not in asleep, "what a person does is a person's"


@pytest.mark.parametrize("target", ["//evil.example/", "/\\evil.example/", "/caf\xe9"])
def test_an_address_that_may_lead_elsewhere_is_asked_for_as_it_is(target: str) -> None:
    text = read(notice(head(HTML, target=target), unreadable(), ALICE))
    assert '<meta http-equiv="refresh" content="5">' in text
    assert "evil" not in text


def test_programs_get_what_a_page_says() -> None:
    answer = notice(head(("Accept", "application/json")), restoring() or MISSING, ALICE)
    assert (answer.status, named(answer)["retry-after"]) == (503, "2")
    assert named(answer)["content-type"] == "application/problem+json"
    told = json.loads(read(answer))
    assert (told["status"], told["progress"]) == (503, 0.42)
    assert told["title"] == "Restoring payments-api"


def test_a_limit_is_429_for_programs_and_not_the_same_moment_for_all() -> None:
    answers = [notice(head(), too_many(), ALICE) for _ in range(50)]
    assert {answer.status for answer in answers} == {429}
    assert json.loads(read(answers[0]))["running"] == ["web", "data-science"]
    assert len({named(answer)["retry-after"] for answer in answers}) > 1
    assert notice(head(HTML), too_many(), ALICE).status == 502


def test_a_websocket_is_told_to_come_back_later() -> None:
    answer = notice(head(*SOCKET), outcome(found(Phase.STANDBY)) or MISSING, ALICE)
    assert answer.status == 101
    assert isinstance(answer.body, bytes)
    assert answer.body[2:4] == (1013).to_bytes(2)
    assert notice(head(*SOCKET), MISSING, ALICE).status == 404


def test_whoever_sent_a_form_sees_a_page() -> None:
    form = head(HTML, ("Sec-Fetch-Mode", "navigate"), method="POST")
    assert "text/html" in named(notice(form, unreadable(), ALICE))["content-type"]
    program = head(HTML, method="POST")
    assert "problem" in named(notice(program, unreadable(), ALICE))["content-type"]


def test_fetches_and_frames_see_no_page() -> None:
    for mode in ("cors", "no-cors", "same-origin", "websocket"):
        answer = notice(head(HTML, ("Sec-Fetch-Mode", mode)), MISSING, ALICE)
        assert named(answer)["content-type"] == "application/problem+json", mode


def test_pages_without_a_login_have_no_forms() -> None:
    result = outcome(found(Phase.ARCHIVED))
    assert result is not None
    assert "<form" in read(notice(head(HTML), result, ALICE))
    assert "<form" not in read(notice(head(HTML), result, None))


def test_on_a_workspaces_host_nothing_is_done_to_others() -> None:
    place = Place("payments-api.localhost", "payments-api")
    for result in (too_many(), queued()):
        assert result is not None
        text = read(notice(head(HTML), result, ALICE, place=place))
        assert "/_codehub/do/web" not in text
        assert 'href="/_codehub/hub?to=/_codehub/limit/payments-api"' in text
        assert 'href="/_codehub/hub"' in text
        assert 'href="/logout"' not in text


def test_where_a_page_leads_back_to_is_a_path_of_this_host() -> None:
    result = outcome(found(Phase.PENDING))
    assert result is not None
    good = read(notice(head(HTML, target="/w/api/a?b=%22c"), result, ALICE))
    assert 'name="next" value="/w/api/a?b=%22c"' in good
    for target in ("//evil.test/", "/\\evil.test", '/"onfocus=x', "*"):
        text = read(notice(head(HTML, target=target), result, ALICE))
        assert "evil" not in text
        assert 'value="/"' in text or "&#34;onfocus" in text


def test_whoever_is_not_logged_in_is_shown_the_way() -> None:
    answer = log_in_first(head(HTML, target="/w/api/?a=b&c"))
    assert (answer.status, named(answer)["location"]) == (
        303,
        "/login?next=%2Fw%2Fapi%2F%3Fa%3Db%26c",
    )
    there = log_in_first(head(HTML), Place("api.localhost", "api"))
    assert named(there)["location"] == "/_codehub/begin?next=%2Fw%2Fapi%2F"
    told = log_in_first(head())
    assert told.status == 401
    assert json.loads(read(told))["detail"].startswith("log in first")


def test_what_a_problem_says_is_safe_to_read() -> None:
    answer = problem(HTTPStatus.CONFLICT, "bad \x1b[31m\u202e", title="x\x00")
    assert json.loads(read(answer)) == {
        "title": "x\\x00",
        "status": 409,
        "detail": "bad \\x1b[31m\\u202e",
    }


def test_the_database_being_away_is_a_503_that_comes_back() -> None:
    answer = notice(head(HTML), unreadable(), ALICE)
    assert (answer.status, named(answer)["retry-after"]) == (503, "2")
    assert 'http-equiv="refresh"' in read(answer)


def test_a_problem_that_is_no_workspaces_is_titled_by_its_status() -> None:
    for result in (unreadable(), unattended()):
        told = json.loads(read(notice(head(), result, ALICE)))
        assert told["title"] == "Service Unavailable"


def test_only_what_can_be_stopped_has_a_button_for_it() -> None:
    text = read(notice(head(HTML), too_many(stoppable=("web",)), ALICE))
    assert "/_codehub/do/web" in text
    assert "/_codehub/do/data-science" not in text
    assert '<span class="name">data-science</span>' in text


def test_where_nothing_can_be_stopped_nobody_is_sent_to_the_hub_for_it() -> None:
    place = Place("payments-api.localhost", "payments-api")
    text = read(notice(head(HTML), too_many(stoppable=()), ALICE, place=place))
    assert "/_codehub/limit/" not in text
    assert "Try again" in text


def test_a_queue_shows_the_place_and_those_that_run() -> None:
    result = queued()
    assert result is not None
    text = read(notice(head(HTML), result, ALICE))
    assert "It is number 1 in the queue." in text
    assert text.count("/_codehub/do/") == 2
    assert notice(head(), result, ALICE).status == 429


def test_what_is_on_its_way_down_is_not_promised_to_come_back() -> None:
    """Only a visit brings it back, or somebody who asked already."""
    stopping = outcome(found(Phase.RUNNING, Operation.STOPPING))
    asked = outcome(found(Phase.RUNNING, Operation.STOPPING, intent=Intent(DesiredState.RUNNING)))
    assert stopping is not None
    assert asked is not None
    assert stopping.resting is not None
    assert stopping.resting.message == "It is being stopped."
    assert asked.resting is None


# Addresses that need nobody


@pytest.mark.anyio
async def test_health_readiness_and_the_script(database_url: str) -> None:
    async with own_world(database_url) as world:
        health = await world.answer(request("GET", "/healthz"))
        ready = await world.answer(request("GET", "/readyz"))
        assert health is not None
        assert ready is not None
        assert (health.status, health.body, ready.status) == (200, b"ok\n", 200)
        script = await world.answer(request("GET", script_path()))
        assert script is not None
        assert b"EventSource" in script.body  # type: ignore[operator]
        assert "immutable" in named(script)["cache-control"]
        older = await world.answer(request("GET", "/_codehub/pages.0123456789abcdef.js"))
        assert older is not None
        assert older.body == script.body
        assert named(older)["cache-control"] == "no-store"
        assert await world.answer(request("GET", "/_codehub/other")) is None
        assert await world.answer(request("GET", "/w/api/login")) is None
        world.own.drain()
        leaving = await world.answer(request("GET", "/readyz"))
        assert leaving is not None
        assert leaving.status == 503


@pytest.mark.anyio
async def test_a_database_that_is_away_does_not_take_proxies_out_of_service(
    database_url: str,
) -> None:
    async with own_world(database_url) as world:
        await world.conn.execute("ALTER TABLE workspaces RENAME TO away")
        ready = await world.answer(request("GET", "/readyz"))
        assert ready is not None
        assert ready.status == 200
