"""The dashboard's pages as people get them: snapshots, and what must be true of each of them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from codehub.model.states import DesiredState, Phase
from codehub.model.workspace import Intent, Source
from codehub.render.dashboard import POLICY, Flash
from codehub.render.dashboard_assets import assets
from codehub.render.dashboard_home import Filter, Paging, home_page, row_fragment
from codehub.render.dashboard_row import Row, deeds
from codehub.render.dashboard_tokens import Wish
from codehub.render.dashboard_workspace import logs_page, workspace_page
from codehub.render.words import DECEPTIVE
from tests.make import NOW
from tests.snapshots import dashboard_cases as cases
from tests.snapshots.dashboard_cases import FRAGMENTS, PAGES
from tests.snapshots.report_cases import GOOD
from tests.snapshots.test_plan_html import Page
from tests.snapshots.test_report import HtmlFile, without_style

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

POINTS = {
    "home": "The specs could not be loaded",
    "home-done": "payments-api counts as in use from now.",
    "home-member": '<b>2 of 2</b> <span class="soft">places of yours in use</span>',
    "home-paged": 'rel="next" href="/?after=storefront"',
    "home-nothing": "No workspace is in error and has “xyz” in its name",
    "home-empty-admin": "  owner: alice",
    "home-empty-member": "None is declared for you.",
    "workspace": "workspaces/payments-api.yaml:4",
    "workspace-restoring": 'value="41"',
    "workspace-error": "This cannot be taken back.",
    "workspace-queued": "Do not start",
    "logs": "POST /v1/payments 409 in 11 ms: already paid\n",
    "logs-odd": "\n\tGET / 200\n&lt;b&gt;not bold&lt;/b&gt;",
    "logs-away": "The engine gives no answer.",
    "tokens": "has ended",
    "tokens-made": "chub_S3cr3t",
    "tokens-refused": "There is one already.",
    "admin": "unknown policy &#34;interactve&#34;",
    "limit": 'Stop<span class="heard"> docs-preview</span>',
    "refused": "It is being stopped.",
}
SHEETS = {"limit", "refused"}
"""These look like all pages that stand in for something; the rest are the dashboard's own."""
OWN = sorted(set(PAGES) - SHEETS)


def stable(text: str) -> str:
    """Style and script are files of their own: their names are not for this review."""
    inline = without_style(text) if "<style>" in text else text
    return re.sub(r"(/assets/\w+\.)[0-9a-f]{16}", r"\1…", inline)


def test_the_pages_are_of_one_hub() -> None:
    """What they say of limits, revisions and times fits together, as pictures must."""
    fleet = {each.name: each for each in cases.fleet()}
    taking = {
        each.name
        for each in fleet.values()
        if each.intent.desired is DesiredState.RUNNING and each.status.phase is not Phase.ERROR
    }
    assert {name for names in cases.PLACES.values() for name in names} == taking
    for owner, names in cases.PLACES.items():
        assert {fleet[name].declaration.owner for name in names} == {owner}
    people = {each.name: each for each in cases.administration().people}
    for owner in cases.PLACES:
        owned = [each for each in fleet.values() if each.declaration.owner == owner]
        assert people[owner].workspaces == len(owned)
    assert {each.spec_revision for each in fleet.values()} == {GOOD.id}
    for each in (*fleet.values(), cases.lost()):
        about = cases.about(each)
        assert about.spans[-1].since == each.status.phase_changed_at
        assert [event.at for event in about.events] == sorted(
            (event.at for event in about.events), reverse=True
        )


@pytest.mark.parametrize("name", PAGES)
def test_page(name: str, snapshot: SnapshotAssertion) -> None:
    text = PAGES[name]()
    assert POINTS[name] in text
    assert stable(text) == snapshot(extension_class=HtmlFile)


def test_every_page_has_its_point() -> None:
    assert set(POINTS) == set(PAGES)


@pytest.mark.parametrize("name", FRAGMENTS)
def test_fragment(name: str, snapshot: SnapshotAssertion) -> None:
    text = FRAGMENTS[name]()
    assert Page(text).unclosed == []
    assert text == snapshot(extension_class=HtmlFile)


