"""What the buttons do: through the rules, with who and from where in the audit, for owners only."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import UUID

import pytest

from codehub.model.access import Scope
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.workspace import Intent, Status
from codehub.proxy.notices import said
from codehub.proxy.outcome import outcome
from codehub.service.tokens import create_token
from codehub.store.events import events
from codehub.store.workspaces import find_live
from tests.integration.stored import change, live
from tests.make import NOW, workspace
from tests.proxy.own_world import Page, own_world, request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from codehub.model.workspace import Workspace
    from tests.proxy.own_world import Browser, World

pytestmark = pytest.mark.anyio

FORM = ("Content-Type", "application/x-www-form-urlencoded")


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    async with own_world(database_url) as found:
        yield found


def at(phase: Phase, name: str = "api", number: int = 1, **more: Any) -> Workspace:
    """A workspace that rests where it is."""
    desired = (
        DesiredState(phase.value) if phase.value in set(DesiredState) else DesiredState.STANDBY
    )
    status = {"phase": phase, **more.pop("status", {})}
    more.setdefault("intent", Intent(desired, IntentSource.TTL))
    return workspace(name, number=number, status=Status(**status), **more)


async def shown(world: World, browser: Browser, name: str = "api", at: str = "/w/api/lab") -> Page:
    """The page that the gate shows in place of a workspace."""
    found = await find_live(world.conn, name)
    result = outcome(found)
    assert result is not None
    head = request(
        "GET", at, ("Accept", "text/html"), ("Cookie", browser._cookies("localhost", at))
    )
    identity = await world.identities.look_up(head)
    answer = said(head, result, identity)
    assert isinstance(answer.body, bytes)
    return Page(f"http://localhost:8080{at}", answer, answer.body.decode())


async def audit(world: World, name: str = "api") -> list[tuple[str, str, str, str]]:
    found = await events(world.conn, name)
    return [(each.new, each.source, each.by, each.reason) for each in found]


FROM = "asked on a page, from 192.0.2.7"


async def test_restoring_from_the_page_of_an_archived_one(world: World) -> None:
    await world.add(at(Phase.ARCHIVED))
    browser = await world.somebody()
    page = await shown(world, browser)
    done = await browser.send(page, "Restore api")
    assert (done.status, done.headers["location"]) == (303, "/w/api/lab")
    assert (await live(world.conn, "api")).intent.desired is DesiredState.RUNNING
    assert await audit(world) == [("RUNNING", "api", "alice", FROM)]


async def test_starting_from_the_page_of_one_that_was_never_started(world: World) -> None:
    await world.add(at(Phase.PENDING))
    browser = await world.somebody()
    page = await shown(world, browser)
    assert (await browser.send(page, "Start api")).status == 303
    assert (await live(world.conn, "api")).intent.desired is DesiredState.RUNNING
    # Somebody who presses twice gets what they wanted.
    assert (await browser.send(page, "Start api")).status == 303
    assert len(await audit(world)) == 1


async def test_an_admin_may_do_it_for_others(world: World) -> None:
    await world.add(at(Phase.PENDING))
    browser = await world.somebody("bob")
    assert (await browser.send(await shown(world, browser), "Start api")).status == 303
    assert await audit(world) == [("RUNNING", "api", "bob", FROM)]


@pytest.mark.parametrize(
    ("reason", "label", "mode"),
    [
        (ErrorReason.TIMEOUT, "Try again", "plain"),
        (ErrorReason.DATA_LOST, "Take the last archive", "from-archive"),
        (ErrorReason.DATA_LOST, "Start with an empty home", "accept-empty"),
        (ErrorReason.ARCHIVE_CORRUPTED, "Try again", "plain"),
        (ErrorReason.ARCHIVE_CORRUPTED, "Start with an empty home", "accept-empty"),
    ],
)
async def test_the_ways_out_of_an_error(
    world: World, reason: ErrorReason, label: str, mode: str
) -> None:
    status = {"error_reason": reason, "error_message": "oh", "archive_key": "a/b/home.tar.zst"}
    await world.add(at(Phase.ERROR, status=status))
    browser = await world.somebody()
    page = await shown(world, browser)
    assert ("cannot be taken back" in page.text) is (reason is not ErrorReason.TIMEOUT)
    assert (await browser.send(page, label)).status == 303
    assert (await live(world.conn, "api")).intent.recover_requested == mode
    assert await audit(world) == [(mode, "api", "alice", FROM)]
    after = await shown(world, browser)
    assert "Recovery was asked for" in after.text
    assert after.forms == {}


async def test_a_recovery_that_the_rules_refuse_is_a_conflict(world: World) -> None:
    await world.add(at(Phase.STANDBY))
    browser = await world.somebody()
    page = await shown(world, browser)
    page.text = page.text.replace("</main>", FAKE.format(page_csrf(browser, page)) + "</main>")
    done = await browser.send(page, "Fake", action="recover", mode="accept-empty")
    assert done.status == 409
    assert "api is not in ERROR" in done.text
    assert (await live(world.conn, "api")).intent.recover_requested is None


FAKE = """<form action="/_codehub/do/api"><input name="csrf" value="{}">
<input name="next" value="/w/api/lab"><button>Fake</button></form>"""


def page_csrf(browser: Browser, page: Page) -> str:
    """The proof that this login's forms carry; pages without buttons have none to show."""
    head = request("GET", "/", ("Cookie", browser._cookies("localhost", "/")))
    identity = browser.world.identities.who(head)
    csrf: str = identity.csrf  # type: ignore[union-attr]
    return csrf


