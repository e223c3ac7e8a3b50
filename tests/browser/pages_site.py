"""All pages of the hub behind plain addresses, each as it is served, for a browser to look at."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from codehub.render.pages import SCRIPT, script_path
from codehub.render.template import script
from tests.snapshots.page_cases import PAGES

if TYPE_CHECKING:
    from collections.abc import Iterator


class Handler(BaseHTTPRequestHandler):
    """All pages, the script, and somebody to follow who has nothing new to tell.

    A page that loads itself again asks for the address it would have at a hub: it stays the same.
    """

    closing: threading.Event
    shown: list[str]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == script_path():
            self._send("text/javascript", script(SCRIPT))
        elif self.path.startswith("/_codehub/follow/"):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(b"event: beat\ndata: 1\n\n")
            self.wfile.flush()
            self.closing.wait()
        else:
            name = self.path.removeprefix("/")
            if name in PAGES:
                self.shown[:] = [name]
            self._send("text/html; charset=utf-8", PAGES[self.shown[0]]())

    def _send(self, kind: str, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[str]:
    """The address of the site, as long as the block lasts."""
    closing = threading.Event()
    handler = type("Site", (Handler,), {"closing": closing, "shown": []})
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
