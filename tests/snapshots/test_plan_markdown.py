"""The plan for a pull request."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from markdown_it import MarkdownIt
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from codehub.model.plan import Action, Change, FieldChange, Kind
from codehub.render.plan_markdown import code, plan_markdown, prose
from codehub.render.words import DECEPTIVE
from tests.snapshots import plan_cases

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion


class MarkdownFile(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "md"


@pytest.fixture
def markdown_snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(MarkdownFile)


def html(markdown: str) -> str:
    """As a forge would render it, raw HTML included."""
    return str(MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown))


def test_the_sample_of_the_design(markdown_snapshot: SnapshotAssertion) -> None:
    text = plan_markdown(plan_cases.sample())
    assert text.startswith("### CodeHub plan: 1 to create, 1 to update, 1 to delete;")
    assert text == markdown_snapshot


def test_everything_at_once(markdown_snapshot: SnapshotAssertion) -> None:
    text = plan_markdown(plan_cases.everything())
    assert "> [!CAUTION]" in text
    assert text == markdown_snapshot


def test_nothing_to_do(markdown_snapshot: SnapshotAssertion) -> None:
    text = plan_markdown(plan_cases.unchanged())
    assert "**No changes. The hub is as the specs declare it.**" in text
    assert text == markdown_snapshot


def test_hostile_values(markdown_snapshot: SnapshotAssertion) -> None:
    text = plan_markdown(plan_cases.hostile())
    page = html(text)
    assert DECEPTIVE.findall(text.replace("\n", "")) == []
    assert "<img" not in page
    assert page.count("<tr>") == 3
    assert text == markdown_snapshot


@pytest.mark.parametrize(
    "value",
    [
        "|",
        "\\|",
        "\\\\|",
        "`",
        "``|`",
        "\\`",
        "a`|<b>|`b",
        "</code><b>x",
        "<!-- ",
        "[x](https://evil.example)",
        "![x](y)",
        "@everyone #1 https://evil.example www.evil.example",
        "&lt;b&gt;",
        "- x",
        "$a$",
        "~~a~~ **b** _c_",
        "</summary>",
    ],
)
def test_no_value_leaves_its_cell_or_becomes_markup(value: str) -> None:
    field = FieldChange("memo", None, value)
    change = Change(
        Kind.WORKSPACE, value, Action.UPDATE, fields=(field,), notes=(value,), held=value
    )
    plan = replace(plan_cases.unchanged(), changes=(change,), unsafe=(value,), target=value)
    page = html(plan_markdown(plan))
    assert page.count("<td>") == 4
    for tag in ("<a ", "<img", "<b>", "<del>", "<em>", "<!--", "</summary>"):
        assert tag not in page


@pytest.mark.parametrize("text", ["ask @alice", "see #12", "http://a.b", "WWW.a.b"])
def test_a_sentence_that_could_reach_somebody_is_code(text: str) -> None:
    assert prose(text) == code(text) == f"`{text}`"


def test_a_plain_sentence_stays_readable() -> None:
    assert prose("idle 4h12m, ttl a.standby=3h (until 2026-12-01)") == (
        "idle 4h12m, ttl a.standby=3h (until 2026-12-01)"
    )


def test_a_huge_plan_fits_into_a_comment() -> None:
    changes = tuple(
        Change(Kind.WORKSPACE, f"workspace-{number}", Action.CREATE) for number in range(5000)
    )
    text = plan_markdown(replace(plan_cases.unchanged(), changes=changes))
    assert len(text) < 65_536
    assert "more; --format json has them all" in text