async def act(browser: Browser, name: str = "api", **fields: Any) -> Page:
    """A form that no page has, with everything right about it."""
    page = await browser.open("/logout")
    text = FAKE.format(page_csrf(browser, page)).replace("do/api", f"do/{name}")
    return await browser.send(Page(page.url, page.answer, text), "Fake", **fields)


async def test_what_is_busy_is_a_conflict_with_a_way_back(world: World) -> None:
    starting = {"operation": Operation.STARTING, "op_id": UUID(int=9), "op_started_at": NOW}
    await world.add(at(Phase.STANDBY, intent=Intent(DesiredState.RUNNING), status=starting))
    browser = await world.somebody()
    done = await act(browser, action="stop")
    assert done.status == 409
    assert "STARTING is under way" in done.text
    assert done.links["Back"] == "/w/api/lab"
    assert (await live(world.conn, "api")).intent.desired is DesiredState.RUNNING


async def test_what_the_specs_hold_is_a_conflict(world: World) -> None:
    await world.add(at(Phase.STANDBY, declared_state=DesiredState.STANDBY))
    done = await act(await world.somebody(), action="start")
    assert done.status == 409
    assert "may not go above STANDBY" in done.text


async def test_stopping_does_not_wake_what_is_archived(world: World) -> None:
    await world.add(at(Phase.ARCHIVED))
    assert (await act(await world.somebody(), action="stop")).status == 303
    assert (await live(world.conn, "api")).intent.desired is DesiredState.ARCHIVED


async def test_unknown_actions_and_modes_do_nothing(world: World) -> None:
    await world.add(at(Phase.PENDING))
    browser = await world.somebody()
    for fields in ({"action": "delete"}, {"action": ""}, {"action": "recover", "mode": "x"}, {}):
        assert (await act(browser, **fields)).status == 400, fields
    assert await audit(world) == []


# Limits


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def is_asked_to_stop(world: World, name: str) -> bool:
    return (await live(world.conn, name)).intent.desired is DesiredState.STANDBY


def full() -> list[Workspace]:
    """As many as alice may run, and one more that she wants."""
    running = [at(Phase.RUNNING, f"w{number}", number) for number in (1, 2)]
    return [*running, at(Phase.STANDBY, "api", 3)]


async def test_one_too_many_gets_the_page_with_those_that_run(world: World) -> None:
    await world.add(*full())
    browser = await world.somebody()
    done = await act(browser, action="start")
    assert done.status == 429
    assert 10 <= int(done.headers["retry-after"]) <= 30
    assert {"Stop w1", "Stop w2", "Try again"} <= set(done.forms)
    assert "would be number 3" in done.text


def broken(name: str, number: int) -> Workspace:
    status = {"error_reason": ErrorReason.TIMEOUT, "error_message": "oh"}
    return at(Phase.ERROR, name, number, status=status, intent=Intent(DesiredState.RUNNING))


