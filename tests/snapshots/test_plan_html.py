"""The plan as a page: whole, without script, and safe whatever is in it."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from codehub.render.plan_html import plan_html
from codehub.render.words import DECEPTIVE
from tests.snapshots import plan_cases

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """Every tag of a page, its attributes, and whether all are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.unclosed: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.unclosed.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.unclosed.pop() == tag


class HtmlFile(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "html"


@pytest.fixture
def html_snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(HtmlFile)


def test_everything_at_once(html_snapshot: SnapshotAssertion) -> None:
    text = plan_html(plan_cases.everything())
    assert "Unsafe, applying this needs --force" in text
    assert text == html_snapshot


def test_nothing_to_do(html_snapshot: SnapshotAssertion) -> None:
    text = plan_html(plan_cases.unchanged())
    assert "No changes. The hub is as the specs declare it." in text
    assert text == html_snapshot


CASES = [
    plan_cases.sample,
    plan_cases.everything,
    plan_cases.unchanged,
    plan_cases.first,
    plan_cases.hostile,
]


@pytest.mark.parametrize("case", CASES)
def test_a_page_is_well_formed_and_loads_nothing(case: Any) -> None:
    page = Page(plan_html(case()))
    assert page.unclosed == []
    assert {"script", "link", "img", "iframe", "form"}.isdisjoint(page.tags)
    names = {name for name, _ in page.attributes}
    assert not {name for name in names if name.startswith("on") or name in {"style", "src"}}
    assert "lang" in names


def test_the_policy_allows_this_style_and_nothing_else() -> None:
    text = plan_html(plan_cases.unchanged())
    style = text.partition("<style>")[2].partition("</style>")[0]
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policies = [value for name, value in Page(text).attributes if name == "content"]
    assert policies[0] == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def test_every_heading_of_a_section_exists() -> None:
    attributes = Page(plan_html(plan_cases.everything())).attributes
    ids = [value for name, value in attributes if name == "id"]
    labels = {value for name, value in attributes if name == "aria-labelledby"}
    assert len(ids) == len(set(ids))
    assert labels <= set(ids)


def test_hostile_values_are_text() -> None:
    text = plan_html(plan_cases.hostile())
    assert DECEPTIVE.findall(text.replace("\n", "")) == []
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
    assert "\\u202eevil" in text
