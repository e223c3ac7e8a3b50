"""The pages in a real browser: readable wide and narrow, light and dark, and without complaint."""

from __future__ import annotations

import asyncio
import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from codehub.model.states import DesiredState
from codehub.render.pages import GENERIC, Trouble, Waiting, page
from codehub.render.report_html import report_html
from tests.browser.chromium import DARK, LIGHT, open_chromium
from tests.integration.front_world import asleep, front_world
from tests.integration.stored import live
from tests.snapshots import report_cases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.browser.chromium import Chromium

LONG = "a-rather-long-name-of-a-workspace-here-x"
PAGES: dict[str, Callable[[], str]] = {
    "report": lambda: report_html(report_cases.everything(), refresh=600),
    "empty": lambda: report_html(report_cases.empty()),
    "waiting": lambda: page(
        Waiting(f"Restoring {LONG}", "Its home is coming back.", ("for 2m",), 0.4, refresh=600)
    ),
    "trouble": lambda: page(
        Trouble(f"{LONG} needs a person", "x" * 300, f"run 'codehub recover {LONG}'", alarm=True)
    ),
}

# Looks at pages in frames of a given width, as the pages themselves run no script. Contrast is that
# of WCAG 2: every text against the nearest background below it.
HARNESS = """<!doctype html><title>harness</title><pre id="found"></pre><script>
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
const texts = root => [...root.querySelectorAll("body *")].filter(node => node.checkVisibility() &&
  [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim()));
async function look(name, width) {
  const frame = document.createElement("iframe");
  frame.style.width = width + "px"; frame.style.height = "1000px";
  frame.src = name + ".html";
  document.body.append(frame);
  await new Promise(loaded => frame.onload = loaded);
  const root = frame.contentDocument, page = root.documentElement;
  const worst = texts(root).map(node => [contrast(node), node.textContent.trim().slice(0, 40)])
    .sort((a, b) => a[0] - b[0])[0];
  const found = {name, width, overflow: page.scrollWidth - page.clientWidth, contrast: worst[0],
    where: worst[1], page: getComputedStyle(root.body).backgroundColor,
    styled: root.styleSheets.length && root.styleSheets[0].cssRules.length > 0};
  frame.remove();
  return found;
}
(async () => {
  const found = [];
  for (const name of NAMES)
    for (const width of [390, 820, 1400]) found.push(await look(name, width));
  document.getElementById("found").textContent = JSON.stringify(found);
})();
</script>"""


@pytest.fixture
def chromium(tmp_path: Path) -> Chromium:
    return open_chromium(tmp_path)


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
    names = json.dumps(sorted(pages))
    (directory / "harness.html").write_text(HARNESS.replace("NAMES", names))
    handler = partial(Quiet, directory=str(directory))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def measured(document: str) -> list[dict[str, Any]]:
    text = document.partition('<pre id="found">')[2].partition("</pre>")[0]
    found: list[dict[str, Any]] = json.loads(text.replace("&lt;", "<").replace("&amp;", "&"))
    return found


@pytest.mark.parametrize(
    ("scheme", "background"), [(LIGHT, "rgb(246, 247, 249)"), (DARK, "rgb(18, 21, 27)")]
)
def test_pages_fit_every_width_and_can_be_read(
    chromium: Chromium, site: str, scheme: str, background: str
) -> None:
    seen = chromium.look(f"{site}/harness.html", scheme, "--virtual-time-budget=60000")
    found = measured(seen.document)
    assert len(found) == 3 * (len(PAGES) + len(GENERIC))
    for each in found:
        assert each["styled"], each
        assert each["page"] == background, each
        assert each["overflow"] <= 0, each
        assert each["contrast"] >= 4.5, each


def test_the_browser_has_nothing_to_complain_of(chromium: Chromium, site: str) -> None:
    seen = chromium.look(f"{site}/report.html")
    assert "payments-api" in seen.document
    assert seen.complaints == ()


def test_a_persons_browser_wakes_a_workspace(
    chromium: Chromium, database_url: str, redis_url: str, tmp_path: Path
) -> None:
    """With the headers that a real browser sends on a real navigation."""

    async def visit() -> None:
        async with front_world(database_url, redis_url, tmp_path / "pages") as world:
            await world.add(asleep("api"))
            address = f"http://localhost:{world.port}/w/api/"
            seen = await asyncio.to_thread(chromium.look, address)
            assert "Waking api" in seen.document
            assert (await live(world.conn, "api")).intent.desired is DesiredState.RUNNING

    asyncio.run(visit())
