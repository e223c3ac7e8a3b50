"""What the dashboard's forms do where no script helps, and that they do it for nobody else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from codehub.model.events import EventKind
from codehub.model.states import Phase
from codehub.store.events import events
from codehub.web.app import create_app
from tests.integration.stored import change, live
from tests.web.browsing import NAVIGATION, follow, look, press, send
from tests.web.web_world import at_rest, web_world

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import httpx

    from codehub.model.workspace import Workspace
    from tests.web.web_world import WebWorld

pytestmark = pytest.mark.anyio

DO = "/workspaces/{}/do"


async def csrf(client: httpx.AsyncClient) -> str:
    token: str = (await client.get("/api/v1/me")).json()["csrf"]
    return token


@pytest.mark.parametrize(
    ("name", "label", "desired", "said"),
    [
        ("ana-standby", "Start", "RUNNING", "ana-standby is being started."),
        ("ana-running", "Stop", "STANDBY", "ana-running is being stopped."),
        ("ana-running", "Archive", "ARCHIVED", "ana-running is being archived."),
        ("ana-archived", "Restore", "RUNNING", "ana-archived is being restored."),
        ("ana-orphan", "Delete", "DELETED", "ana-orphan is being deleted."),
    ],
)
async def test_a_button_moves_its_workspace_and_says_so_where_it_was_pressed(
    world: WebWorld, ana: httpx.AsyncClient, name: str, label: str, desired: str, said: str
) -> None:
    page = await look(ana, "/?q=ana")
    answer = await press(ana, page, f"{label} {name}")
    assert answer.headers["location"].startswith("/?q=ana&")
    there = await follow(ana, answer)
    assert said in there.words
    moved = (await live(world.conn, name)).intent
    assert (moved.desired.value, moved.by, moved.source.value) == (desired, "ana", "api")
    (audit,) = await world.rows(
        "SELECT reason FROM workspace_events WHERE workspace_name = %s AND kind = 'desired'", name
    )
    assert audit["reason"] == "asked on a page, from 127.0.0.1"


async def test_recovery_is_asked_for_as_the_button_says(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    page = await look(ana, "/workspaces/ana-error")
    there = await follow(ana, await press(ana, page, "Try again ana-error"))
    assert "The hub tries again to bring ana-error up." in there.words
    assert there.forms("Try again ana-error") == [], "it is asked for"
    assert (await live(world.conn, "ana-error")).intent.recover_requested == "plain"


async def test_lost_data_is_given_up_only_by_that_button(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    await change(world.conn, "ana-error", error_reason="DataLost")
    page = await look(ana, "/workspaces/ana-error")
    assert page.forms("Try again ana-error") == []
    await press(ana, page, "Start with an empty home ana-error")
    assert (await live(world.conn, "ana-error")).intent.recover_requested == "accept-empty"


async def test_still_working_counts_as_activity(world: WebWorld, ana: httpx.AsyncClient) -> None:
    before = (await live(world.conn, "ana-running")).activity
    page = await look(ana, "/workspaces/ana-running")
    there = await follow(ana, await press(ana, page, "Still working ana-running"))
    assert "counts as in use from now" in there.words
    after = (await live(world.conn, "ana-running")).activity
    assert after.source == "touch"
    said = (await events(world.conn, "ana-running"))[-1]
    assert (said.kind, said.by) == (EventKind.TOUCH, "ana")
    assert said.reason.startswith("asked on a page, from ")
    assert after.last_access_at is not None
    assert before.last_access_at is not None
    assert after.last_access_at > before.last_access_at


async def test_after_a_deletion_one_is_not_sent_back_to_what_is_going(
    ana: httpx.AsyncClient,
) -> None:
    page = await look(ana, "/workspaces/ana-orphan")
    answer = await press(ana, page, "Delete ana-orphan")
    assert answer.headers["location"] == "/?did=delete&to=ana-orphan"


ACTIONS = ["start", "stop", "archive", "restore", "delete", "recover", "recover-empty", "touch"]


async def test_nobody_moves_what_is_somebody_elses(world: WebWorld, ana: httpx.AsyncClient) -> None:
    before, proof = await world.everything(), await csrf(ana)
    for action in ACTIONS:
        theirs = await send(ana, DO.format("bob-running"), csrf=proof, action=action)
        none = await send(ana, DO.format("nobodys"), csrf=proof, action=action)
        assert theirs.status == none.status == 404
        assert theirs.text == none.text
    assert await world.everything() == before


PATHS = [DO.format("ana-running"), "/tokens", "/tokens/revoke"]


@pytest.mark.parametrize(
    "case", ["no proof", "another's proof", "another origin", "no origin", "cross-site"]
)
async def test_another_sites_page_changes_nothing(
    world: WebWorld, ana: httpx.AsyncClient, bob: httpx.AsyncClient, case: str
) -> None:
    before, proof = await world.everything(), await csrf(ana)
    fields = {"csrf": proof, "action": "stop", "name": "x", "read": "1"}
    headers = {**NAVIGATION, "X-CSRF-Token": ""}
    match case:
        case "no proof":
            del fields["csrf"]
        case "another's proof":
            fields["csrf"] = await csrf(bob)
        case "another origin":
            headers["Origin"] = "http://ana-running.localhost"
        case "no origin":
            headers |= {"Origin": "null", "Sec-Fetch-Site": "none"}
        case "cross-site":
            headers["Sec-Fetch-Site"] = "same-site"
    for path in PATHS:
        answer = await ana.post(path, data=fields, headers=headers)
        assert answer.status_code == 403
        assert "nothing was done" in answer.text
    assert await world.everything() == before
    assert await world.rows("SELECT id FROM api_tokens") == []


async def test_a_form_that_is_none_is_refused(world: WebWorld, ana: httpx.AsyncClient) -> None:
    before, path = await world.everything(), DO.format("ana-running")
    proof = await csrf(ana)
    big = await send(ana, path, csrf=proof, action="stop", more="x" * 20_000)
    assert big.status == 413
    twice = await ana.post(
        path,
        content=f"csrf={proof}&action=stop&action=archive",
        headers={**NAVIGATION, "Content-Type": "application/x-www-form-urlencoded"},
    )
    assert twice.status_code == 400
    json = await ana.post(path, json={"csrf": proof, "action": "stop"}, headers=NAVIGATION)
    assert json.status_code == 415
    odd = await send(ana, path, csrf=proof, action="explode")
    assert odd.status == 422
    assert "There is no such button" in odd.words
    assert await world.everything() == before


async def test_whose_login_has_ended_changes_nothing(
    world: WebWorld, stranger: httpx.AsyncClient
) -> None:
    before = await world.everything()
    answer = await send(stranger, DO.format("ana-running"), csrf="x", action="stop")
    assert answer.status == 401
    assert await world.everything() == before


@pytest.mark.parametrize("back", ["//evil.example", "/\\evil.example", "https://evil.example", ""])
async def test_one_is_led_back_within_the_hub_only(ana: httpx.AsyncClient, back: str) -> None:
    proof = await csrf(ana)
    answer = await send(ana, DO.format("ana-running"), csrf=proof, action="touch", next=back)
    assert answer.headers["location"] == "/?did=touch&to=ana-running"


async def test_what_the_rules_refuse_is_told_with_a_way_back(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    before, proof = await world.everything(), await csrf(ana)
    busy = await send(
        ana, DO.format("ana-starting"), csrf=proof, action="archive", next="/?q=start"
    )
    assert busy.status == 409
    assert "That is not possible" in busy.words
    assert 'href="/?q=start"' in busy.text
    error = await send(ana, DO.format("ana-error"), csrf=proof, action="start")
    assert error.status == 409
    assert "ana-error is in ERROR (RetryExceeded)." in error.words, "a name has no capital letter"
    assert "What to do: Its own page says what happened" in error.words
    assert "codehub" not in error.words
    assert await world.everything() == before


async def test_what_the_specs_declare_is_refused_as_the_api_refuses_it(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    before, proof = await world.everything(), await csrf(ana)
    page = await send(ana, DO.format("ana-standby"), csrf=proof, action="delete")
    told = await ana.delete("/api/v1/workspaces/ana-standby")
    assert (page.status, told.status_code) == (409, 409)
    assert "What to do: Remove it from workspaces.yaml " in page.words
    assert "'codehub apply'" in told.json()["hint"]
    assert await world.everything() == before


async def test_where_a_limit_is_in_the_way_there_are_buttons_to_make_room(
    database_url: str, redis_url: str
) -> None:
    async with web_world(database_url, redis_url, limits_max_running_per_user=2) as world:
        await world.add(
            at_rest("bob-second", 31, Phase.RUNNING, "bob"),
            at_rest("bob-third", 32, Phase.STANDBY, "bob"),
        )
        bob = await world.session("bob")
        page = await look(bob, "/?q=third")
        limit = await press(bob, page, "Start bob-third")
        assert limit.status == 429
        assert "bob-third cannot start yet" in limit.words
        assert " bob may run 2 at once" in limit.words
        assert (await live(world.conn, "bob-third")).intent.desired.value == "STANDBY"

        # It counts as gone once it has stopped, which nobody but a coordinator does.
        await change(world.conn, "bob-second", phase="STANDBY")
        answer = await press(bob, limit, "Stop bob-second")
        there = await follow(bob, answer)
        assert there.rows == ["bob-third"], "one is back where one came from"
        assert "bob-third is being started." in there.words
        assert (await live(world.conn, "bob-second")).intent.desired.value == "STANDBY"
        assert (await live(world.conn, "bob-third")).intent.desired.value == "RUNNING"


async def test_what_is_broken_or_suspended_is_no_button_to_make_room(
    database_url: str, redis_url: str
) -> None:
    async with web_world(database_url, redis_url, limits_max_running_per_user=2) as world:
        await world.add(
            at_rest("bob-second", 31, Phase.RUNNING, "bob", suspend=True),
            at_rest("bob-third", 32, Phase.STANDBY, "bob"),
        )
        bob = await world.session("bob")
        limit = await press(bob, await look(bob, "/?q=third"), "Start bob-third")
        assert limit.status == 429
        assert len(limit.forms("Stop bob-running")) == 1
        assert limit.forms("Stop bob-second") == []
        assert "bob-second" in limit.words

        await change(world.conn, "bob-second", phase="ERROR", error_reason="Timeout")
        await follow(bob, await press(bob, limit, "Try again"))
        assert (await live(world.conn, "bob-third")).intent.desired.value == "RUNNING"


async def test_a_token_is_made_shown_once_and_revoked(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    page = await look(ana, "/tokens")
    assert "You have none" in page.words
    made = await press(ana, page, "Make the token", name="ci-plan", read="1", plan="1", days="30")
    assert made.status == 200
    secret = made.text.partition('data-part="secret">')[2].partition("<")[0]
    assert made.headers["cache-control"] == "no-store"
    program = await world.anonymous(Authorization=f"Bearer {secret}")
    me = (await program.get("/api/v1/me")).json()
    assert (me["name"], me["scopes"]) == ("ana", ["plan", "read"])

    again = await look(ana, "/tokens")
    assert secret not in again.text
    assert "ci-plan plan read" in again.words
    there = await follow(ana, await press(ana, again, "Revoke ci-plan"))
    assert "The token ci-plan is revoked." in there.words
    assert await world.rows("SELECT id FROM api_tokens WHERE revoked_at IS NULL") == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": "ci"}, "A token needs a scope"),
        ({"name": "Not a name", "read": "1"}, "small letters, digits and hyphens"),
        ({"name": "<b>", "read": "1"}, "small letters, digits and hyphens"),
        ({"name": "there", "read": "1"}, "There is a token"),
    ],
)
async def test_a_token_that_cannot_be_had_keeps_what_was_filled_in(
    world: WebWorld, ana: httpx.AsyncClient, fields: dict[str, str], said: str
) -> None:
    page = await look(ana, "/tokens")
    await press(ana, page, "Make the token", name="there", read="1")
    refused = await press(ana, page, "Make the token", **{"name": "", **fields})
    assert refused.status == 409
    assert said in refused.words
    assert "<b>" not in refused.text.partition("<form")[0]
    assert len(await world.rows("SELECT id FROM api_tokens")) == 1


async def test_one_revokes_only_ones_own(
    world: WebWorld, ana: httpx.AsyncClient, bob: httpx.AsyncClient
) -> None:
    page = await look(bob, "/tokens")
    await press(bob, page, "Make the token", name="bobs", read="1")
    answer = await send(ana, "/tokens/revoke", csrf=await csrf(ana), name="bobs")
    assert answer.headers["location"] == "/tokens"
    assert len(await world.rows("SELECT id FROM api_tokens WHERE revoked_at IS NULL")) == 1


async def test_a_token_makes_no_tokens(world: WebWorld, ana_token: httpx.AsyncClient) -> None:
    before = len(await world.rows("SELECT id FROM api_tokens"))
    answer = await ana_token.post("/tokens", data={"name": "x", "read": "1"}, headers=NAVIGATION)
    assert answer.status_code == 403
    assert len(await world.rows("SELECT id FROM api_tokens")) == before


async def test_logs_are_shown_without_what_only_a_terminal_understands(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    said = "listening\r\n\x1b[31mred\x1b[0m <b>bold</b>\n\tgr\u00fc\u00df \x1b]0;title\x07end\n"

    async def read(each: Workspace, lines: int, follow: bool) -> AsyncGenerator[bytes, None]:
        async def pieces() -> AsyncGenerator[bytes, None]:
            yield said.encode()[:20]
            yield said.encode()[20:]

        assert (each.name, lines > 0, follow) == ("ana-running", True, False)
        return pieces()

    world.app = create_app(replace(world.hub, logs=read))
    client = await world.session("ana")
    page = await look(client, "/workspaces/ana-running/logs")
    shown = page.text.partition('data-part="log"')[2].partition(">")[2].partition("</pre>")[0]
    assert shown == "listening\nred &lt;b&gt;bold&lt;/b&gt;\n\tgr\u00fc\u00df end\n"
    assert 'data-follow="/api/v1/workspaces/ana-running/logs?follow=true&amp;tail=200"' in page.text


SCRIPT = {"Accept": "application/json", "Sec-Fetch-Mode": "cors", "X-CSRF-Token": ""}


async def test_the_script_sends_the_same_forms_and_stays_where_it_is(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    wanted = {"ana-standby": "Start", "ana-error": "Try again", "ana-orphan": "Delete"}
    for name, label in wanted.items():
        page = await look(ana, f"/workspaces/{name}")
        ((action, fields),) = page.forms(f"{label} {name}")
        answer = await ana.post(action, data=fields, headers=SCRIPT)
        assert (answer.status_code, answer.json()) == (200, {})
    assert (await live(world.conn, "ana-standby")).intent.desired.value == "RUNNING"
    assert (await live(world.conn, "ana-error")).intent.recover_requested == "plain"
    assert (await live(world.conn, "ana-orphan")).intent.desired.value == "DELETED"


async def test_what_is_refused_is_told_to_the_script_without_a_status_to_complain_of(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    before, fields = await world.everything(), {"csrf": await csrf(ana), "action": "archive"}
    answer = await ana.post(DO.format("ana-starting"), data=fields, headers=SCRIPT)
    assert answer.status_code == 200
    assert answer.json() == {
        "detail": "ana-starting is busy: STARTING is under way.",
        "hint": "ask again when it is done",
    }
    theirs = await ana.post(DO.format("bob-running"), data=fields, headers=SCRIPT)
    assert theirs.status_code == 404
    unproven = await ana.post(DO.format("ana-running"), data=fields | {"csrf": "x"}, headers=SCRIPT)
    assert unproven.status_code == 403
    assert await world.everything() == before


async def test_at_a_limit_the_script_is_told_to_show_the_page_for_it(
    database_url: str, redis_url: str
) -> None:
    async with web_world(database_url, redis_url, limits_max_running_per_user=1) as world:
        bob = await world.session("bob")
        before, fields = await world.everything(), {"csrf": await csrf(bob), "action": "start"}
        answer = await bob.post(DO.format("bob-standby"), data=fields, headers=SCRIPT)
        assert (answer.status_code, answer.json()) == (200, {"limit": True})
        assert await world.everything() == before