async def test_what_is_broken_is_in_nobodys_way(world: World) -> None:
    """It cannot be stopped, so nobody could make room."""
    await world.add(at(Phase.RUNNING, "w1", 1), broken("w2", 2), at(Phase.STANDBY, "api", 3))
    assert (await act(await world.somebody(), action="start")).status == 303
    assert (await live(world.conn, "api")).intent.desired is DesiredState.RUNNING


async def test_what_cannot_be_stopped_is_named_without_a_button(world: World) -> None:
    running, suspended, wanted = full()
    await world.add(running, suspended, wanted)
    await change(world.conn, "w2", suspend=True)
    browser = await world.somebody()
    page = await act(browser, action="start")
    assert page.status == 429
    assert {"Stop w1", "Try again"} <= set(page.forms)
    assert "Stop w2" not in page.forms
    assert "w2" in page.text
    assert (await act(browser, "w2", action="stop")).status == 409


async def test_making_room_waits_for_the_place_and_leads_back(world: World) -> None:
    await world.add(*full())
    browser = await world.somebody()
    page = await act(browser, action="start")
    stopping = asyncio.create_task(browser.send(page, "Stop w1"))
    await until(lambda: is_asked_to_stop(world, "w1"))
    assert not stopping.done()
    await change(world.conn, "w1", phase="STANDBY")
    done = await stopping
    assert (done.status, done.headers["location"]) == (303, "/w/api/lab")
    assert (await act(browser, action="start")).status == 303


async def test_making_room_does_not_wait_for_ever(database_url: str) -> None:
    async with own_world(database_url) as world:
        world.own._actions._patience = 0.05
        await world.add(*full())
        browser = await world.somebody()
        page = await act(browser, action="start")
        assert (await browser.send(page, "Stop w2")).status == 303
        assert (await live(world.conn, "w2")).status.phase is Phase.RUNNING


async def test_the_hub_has_a_page_to_make_room(world: World) -> None:
    await world.add(*full())
    browser = await world.somebody()
    page = await browser.open("/_codehub/limit/api")
    assert page.status == 502
    assert page.forms["Stop w1"]["fields"]["then"] == "api"
    await change(world.conn, "w1", phase="STANDBY", desired_state="STANDBY")
    room = await browser.open("/_codehub/limit/api")
    assert (room.status, room.headers["location"]) == (303, "http://api.localhost:8080/")
    assert (await browser.open("/_codehub/limit/none")).status == 404
    assert (
        (await world.browser().open("/_codehub/limit/api"))
        .headers["location"]
        .startswith("/login?next=")
    )


# Who may not


async def test_others_are_told_that_there_is_nothing(world: World) -> None:
    await world.add(at(Phase.PENDING, owner="carol"), at(Phase.PENDING, "gone", 2))
    await change(world.conn, "gone", deleted_at="2026-11-01", phase="DELETED")
    browser = await world.somebody("alice")
    answers = [await act(browser, name, action="start") for name in ("api", "gone", "never")]
    assert [each.status for each in answers] == [404, 404, 404]
    pages = {each.text.replace(each.url, "") for each in answers}
    assert len(pages) == 1, "whether it exists must not show"
    assert (await live(world.conn, "api")).intent.desired is DesiredState.STANDBY


