"""The report and the pages as people read them: whole, without script, safe whatever they hold."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from markdown_it import MarkdownIt
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from codehub.model.report import ReportLine
from codehub.model.states import Phase
from codehub.render.pages import GENERIC, Frame, Trouble, Waiting, page, spoken
from codehub.render.report_html import MOST_LINES, about_below, report_html, report_served
from codehub.render.report_json import report_json
from codehub.render.report_markdown import report_markdown, sparkline
from codehub.render.words import DECEPTIVE
from tests.make import NOW
from tests.snapshots import report_cases
from tests.snapshots.test_plan_html import Page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syrupy.assertion import SnapshotAssertion


class HtmlFile(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "html"


class MarkdownFile(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "md"


class JsonFile(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "json"


def without_style(text: str) -> str:
    """The style is a file of its own and changes its hash: neither is for this review."""
    style = text.partition("<style>")[2].partition("</style>")[0]
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return text.replace(style, "…").replace(digest, "…")


def test_everything_at_once(snapshot: SnapshotAssertion) -> None:
    text = report_html(report_cases.everything(), refresh=10)
    assert "The last load failed" in text
    assert without_style(text) == snapshot(extension_class=HtmlFile)


def test_an_empty_hub(snapshot: SnapshotAssertion) -> None:
    text = report_html(report_cases.empty())
    assert "No revision has been applied yet" in text
    assert without_style(text) == snapshot(extension_class=HtmlFile)


def test_markdown(snapshot: SnapshotAssertion) -> None:
    text = report_markdown(report_cases.everything())
    assert "## Needs a person" in text
    assert text == snapshot(extension_class=MarkdownFile)


def test_json(snapshot: SnapshotAssertion) -> None:
    text = report_json(report_cases.everything())
    assert json.loads(text)["phases"]["RUNNING"] == 2
    assert text == snapshot(extension_class=JsonFile)


@pytest.mark.parametrize("name", sorted(GENERIC))
def test_generic_pages(name: str, snapshot: SnapshotAssertion) -> None:
    text = page(GENERIC[name])
    assert GENERIC[name].title in text
    assert without_style(text) == snapshot(extension_class=HtmlFile)


PAGES = {
    "everything": lambda: report_html(report_cases.everything(), refresh=10),
    "own": lambda: report_html(report_cases.everything(), own=True),
    "busy": lambda: report_html(report_cases.busy()),
    "empty": lambda: report_html(report_cases.empty()),
    "hostile": lambda: report_html(report_cases.hostile()),
    "waiting": lambda: page(Waiting("a", "b", ("c",), 0.5)),
    "trouble": lambda: page(Trouble("a", "b", "run 'codehub start x'", alarm=True)),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_well_formed_and_runs_and_loads_nothing(name: str) -> None:
    found = Page(PAGES[name]())
    assert found.unclosed == []
    assert {"script", "img", "iframe", "form", "object"}.isdisjoint(found.tags)
    names = {key for key, _ in found.attributes}
    assert not {key for key in names if key.startswith("on") or key in {"style", "src"}}
    assert found.tags.count("link") == 1
    assert "lang" in names
    ids = [value for key, value in found.attributes if key == "id"]
    links = {"aria-labelledby", "aria-describedby"}
    labels = {value for key, value in found.attributes if key in links}
    assert len(ids) == len(set(ids))
    assert labels <= set(ids)


@pytest.mark.parametrize("name", PAGES)
def test_the_policy_allows_this_style_and_nothing_else(name: str) -> None:
    text = PAGES[name]()
    style = text.partition("<style>")[2].partition("</style>")[0]
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policies = [value for key, value in Page(text).attributes if key == "content"]
    assert policies[0] == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def test_every_column_of_a_table_has_a_header_and_every_row_too() -> None:
    report = report_cases.everything()
    assert report.history is not None
    text = report_html(report)
    tables = {"workspaces": 7, "drift": 5, "people": 7, "numbers": 7}
    assert text.count('scope="col"') == sum(tables.values())
    rows = (report.lines, report.drift, report.owners, report.history.steps)
    assert text.count('scope="row"') == sum(map(len, rows))


def test_hostile_values_are_text_in_every_rendering() -> None:
    report = report_cases.hostile()
    html = report_html(report)
    assert DECEPTIVE.findall(html.replace("\n", "")) == []
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    markdown = report_markdown(report)
    assert DECEPTIVE.findall(markdown.replace("\n", "")) == []
    assert "<img" not in MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    for text in (html, markdown, report_json(report)):
        assert "canary" not in text


def test_hostile_names_are_text_in_charts_too() -> None:
    html = report_html(report_cases.hostile(), below="/workspaces/")
    charted = html.partition('class="strips"')[2].partition("</ul>")[0]
    assert "&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;&#34;" in charted
    assert "\\u202e: RUNNING for 6d23h" in charted
    assert "<script" not in html
    assert 'href="/workspaces/&lt;/title&gt;' in charted


def test_a_hostile_message_stays_in_its_row_of_markdown() -> None:
    lines = report_markdown(report_cases.hostile()).splitlines()
    assert not any(line.startswith("# heading") for line in lines)


def test_a_large_fleet_is_cut_on_the_page_and_whole_in_json() -> None:
    lines = tuple(
        ReportLine(f"w{number:04}", "alice", Phase.STANDBY, "as declared")
        for number in range(MOST_LINES + 20)
    )
    report = replace(report_cases.empty(), lines=lines)
    text = report_html(report)
    assert "… and 20 more" in text
    assert f"w{MOST_LINES - 1:04}" in text
    assert f"w{MOST_LINES:04}" not in text
    assert len(json.loads(report_json(report))["workspaces"]) == MOST_LINES + 20


def test_markdown_is_short_enough_for_a_comment_however_large_the_fleet() -> None:
    report = report_cases.busy(600)
    text = report_markdown(report)
    assert "… and 550 more; `codehub report --format json` has them all." in text
    assert len(text) < 30_000


def test_a_report_of_ones_own_has_the_workspaces_first_and_no_owners() -> None:
    own = report_html(report_cases.everything(), own=True)
    assert own.index('id="workspaces"') < own.index('id="history"')
    assert 'id="people"' not in own
    fleet = report_html(report_cases.everything())
    assert fleet.index('id="workspaces"') > fleet.index('id="history"')
    assert 'id="people"' in fleet


LINK = re.compile(r'<a href="([^"#]+)">[\w-]+</a>')


def test_a_name_leads_to_its_page_and_wakes_nobody() -> None:
    """Wherever a name is a link: among the errors, beside the charts and in the table."""
    report = report_cases.everything()
    assert report.history is not None
    names = [
        *(each.name for each in report.errors),
        *(each.name for each in report.history.timelines),
        *(each.name for each in report.lines),
    ]
    there = about_below("https://hub.example.com/")
    pages = {
        "/workspaces/": report_served(report, Frame()).text,
        "https://hub.example.com/workspaces/": report_html(report, below=there),
    }
    for below, text in pages.items():
        assert LINK.findall(text) == [f"{below}{name}" for name in names]
    assert LINK.findall(report_html(report, below=about_below(None))) == [], "nobody knows where"


def test_a_served_report_comes_with_the_policy_that_allows_it() -> None:
    frame = Frame(person="alice", home="/")
    served = report_served(report_cases.everything(), frame, refresh=30)
    style = served.text.partition("<style>")[2].partition("</style>")[0]
    digest = b64encode(sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in served.policy
    assert "script-src" not in served.policy
    assert "Logged in as alice." in served.text


def test_a_report_without_history_shows_no_charts() -> None:
    report = replace(report_cases.everything(), history=None)
    text = report_html(report)
    assert "<svg" not in text
    assert "Saved by TTL" not in text
    assert "## Next" in report_markdown(report)
    assert json.loads(report_json(report))["history"] is None


def test_a_history_that_was_cut_says_so() -> None:
    report = report_cases.everything()
    assert report.history is not None
    cut = replace(report, history=replace(report.history, cut=True))
    assert "looks back less far" in report_html(cut)
    assert "looks back less far" in report_markdown(cut)
    assert "looks back less far" not in report_html(report)


def test_json_adds_up() -> None:
    data = json.loads(report_json(report_cases.everything()))
    history = data["history"]
    assert history["hoursRun"] == 753.5
    for slices in (history["steps"], history["mix"]):
        assert sum(each["hours"].get("RUNNING", 0) for each in slices) == pytest.approx(753.5)
        assert sum(each["hoursSaved"] for each in slices) == pytest.approx(history["hoursSaved"])
    assert sum(each["hoursRun"] for each in data["owners"]) == pytest.approx(753.5)
    assert sum(each["hoursRun"] for each in data["workspaces"]) < 753.5  # one is deleted


def test_every_field_of_the_json_is_documented() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "output-json.md"
    section = page.read_text().partition("## codehub report\n")[2].partition("\n## ")[0]
    known = set(re.findall(r"`…?(\w+)(?:\[\])?`", section))
    found = set(fields(json.loads(report_json(report_cases.everything()))))
    # Of other commands or common to all, names of phases, and words of progress.
    found -= {"formatVersion", "field", "expected", "actual", "note", "words", "part"}
    assert found - {each.value for each in Phase} <= known


def fields(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield key
            yield from fields(value)
    elif isinstance(data, list):
        for each in data:
            yield from fields(each)


@pytest.mark.parametrize(
    ("values", "line"), [([0, 1, 2], "▁▅█"), ([5], "█"), ([0, 0], ""), ([], "")]
)
def test_sparklines(values: list[float], line: str) -> None:
    assert sparkline(values) == line


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("run 'codehub start api' now", "Run <code>codehub start api</code> now"),
        ("'codehub explain api' tells", "<code>codehub explain api</code> tells"),
        ("it's <b>'codehub x <i>'", "It&#39;s &lt;b&gt;<code>codehub x &lt;i&gt;</code>"),
        ("", ""),
    ],
)
def test_commands_in_advice_are_shown_as_code(said: str, shown: str) -> None:
    assert spoken(said) == shown


def test_times_are_relative_to_the_moment_of_the_report() -> None:
    text = report_html(report_cases.everything())
    assert NOW.strftime("%Y-%m-%d %H:%M:%S UTC") in text
    assert "in 2h56m" in text
    assert "4m ago" in text


def test_only_a_served_report_reloads_itself() -> None:
    refresh = 'http-equiv="refresh"'
    assert refresh in report_html(report_cases.empty(), refresh=10)
    assert refresh not in report_html(report_cases.empty())
