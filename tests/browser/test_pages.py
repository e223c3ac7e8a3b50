"""The hub's pages in a real browser: readable, usable by keyboard, and without complaint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.driven import driven
from tests.browser.pages_site import serving
from tests.snapshots.page_cases import PAGES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.browser.driven import Tab

LIGHT, DARK = "rgb(246, 247, 249)", "rgb(18, 21, 27)"

# Contrast is that of WCAG 2: every text against the nearest background below it. A control's name
# is what assistive technology reads: its label or its text.
MEASURE = """(() => {
const light = ([r, g, b]) => [r, g, b].map(c => (c /= 255) <= .03928 ? c / 12.92 :
  ((c + .055) / 1.055) ** 2.4).reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
const colour = text => text.match(/[\\d.]+/g).map(Number);
const below = node => {
  for (; node; node = node.parentElement) {
    const found = colour(getComputedStyle(node).backgroundColor);
    if (found.length < 4 || found[3] > 0) return found;
  }
};
const contrast = node => {
  const [a, b] = [light(colour(getComputedStyle(node).color)), light(below(node))];
  return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
};
const texts = [...document.querySelectorAll("body *")].filter(node => node.checkVisibility() &&
  [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim()));
const worst = texts.map(node => [contrast(node), node.textContent.trim().slice(0, 40)])
  .sort((a, b) => a[0] - b[0])[0];
const controls = [...document.querySelectorAll("a, button, summary, input:not([type=hidden])")];
const name = node => node.getAttribute("aria-label") ||
  (node.labels && node.labels.length ? node.labels[0].textContent : node.textContent);
const small = controls.filter(node => node.checkVisibility() &&
  node.matches("button, .button, input") && node.getBoundingClientRect().height < 30);
const root = document.documentElement;
return {overflow: root.scrollWidth - root.clientWidth, contrast: worst[0], where: worst[1],
  unnamed: controls.filter(node => !name(node).trim()).map(node => node.outerHTML),
  small: small.map(node => node.outerHTML), page: getComputedStyle(document.body).backgroundColor,
  styled: document.styleSheets.length === 1 && document.styleSheets[0].cssRules.length > 0};
})()"""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with driven(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_can_be_read_and_brings_no_complaint(tab: Tab, site: str, name: str) -> None:
    before = len(tab.complaints)
    for width in (390, 1400):
        for dark in (False, True):
            tab.look_like(width, 800, dark=dark)
            tab.open(f"{site}/{name}")
            found = tab.value(MEASURE)
            assert found["styled"], found
            assert found["page"] == (DARK if dark else LIGHT), found
            assert found["overflow"] <= 0, found
            assert found["contrast"] >= 4.5, found
            assert found["unnamed"] == [], found
            assert found["small"] == [], found
    assert tab.complaints[before:] == []


def test_what_cannot_be_taken_back_is_asked_twice(tab: Tab, site: str) -> None:
    tab.look_like(1400, 800)
    tab.open(f"{site}/lost")
    hidden = "!document.querySelector('.agree').checkVisibility()"
    assert tab.value(hidden)
    tab.press("Start with an empty home …")
    tab.until("document.querySelector('.agree').checkVisibility()")
    assert "cannot be taken back" in tab.text


def test_the_keyboard_reaches_everything_and_shows_where_it_is(tab: Tab, site: str) -> None:
    tab.look_like(1400, 800)
    tab.open(f"{site}/limit")
    seen = []
    for _ in range(5):
        tab.key("Tab")
        seen.append(
            tab.value(
                "[document.activeElement.textContent.trim(),"
                "getComputedStyle(document.activeElement).outlineStyle]"
            )
        )
    names = [name for name, _ in seen]
    assert names == ["Stop web", "Stop data-science", "Try again", "All workspaces", "Log out"]
    assert {style for _, style in seen} == {"solid"}


def test_the_cursor_waits_in_the_login_form(tab: Tab, site: str) -> None:
    tab.open(f"{site}/login")
    tab.until("document.activeElement.id === 'name'")
    tab.open(f"{site}/login-again")
    tab.until("document.activeElement.id === 'password'")