async def test_another_sites_form_does_nothing(world: World) -> None:
    await world.add(at(Phase.PENDING))
    browser = await world.somebody()
    page = await shown(world, browser)
    forged = [
        {"Origin": "http://evil.test", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://api.localhost:8080", "Sec-Fetch-Site": "same-site"},
        {"Origin": "null", "Sec-Fetch-Site": ""},
        {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "", "Sec-Fetch-Site": ""},
    ]
    for headers in forged:
        assert (await browser.send(page, "Start api", headers)).status == 403, headers
    for proof in ("", "0" * 64, "é"):
        assert (await browser.send(page, "Start api", csrf=proof)).status == 403, proof
    assert await audit(world) == []


async def test_a_login_that_ended_leads_to_a_new_one_and_back(world: World) -> None:
    await world.add(at(Phase.PENDING))
    browser = await world.somebody()
    page = await shown(world, browser)
    browser.jar.clear()
    done = await browser.send(page, "Start api")
    assert (done.status, done.headers["location"]) == (303, "/login?next=%2Fw%2Fapi%2Flab")
    assert await audit(world) == []


async def test_looking_does_nothing(world: World) -> None:
    answer = await world.answer(request("GET", "/_codehub/do/api?action=start"))
    assert answer is not None
    assert answer.status == 405


# Programs


async def token(world: World, *scopes: Scope) -> tuple[str, str]:
    name = "-".join(sorted(scopes))
    made = await create_token(world.conn, "alice", name, scopes, timedelta(days=1), by="alice")
    return ("Authorization", f"Bearer {made.secret}")


async def test_a_token_does_what_it_was_made_for(world: World) -> None:
    await world.add(at(Phase.PENDING))
    start = urlencode({"action": "start"}).encode()
    for scope in (Scope.READ, Scope.PLAN):
        head = request("POST", "/_codehub/do/api", FORM, await token(world, scope))
        answer = await world.answer(head, start)
        assert answer is not None
        assert answer.status == 403, scope
    head = request("POST", "/_codehub/do/api", FORM, await token(world, Scope.WAKE))
    stop = await world.answer(head, urlencode({"action": "stop"}).encode())
    assert stop is not None
    assert stop.status == 403
    done = await world.answer(head, start)
    assert done is not None
    assert done.status == 303
    assert await audit(world) == [("RUNNING", "api", "alice", "asked with a token, from 192.0.2.7")]


async def test_what_takes_the_places_is_for_those_who_may_look(world: World) -> None:
    await world.add(*full())
    for scope, status in ((Scope.WAKE, 403), (Scope.PLAN, 403), (Scope.READ, 429)):
        head = request("GET", "/_codehub/limit/api", await token(world, scope))
        answer = await world.answer(head)
        assert answer is not None
        assert isinstance(answer.body, bytes)
        assert (answer.status, b"w1" in answer.body) == (status, status == 429), scope


async def test_programs_get_problems(world: World) -> None:
    await world.add(*full())
    head = request("POST", "/_codehub/do/api", FORM, await token(world, Scope.WRITE))
    answer = await world.answer(head, urlencode({"action": "start"}).encode())
    assert answer is not None
    assert isinstance(answer.body, bytes)
    problem = json.loads(answer.body)
    assert (answer.status, problem["status"], problem["running"]) == (429, 429, ["w1", "w2"])
    nobody = await world.answer(request("POST", "/_codehub/do/api", FORM), b"action=start")
    assert nobody is not None
    assert nobody.status == 401
    assert (b"WWW-Authenticate", b'Bearer realm="codehub"') in nobody.headers


async def test_without_the_database_nothing_is_promised(world: World) -> None:
    await world.add(at(Phase.PENDING))
    browser = await world.somebody()
    page = await shown(world, browser)
    await world.conn.execute("ALTER TABLE workspaces RENAME TO away")
    done = await browser.send(page, "Start api")
    assert done.status == 503
    assert "cannot read its database" in done.text


# On a workspace's own host


async def test_on_its_own_host_a_workspace_moves_itself_and_nothing_else(world: World) -> None:
    await world.add(at(Phase.PENDING), at(Phase.PENDING, "web", 2))
    browser = await world.somebody()
    page = await browser.open("http://api.localhost:8080/_codehub/begin?next=/lab", hops=2)
    place = world.front.hosts.place(b"api.localhost:8080")
    assert place is not None
    cookie = browser._cookies("api.localhost", "/")
    head = request("GET", "/", ("Cookie", cookie), host="api.localhost:8080")
    identity = await world.identities.look_up(head, place.host)
    assert identity is not None

    async def press(name: str) -> int:
        text = FAKE.format(identity.csrf).replace("do/api", f"do/{name}")
        page = Page("http://api.localhost:8080/lab", answer, text)
        return (await browser.send(page, "Fake", action="start")).status

    answer = page.answer
    assert await press("web") == 404
    assert await press("api") == 303
    assert (await live(world.conn, "web")).intent.desired is DesiredState.STANDBY
    assert (await live(world.conn, "api")).intent.desired is DesiredState.RUNNING