@pytest.mark.parametrize("name", OWN)
def test_a_page_is_well_formed_and_has_nothing_inline(name: str) -> None:
    text = PAGES[name]()
    found = Page(text)
    assert found.unclosed == []
    assert found.tags.count("h1") == 1
    assert found.tags.count("main") == 1
    assert {"img", "iframe", "object", "embed", "style"}.isdisjoint(found.tags)
    names = {key for key, _ in found.attributes}
    assert not {key for key in names if key.startswith("on") or key == "style"}
    assert len(re.findall("<script", text)) == 1
    ids = [value for key, value in found.attributes if key == "id"]
    assert len(ids) == len(set(ids))
    kept = text.replace("\n", "").replace("\t", "")
    assert DECEPTIVE.findall(kept) == []


@pytest.mark.parametrize("name", OWN)
def test_everything_a_page_loads_is_served_under_its_present_name(name: str) -> None:
    loaded = set(re.findall(r'(?:src|href)="(/assets/[^"]*)"', PAGES[name]()))
    assert loaded == set(assets())


@pytest.mark.parametrize("name", PAGES)
def test_every_form_that_changes_something_carries_its_proof(name: str) -> None:
    for attributes, inside in re.findall(r"<form(.*?)>(.*?)</form>", PAGES[name](), re.DOTALL):
        if 'method="post"' not in attributes:
            assert re.search(r'method="(get|dialog)"', attributes)
            continue
        assert re.search(
            r'action="/(logout|tokens|tokens/revoke|workspaces/[a-z-]+/do)"', attributes
        )
        assert f'name="csrf" value="{cases.PROOF}"' in inside
        assert inside.count("<button") == 1


@pytest.mark.parametrize("name", PAGES)
def test_every_control_has_a_name(name: str) -> None:
    text = PAGES[name]()
    labels = set(re.findall(r'<label[^>]* for="(\w+)"', text))
    for tag in re.findall(r"<(?:input|select)[^>]*>", text):
        if 'type="hidden"' in tag or 'type="checkbox"' in tag:
            continue
        found = re.search(r'id="(\w+)"', tag)
        assert found, tag
        assert found[1] in labels, tag
    for words in re.findall(r"<(?:button|a|summary)\b[^>]*>(.*?)</(?:button|a|summary)>", text):
        assert re.sub(r"<[^>]*>", "", words).strip()
    for tag in re.findall(r"<progress[^>]*>", text):
        assert 'aria-label="Progress' in tag
    for tag in re.findall(r"<svg[^>]*>", text):
        assert 'aria-hidden="true"' in tag or 'role="img"' in tag


def test_the_policy_lets_nothing_in_that_is_not_ours() -> None:
    assert "'unsafe-" not in POLICY
    assert POLICY.startswith("default-src 'none'")
    assert home_page(cases.home(), cases.ALICE).policy == POLICY


def test_the_script_is_small_and_takes_nothing_for_markup() -> None:
    script = next(each for path, each in assets().items() if path.endswith(".js"))
    text = script.content.decode()
    assert len(script.content) < 17 * 1024
    assert "eval(" not in text
    assert not re.search(r"\.(inner|outer)HTML\s*=[^=]|insertAdjacentHTML|document\.write", text)


ALL = "docs-preview,ml-notebooks,nightly-report,old-prototype,payments-api,search-index,storefront"


@pytest.mark.parametrize(
    ("shown", "asked"),
    [
        ({}, ""),
        ({"rows": (), "counts": {}}, ""),
        ({"sought": Filter(owner="bob")}, "?owner=bob"),
        (
            {"sought": Filter(phase=Phase.ERROR), "rows": [cases.row(cases.failed())]},
            "search-index",
        ),
        ({"sought": Filter("x", owner="bob")}, ALL),
        ({"paging": Paging(following="/?after=storefront")}, ALL),
        ({"paging": Paging(first="/")}, ALL),
    ],
)
def test_a_list_hears_of_what_belongs_in_it(shown: dict[str, Any], asked: str) -> None:
    expected = asked if asked.startswith("?") or not asked else f"?names={asked}"
    assert cases.home(**shown).follow == f"/api/v1/events{expected}"


