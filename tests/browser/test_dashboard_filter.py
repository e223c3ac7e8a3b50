"""Filtering a list that is on the page in part only: one goes on typing in what the hub answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.dashboard_pictures import serving
from tests.browser.driven import driven

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.browser.driven import Tab

pytestmark = pytest.mark.timeout(120)

SHOWN = (
    "[...document.querySelectorAll('tr[data-row]')].filter(r => !r.hidden).map(r => r.dataset.row)"
)
TYPES = (
    "document.activeElement.id === 'q' && q.selectionStart === q.value.length"
    " && q.selectionEnd === q.value.length && q.value === {!r}"
)


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture
def tab(tmp_path: Path, site: str) -> Iterator[Tab]:
    with driven(tmp_path) as made:
        made.look_like(1400, 900)
        yield made


def is_asked(tab: Tab, search: str) -> None:
    """The hub was asked for this list, and its script runs."""
    tab.until(f"location.search === {search!r} && document.readyState === 'complete'")
    tab.until("!document.querySelector('[data-part=keys]').hidden")


def test_one_goes_on_typing_where_the_hub_answers(tab: Tab, site: str) -> None:
    tab.open(f"{site}/")
    tab.click("#q")
    for letter, typed in (("s", "s"), ("e", "se"), ("a", "sea")):
        tab.type(letter)
        is_asked(tab, f"?q={typed}")
        tab.until(TYPES.format(typed))
    # All that has it is there now: the rest is found without the hub.
    tab.type("rch-i")
    tab.until(f"{SHOWN}.join() === 'search-index'")
    assert tab.address.endswith("?q=sea")
    assert tab.complaints == []


def test_what_is_typed_while_the_hub_answers_is_not_lost(tab: Tab, site: str) -> None:
    tab.open(f"{site}/")
    tab.click("#q")
    tab.type("doc")
    tab.value("void addEventListener('beforeunload', () => { q.value += 's'; })")
    is_asked(tab, "?q=doc")
    tab.until(TYPES.format("docs"))
    assert tab.complaints == []


@pytest.mark.parametrize("way", ["Escape", "Backspace"])
def test_without_a_filter_the_whole_list_is_there(tab: Tab, site: str, way: str) -> None:
    tab.open(f"{site}/?q=doc")
    tab.until(f"{SHOWN}.join() === 'docs-preview'")
    tab.click("#q")
    tab.value("q.setSelectionRange(0, 3)")
    tab.key(way)
    is_asked(tab, "")
    tab.until(f"{SHOWN}.length > 3")
    assert tab.value("q.value") == ""
    in_box = tab.value("document.activeElement.id === 'q'")
    assert in_box == (way == "Backspace")


def test_a_wider_filter_asks_the_hub(tab: Tab, site: str) -> None:
    tab.open(f"{site}/?q=doc")
    tab.click("#q")
    tab.value("q.setSelectionRange(2, 3)")
    tab.key("Backspace")
    is_asked(tab, "?q=do")
    tab.until(TYPES.format("do"))


def test_whoever_only_comes_to_a_filtered_list_has_their_keys(tab: Tab, site: str) -> None:
    tab.open(f"{site}/?q=doc")
    is_asked(tab, "?q=doc")
    assert tab.value("document.activeElement === document.body")
