"""The pages in a real browser: readable wide and narrow, light and dark, and without complaint."""

from __future__ import annotations

import re
import threading
from base64 import b64decode
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from codehub.render.pages import GENERIC, Trouble, Waiting, page
from codehub.render.report_html import report_html
from tests.browser.driven import driven
from tests.snapshots import report_cases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LONG = "a-rather-long-name-of-a-workspace-here-x"
PAGES: dict[str, Callable[[], str]] = {
    "report": lambda: report_html(report_cases.everything(), refresh=600),
    "busy": lambda: report_html(report_cases.busy()),
    "own": lambda: report_html(report_cases.everything(), own=True),
    "empty": lambda: report_html(report_cases.empty()),
    "waiting": lambda: page(
        Waiting(f"Restoring {LONG}", "Its home is coming back.", ("for 2m",), 0.4, refresh=600)
    ),
    "trouble": lambda: page(
        Trouble(f"{LONG} needs a person", "x" * 300, f"run 'codehub recover {LONG}'", alarm=True)
    ),
}

# Contrast is that of WCAG 2: every text against the nearest background below it.
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
  const page = document.documentElement;
  return {overflow: page.scrollWidth - page.clientWidth, contrast: worst[0], where: worst[1],
    page: getComputedStyle(document.body).backgroundColor};
})()"""

FILL = "selector => getComputedStyle(document.querySelector(selector)).fill"

# A picture's own box is what must not reach out of its panel; labels of one axis must not meet.
CHARTS = """(() => {
  const box = node => node.getBoundingClientRect();
  const panel = node => box(node.closest(".panel"));
  const all = selector => [...document.querySelectorAll(selector)];
  const outside = all(".panel svg text, .panel svg rect").filter(node => node.checkVisibility() && (
    box(node).left < panel(node).left || box(node).right > panel(node).right ||
    box(node).bottom > panel(node).bottom)).map(node => node.outerHTML);
  const overlapping = [];
  for (const kind of [".when", ".scale", ".value"])
    for (const svg of all(".plot, .axis")) {
      const shown = [...svg.querySelectorAll(kind)].filter(node => node.checkVisibility());
      shown.slice(1).forEach((node, at) => {
        const [a, b] = [box(shown[at]), box(node)];
        if (a.right > b.left && b.right > a.left && a.bottom > b.top && b.bottom > a.top)
          overlapping.push(node.textContent);
      });
    }
  const fill = FILL;
  return {strips: all(".strip").map(node => box(node).width), outside, overlapping,
    running: fill(".plot .v-running"), saved: fill(".plot .v-saved")};
})()""".replace("FILL", FILL)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The pages and the harness, served as plain files."""
    directory = tmp_path / "site"
    directory.mkdir()
    pages = {name: make() for name, make in PAGES.items()}
    pages |= {name.removesuffix(".html"): page(each) for name, each in GENERIC.items()}
    for name, text in pages.items():
        (directory / f"{name}.html").write_text(text)
    handler = partial(Quiet, directory=str(directory))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("dark", "background"), [(False, "rgb(246, 247, 249)"), (True, "rgb(18, 21, 27)")]
)
def test_pages_fit_every_width_and_can_be_read(
    tmp_path: Path, site: str, dark: bool, background: str
) -> None:
    names = [*PAGES, *(name.removesuffix(".html") for name in GENERIC)]
    with driven(tmp_path) as tab:
        for name in names:
            tab.look_like(390, 1000, dark=dark)
            tab.open(f"{site}/{name}.html")
            for width in (390, 820, 1400):
                tab.look_like(width, 1000, dark=dark)
                found = {"name": name, "width": width, **tab.value(MEASURE)}
                assert found["page"] == background, found
                assert found["overflow"] <= 0, found
                assert found["contrast"] >= 4.5, found


def test_the_browser_has_nothing_to_complain_of(tmp_path: Path, site: str) -> None:
    with driven(tmp_path) as tab:
        tab.open(f"{site}/report.html")
        assert "payments-api" in tab.text
        assert tab.complaints == []


def test_charts_are_drawn_within_their_panels_in_the_colours_of_the_scheme(
    tmp_path: Path, site: str
) -> None:
    with driven(tmp_path) as tab:
        colours = set()
        for dark in (False, True):
            for width in (390, 1400):
                tab.look_like(width, 900, dark=dark)
                tab.open(f"{site}/busy.html")
                found = tab.value(CHARTS)
                assert len(found["strips"]) == 20
                assert min(found["strips"]) > 200
                assert found["outside"] == []
                assert found["overlapping"] == []
                colours.add((dark, found["running"], found["saved"]))
        assert tab.complaints == []
    assert len(colours) == 2


# A figure has one line, and every row of tiles ends where the one above it ends.
TILES = """(() => {
  const box = node => node.getBoundingClientRect();
  const all = [...document.querySelectorAll(".tile")], ends = {};
  for (const node of all)
    ends[box(node).top] = Math.max(ends[box(node).top] || 0, Math.round(box(node).right));
  const height = node => box(node).height / parseFloat(getComputedStyle(node).lineHeight);
  return {lines: all.map(node => Math.round(height(node.querySelector("dd")))),
    ends: [...new Set(Object.values(ends))]};
})()"""


@pytest.mark.parametrize("name", ["busy", "report"])
def test_tiles_fill_their_rows(tmp_path: Path, site: str, name: str) -> None:
    with driven(tmp_path) as tab:
        for width in (320, 390, 1400):
            tab.look_like(width, 900)
            tab.open(f"{site}/{name}.html")
            found = tab.value(TILES)
            assert set(found["lines"]) == {1}, width
            assert len(found["ends"]) == 1, width


def test_the_report_prints_black_on_white_as_tables(tmp_path: Path, site: str) -> None:
    with driven(tmp_path) as tab:
        tab.look_like(740, 1000, dark=True)
        dark = {"name": "prefers-color-scheme", "value": "dark"}
        tab.ask("Emulation.setEmulatedMedia", media="print", features=[dark])
        tab.open(f"{site}/report.html")
        assert tab.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert tab.value("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        assert tab.value(f"({FILL})('.plot .v-running')") == "rgb(0, 0, 0)"
        shown = "getComputedStyle(document.querySelector('.fleet tbody tr')).display"
        assert tab.value(shown) == "table-row"
        printed = b64decode(tab.ask("Page.printToPDF", paperWidth=8.27)["data"])
    assert printed.startswith(b"%PDF-")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 6
