"""The script that tells of input, in a real browser: each kind of it, and nothing else.

The page is a plain one, and what the script would send is written down in the page itself, so that
what was not sent is known too.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from codehub.proxy.watch import SCRIPT
from tests.browser.driven import driven

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.browser.driven import Tab

ALIVE = "/_codehub/alive?w=api&p=0badcafe"
INPUT = f"{ALIVE}&input=1"
PAGE = b"""<!doctype html><html><head>
<script src="/activity.js" data-codehub="api" data-page="0badcafe" data-every="%d" async></script>
<link rel="icon" href="data:,"><title>page</title></head>
<body style="height: 3000px"><textarea id="notes">words</textarea></body></html>"""
OFTEN, RARELY = 1, 3600
"""Seconds between two reports of input."""

# What is sent is written down; and only one kind of input is heard of, so that a click is not also
# a movement.
BEFORE = """
window.told = [];
navigator.sendBeacon = (address) => { window.told.push(address); return true; };
const only = new URLSearchParams(location.search).get("only"), add = window.addEventListener;
window.addEventListener = (kind, ...rest) => {
  if (!only || kind === only) add.call(window, kind, ...rest);
};
"""


class Handler(BaseHTTPRequestHandler):
    """The page and the script."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/activity.js":
            self._send("text/javascript", SCRIPT)
        else:
            every = RARELY if self.path.startswith("/rarely") else OFTEN
            self._send("text/html", PAGE % every)

    def _send(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with driven(tmp_path_factory.mktemp("browser")) as opened:
        opened.ask("Page.addScriptToEvaluateOnNewDocument", source=BEFORE)
        yield opened


def come(tab: Tab, url: str) -> None:
    """The page is open, its script runs, and the text is where one types."""
    tab.open(url)
    tab.until("window.told.length")
    tab.value("document.querySelector('#notes').focus()")
    assert told(tab) == [ALIVE]


def told(tab: Tab) -> list[str]:
    found: list[str] = tab.value("window.told")
    return found


def mouse(tab: Tab, kind: str, **more: Any) -> None:
    tab.ask("Input.dispatchMouseEvent", type=kind, x=300, y=300, **more)


def touch(tab: Tab) -> None:
    points = [{"x": 300, "y": 300}]
    tab.ask("Input.dispatchTouchEvent", type="touchStart", touchPoints=points)
    tab.ask("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])


def key(tab: Tab, **more: Any) -> None:
    tab.ask("Input.dispatchKeyEvent", type="keyDown", key="a", windowsVirtualKeyCode=65, **more)
    tab.ask("Input.dispatchKeyEvent", type="keyUp", key="a", windowsVirtualKeyCode=65)


def paste(tab: Tab) -> None:
    """From the clipboard, into which the words were copied the same way."""
    key(tab, commands=["selectAll"])
    key(tab, commands=["copy"])
    key(tab, commands=["paste"])


KINDS: dict[str, Callable[[Tab], None]] = {
    "keydown": key,
    "beforeinput": lambda tab: tab.type("x"),
    "pointerdown": lambda tab: mouse(tab, "mousePressed", button="left", clickCount=1),
    "pointermove": lambda tab: mouse(tab, "mouseMoved"),
    "wheel": lambda tab: mouse(tab, "mouseWheel", deltaX=0, deltaY=50),
    "touchstart": touch,
    "paste": paste,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_input_is_told_of(tab: Tab, site: str, kind: str) -> None:
    come(tab, f"{site}/rarely?only={kind}")
    KINDS[kind](tab)
    tab.until("window.told.length > 1")
    assert told(tab) == [ALIVE, INPUT]
    mouse(tab, "mouseReleased", button="left", clickCount=1)


def test_without_input_nothing_is_told_but_that_the_page_is_open(tab: Tab, site: str) -> None:
    """Neither of what a page does to itself, nor of input in a page that nobody sees."""
    come(tab, f"{site}/rarely")
    for kind in KINDS:
        tab.value(f"void document.body.dispatchEvent(new Event('{kind}', {{bubbles: true}}))")
    tab.value("scrollTo(0, 500); document.querySelector('#notes').value = 'changed'")
    tab.value("Object.defineProperty(document, 'visibilityState', {get: () => 'hidden'})")
    key(tab)
    tab.until("document.querySelector('#notes').value.length")
    assert told(tab) == [ALIVE]


def test_a_clock_that_is_set_back_silences_nobody(tab: Tab, site: str) -> None:
    come(tab, f"{site}/often")
    key(tab)
    tab.until("window.told.length > 1")
    tab.value("{ const now = Date.now; Date.now = () => now() - 3600 * 1000; }")
    key(tab)
    tab.until("window.told.length > 2")
    assert told(tab) == [ALIVE, INPUT, INPUT]


def test_what_was_to_be_told_is_told_when_the_page_is_left(tab: Tab, site: str) -> None:
    come(tab, f"{site}/rarely")
    key(tab)
    key(tab)
    assert told(tab) == [ALIVE, INPUT]
    tab.value("void dispatchEvent(new Event('pagehide'))")
    assert told(tab) == [ALIVE, INPUT, INPUT]
