"""The report and the pages as people read them: whole, without script, safe whatever they hold."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest
from markdown_it import MarkdownIt
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from codehub.model.report import ReportLine
from codehub.model.states import Phase
from codehub.render.pages import GENERIC, Trouble, Waiting, page, spoken
from codehub.render.report_html import MOST_LINES, report_html
from codehub.render.report_json import report_json
from codehub.render.report_markdown import report_markdown
from codehub.render.words import DECEPTIVE
from tests.make import NOW
from tests.snapshots import report_cases
from tests.snapshots.test_plan_html import Page

if TYPE_CHECKING:
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
    labels = {value for key, value in found.attributes if key == "aria-labelledby"}
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
    text = report_html(report_cases.everything())
    assert text.count('scope="col"') == 7 + 5
    assert text.count('scope="row"') == len(report_cases.everything().lines) + 2


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
