"""Every page of the hub as people get it: snapshots, and what must be true of each of them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from codehub.model.access import Way
from codehub.model.states import ErrorReason
from codehub.proxy.outcome import no_answer
from codehub.render.pages import Button, Choice, Frame, Trouble, Waiting, page, served
from codehub.render.words import DECEPTIVE
from tests.snapshots.page_cases import ALICE, PAGES, asleep, failed, said, too_many
from tests.snapshots.test_plan_html import Page
from tests.snapshots.test_report import HtmlFile, without_style

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

POINTS = {
    "loading": "Starting payments-api",
    "waking": "Waking payments-api",
    "waking-archived": "Its home comes back from the archive",
    "provisioning": "Its home is being made; then it starts and opens here.",
    "stopping": "then it starts again and opens here",
    "restoring": 'value="41"',
    "provisioning-unasked": "Its home is being made. It can be started when that is done.",
    "asleep": "Nobody used it for a while",
    "asleep-asked": "It is stopped, as bob asked 2 hours ago. Its files are safe.",
    "asleep-new": "Nobody has opened it yet",
    "archived": "Restore payments-api",
    "archived-asked": "Its home is archived, as bob asked 2 hours ago. Nothing is lost.",
    "pending": "It was never started.",
    "error": "It failed several times: the command ended with code 1",
    "old-page": '<a class="button" href="/w/payments-api/">Open the page again</a>',
    "lost": "This cannot be taken back.",
    "suspended": "Declared at specs/payments-api.yaml:1, owner alice",
    "held": "specs/payments-api.yaml:1, commit 5c110904fbe7",
    "overridden": "An override keeps it at STANDBY until 2026-11-01 13:00 UTC.",
    "refused": "Put it back into the specs",
    "limit": 'Stop<span class="heard"> data-science</span>',
    "limit-in-part": '<span class="name">data-science</span>',
    "limit-for-good": "None of them can be stopped now",
    "limit-at-home": "Choose one to stop",
    "queued": "It is number 1 in the queue.",
    "missing": "There is no such workspace here.",
    "gone": '<a class="button" href="/workspaces/payments-api/logs">See its logs</a>',
    "gone-at-home": 'href="/_codehub/hub?to=/workspaces/payments-api/logs"',
    "vanished": "the hub is looking into it",
    "unavailable": "The hub cannot read its database.",
    "dashboard-away": "The dashboard does not answer",
    "logout": "Log out?",
    "logged-out": "You are logged out.",
    "login": 'autocomplete="current-password"',
    "login-again": "Too many failed logins",
    "login-link": "This link logs you in, once.",
}


@pytest.mark.parametrize("name", PAGES)
def test_page(name: str, snapshot: SnapshotAssertion) -> None:
    text = PAGES[name]()
    assert POINTS[name] in text
    assert _stable(without_style(text)) == snapshot(extension_class=HtmlFile)


def _stable(text: str) -> str:
    """The script is a file of its own too: its name is not for this review."""
    return re.sub(r"/_codehub/pages\.[0-9a-f]{16}\.js", "/_codehub/pages.….js", text)


def test_every_page_has_its_point() -> None:
    assert set(POINTS) == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_well_formed_and_has_nothing_inline(name: str) -> None:
    text = PAGES[name]()
    found = Page(text)
    assert found.unclosed == []
    assert found.tags.count("h1") == 1
    assert found.tags.count("main") == 1
    assert {"img", "iframe", "object", "embed"}.isdisjoint(found.tags)
    names = {key for key, _ in found.attributes}
    assert not {key for key in names if key.startswith("on") or key == "style"}
    assert (
        re.findall(r"<script(?! src=\"/_codehub/pages\.[0-9a-f]{16}\.js\" defer></script>)", text)
        == []
    )
    ids = [value for key, value in found.attributes if key == "id"]
    assert len(ids) == len(set(ids))
    assert DECEPTIVE.findall(text.replace("\n", "")) == []


@pytest.mark.parametrize("name", PAGES)
def test_every_form_is_posted_to_the_hub_with_its_proof(name: str) -> None:
    text = PAGES[name]()
    forms = re.findall(r"<form(.*?)>(.*?)</form>", text, re.DOTALL)
    for attributes, inside in forms:
        assert 'method="post"' in attributes
        assert re.search(r'action="/(login|login/link|logout|_codehub/do/[a-z-]+)"', attributes)
        assert re.search(r'name="csrf" value="\w+"', inside)
        assert inside.count("<button") == 1


@pytest.mark.parametrize("name", PAGES)
def test_every_control_has_a_name(name: str) -> None:
    text = PAGES[name]()
    labels = set(re.findall(r'<label for="(\w+)"', text))
    for tag in re.findall(r"<input[^>]*>", text):
        if 'type="hidden"' not in tag:
            found = re.search(r'id="(\w+)"', tag)
            assert found, tag
            assert found[1] in labels, tag
    for words in re.findall(r"<(?:button|a|summary)[^>]*>(.*?)</(?:button|a|summary)>", text):
        assert re.sub(r"<[^>]*>", "", words).strip()
    for tag in re.findall(r"<progress[^>]*>", text):
        assert 'aria-label="Progress"' in tag
    for tag in re.findall(r"<svg[^>]*>", text):
        assert 'aria-hidden="true"' in tag


BUTTONED = [
    "asleep",
    "archived",
    "pending",
    "error",
    "lost",
    "limit",
    "limit-in-part",
    "limit-at-home",
    "gone",
    "gone-at-home",
]


@pytest.mark.parametrize("name", BUTTONED)
def test_where_there_are_buttons_no_command_is_named(name: str) -> None:
    """Who looks at a page may have no command line at all."""
    text = PAGES[name]()
    assert "What to do:" in text
    assert "<code>" not in text


@pytest.mark.parametrize("reason", ErrorReason)
def test_what_an_error_page_says_to_press_is_there_to_press(reason: ErrorReason) -> None:
    kept = {"archive_key": "hub/1/2/home.tar.zst", "home_store_key": "home-1"}
    for status in ({}, kept):
        text = said(failed(reason, "it went wrong", **status))
        (advice,) = re.findall(r'<p class="advice">(.*?)</p>', text)
        named = re.findall("“(.*?)”", advice)
        assert ("logs" in advice) is ("/workspaces/payments-api/logs" in text)
        there = re.findall(r"<(?:button|summary)[^>]*>(.*?)(?: …)?</(?:button|summary)>", text)
        assert named
        assert set(named) <= set(there)


def test_who_has_no_buttons_is_told_the_command() -> None:
    token = replace(ALICE, way=Way.TOKEN, csrf="")
    for result, command in (
        (failed(ErrorReason.TIMEOUT, "it took too long"), "codehub recover payments-api"),
        (asleep(), "codehub start payments-api"),
        (too_many(), "codehub stop web"),
        (no_answer("payments-api"), "codehub logs payments-api"),
    ):
        text = said(result, identity=token)
        assert f"<code>{command}</code>" in text
        assert "<form" not in text


def test_names_of_other_peoples_making_are_text_everywhere() -> None:
    bad = '"><img src=x onerror=alert(1)>\u202e'
    frame = Frame(csrf=bad, wanted=f"/{bad}", person=bad, home=f"/{bad}")
    button = Button(bad, f"/{bad}", ((bad, bad),), confirm=bad)
    for notice in (
        Waiting(bad, bad, (bad,), follow=bad, choices=(Choice(bad, bad, button),)),
        Trouble(bad, bad, bad, (bad,), choices=(Choice(bad, bad, button),), buttons=(button,)),
    ):
        for text in (served(notice, frame).text, page(notice)):
            assert "<img" not in text
            assert DECEPTIVE.findall(text.replace("\n", "")) == []


def test_a_page_that_is_a_file_has_no_forms_and_no_script() -> None:
    notice = Waiting(
        "a",
        "b",
        follow="/x",
        buttons=(Button("c", "/d"),),
        choices=(Choice("e", button=Button("f", "/g")),),
    )
    text = page(notice)
    assert "<form" not in text
    assert "<script" not in text
    assert "form-action 'none'" in text
    assert "e" in re.findall(r'<span class="name">(\w)</span>', text)