@pytest.mark.parametrize(
    "shown", [{"sought": Filter(owner="<b>")}, {"sought": Filter("x")}, {"paging": Paging("/")}]
)
def test_a_list_of_nothing_hears_of_nothing(shown: dict[str, Any]) -> None:
    home = cases.home(rows=(), **shown)
    assert home.follow == ""
    assert "data-events" not in home_page(home, cases.ALICE).text


def test_a_workspaces_page_hears_of_it_alone() -> None:
    about = cases.about(cases.running())
    assert about.follow == "/api/v1/events?names=payments-api"


def test_what_no_event_tells_of_is_looked_for() -> None:
    admin, member = home_page(cases.home(), cases.ALICE), home_page(cases.home(), cases.BOB)
    narrowed = home_page(cases.home(sought=Filter("x")), cases.BOB)
    assert ["data-look" in each.text for each in (admin, member, narrowed)] == [True, False, True]
    assert "The specs could not be loaded" in FRAGMENTS["summary-failed"]()
    page = Page(PAGES["admin"]())
    assert len([key for key, _ in page.attributes if key == "data-swap"]) == PAGES["admin"]().count(
        "<section"
    )


BAD = "\"><img src=x onerror=alert(1)>{{ 'z' * 9 }}\u202e'"


def malicious() -> Row:
    each = cases.lost()
    declared = replace(
        each.declaration,
        description=BAD,
        owner=BAD,
        memo=BAD,
        labels={BAD: BAD},
        image=BAD,
        source=Source(BAD, 1),
    )
    status = replace(each.status, error_message=BAD)
    intent = replace(each.intent, by=BAD)
    return cases.row(replace(each, declaration=declared, status=status, intent=intent))


def harmless(text: str) -> bool:
    kept = text.replace("\n", "").replace("\t", "")
    return "<img" not in text and "z" * 9 not in text and not DECEPTIVE.findall(kept)


def test_what_others_wrote_is_text_everywhere() -> None:
    shell = replace(cases.ALICE, person=BAD, hub=BAD, here=f"/{BAD}", flash=Flash(BAD))
    row = malicious()
    home = cases.home(rows=[row], sought=Filter(BAD, None, BAD), owners=[BAD])
    about = cases.about(row.view.workspace)
    events = [replace(each, reason=BAD, by=BAD, new=BAD) for each in about.events]
    made = [
        home_page(home, shell).text,
        home_page(cases.home(rows=(), sought=Filter(BAD, Phase.ERROR, BAD)), shell).text,
        row_fragment(row, shell),
        workspace_page(replace(about, events=events), shell).text,
        logs_page("api", BAD, shell, follow=f"/{BAD}", problem=BAD).text,
        cases.tokens_page(cases.tokens(), shell, wish=Wish(BAD, problem=BAD)).text,
    ]
    assert all(harmless(each) for each in made)
    assert all("&lt;img" in each for each in made)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (cases.running, ["stop", "archive"]),
        (cases.asleep, ["start", "archive"]),
        (cases.restoring, []),
        (cases.failed, ["recover"]),
        (cases.lost, ["recover-from-archive", "recover-empty"]),
        (cases.waiting, ["stop", "archive"]),
    ],
)
def test_buttons_are_what_can_be_done_and_is_not_asked_for(make: Any, expected: list[str]) -> None:
    assert [each.action for each in deeds(cases.row(make()).view)] == expected


def test_what_was_asked_a_moment_ago_is_shown_as_heard_without_a_way_back() -> None:
    each = cases.waiting()
    fresh = replace(each, intent=replace(each.intent, at=NOW))
    row = cases.row(fresh)
    assert row.asked == "Waits for its turn"
    assert [deed.action for deed in row.deeds] == ["archive"]


def test_what_gives_data_up_is_confirmed() -> None:
    found = {deed.action: deed for deed in deeds(cases.row(cases.lost()).view)}
    assert all(deed.confirm for deed in found.values())
    assert found["recover-empty"].danger


def test_a_recovery_is_asked_for_once() -> None:
    each = cases.failed()
    asked = replace(each, intent=Intent(each.intent.desired, recover_requested="plain"))
    row = cases.row(asked)
    assert (row.asked, row.deeds) == ("Recovery asked for", ())
