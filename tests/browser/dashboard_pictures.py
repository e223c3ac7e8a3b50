"""The pictures of the dashboard in the documentation, made anew:

    python -m tests.browser.dashboard_pictures docs/images/dashboard

Each page light and dark, wide and narrow, as it looks with its script and a stream that is open, at
one moment: made twice, they are the same.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

from codehub.render.dashboard import LIVE
from codehub.render.dashboard_assets import assets
from tests.browser.driven import driven
from tests.browser.pictures import packed
from tests.browser.rendered import keep
from tests.snapshots.dashboard_cases import FOLLOW, LOG, PAGES, narrowed

if TYPE_CHECKING:
    from collections.abc import Iterator

SHOWN: Final = {
    "home": "home-done",
    "home-member": "home-member",
    "home-failed": "home",
    "home-empty": "home-empty-admin",
    "nothing": "home-nothing",
    "workspace": "workspace",
    "restoring": "workspace-restoring",
    "error": "workspace-error",
    "logs": "logs",
    "logs-away": "logs-away",
    "tokens": "tokens-made",
    "admin": "admin",
    "limit": "limit",
}
SIZES: Final = {"wide": (1400, 860), "narrow": (390, 780)}
KEPT: Final = ("home", "workspace", "error", "admin", "tokens", "limit", "logs", "home-empty")
"""In the documentation; the others are to be looked at."""


SETTLED: Final = """(() => {
    const said = (name) => document.querySelector(`[data-part=${name}]`)?.textContent;
    if (document.querySelector('[data-follow]')) {
        return said('log-state') === 'following' && said('log').endsWith('5 ms\\n');
    }
    const { events, look } = document.body.dataset;
    return !(events || look) || said('live') === 'Live';
})()"""
"""What a page waits for is there."""


class Handler(BaseHTTPRequestHandler):
    """The pages by their names, what they load, a stream with nothing new, and a list to filter."""

    closing: threading.Event
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        asset = assets().get(self.path)
        if asset is not None:
            self._send(asset.kind, asset.content)
        elif self.path.startswith(LIVE):
            self._stream("text/event-stream", b"event: heartbeat\ndata: {}\n\n")
        elif self.path == FOLLOW:
            self._stream("text/plain; charset=utf-8", LOG.encode())
        elif self.path.removeprefix("/") in SHOWN:
            page = PAGES[SHOWN[self.path.removeprefix("/")]]()
            self._send("text/html; charset=utf-8", page.encode())
        elif urlsplit(self.path).path == "/":
            (sought,) = parse_qs(urlsplit(self.path).query).get("q", [""])
            self._send("text/html; charset=utf-8", narrowed(sought).encode())
        else:
            with suppress(ConnectionError):  # a browser asks for icons, and does not wait
                self.send_error(404)

    def _stream(self, kind: str, begin: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(begin)
        self.wfile.flush()
        self.closing.wait()

    def _send(self, kind: str, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[str]:
    """The address of the site, as long as the block lasts."""
    closing = threading.Event()
    handler = type("Site", (Handler,), {"closing": closing})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            closing.set()
            server.shutdown()
            thread.join()


def rendered() -> dict[str, str]:
    """The pages whose pictures are in the documentation."""
    return {name: PAGES[SHOWN[name]]() for name in KEPT}


def main(directory: Path, names: tuple[str, ...] = KEPT) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with profile as place, serving() as site, driven(Path(place)) as tab:
        tab.stop_the_clock()
        for name in names:
            for size, (width, height) in SIZES.items():
                for scheme in ("light", "dark"):
                    tab.look_like(width, height, dark=scheme == "dark")
                    tab.open(f"{site}/{name}")
                    tab.until(SETTLED)
                    file = directory / f"{name}-{size}-{scheme}.png"
                    file.write_bytes(packed(tab.picture()))
    if names == KEPT:
        keep(directory, rendered())


if __name__ == "__main__":
    main(Path(sys.argv[1]), tuple(sys.argv[2:]) or KEPT)
