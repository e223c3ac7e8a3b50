"""The reference pages say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from codehub.cli.reference import commands_page
from codehub.cli.verbs import VERBS
from codehub.render.settings_page import settings_page

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def test_the_settings_page_is_fresh() -> None:
    fresh = settings_page()
    assert "`DATABASE_URL`" in fresh
    assert (REFERENCE / "settings.md").read_text() == fresh, (
        "run: python -m codehub.render.settings_page > docs/reference/settings.md"
    )


def test_the_commands_page_is_fresh() -> None:
    fresh = commands_page()
    assert fresh.count("Usage: codehub") >= len(VERBS)
    assert (REFERENCE / "commands.md").read_text() == fresh, (
        "run: python -m codehub.cli.reference > docs/reference/commands.md"
    )


def test_every_command_has_an_example() -> None:
    groups = tuple(f"codehub {verb.name}\n" for verb in VERBS if verb.group)
    for section in commands_page().split("\n## ")[1:]:
        assert section.startswith(groups) or "Example" in section, section.splitlines()[0]


@pytest.mark.parametrize(
    "page", sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")]), ids=lambda page: page.name
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page}: {target}"
