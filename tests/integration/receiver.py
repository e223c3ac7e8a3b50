"""A real receiver of webhooks on this machine, which answers as a test wants it to."""

from __future__ import annotations

import json
import threading
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

LONGEST = 100.0
"""Seconds after which a hanging answer ends by itself, so that a failed test ends."""


@dataclass(frozen=True)
class Got:
    """One post, as it arrived."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def payload(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


@dataclass
class Receiver:
    """`answers` are given one after the other, the last for ever; None hangs until the end."""

    port: int = 0
    secure: bool = False
    got: list[Got] = field(default_factory=list)
    answers: deque[int | None] = field(default_factory=lambda: deque([204]))
    headers: dict[str, str] = field(default_factory=dict)
    ending: threading.Event = field(default_factory=threading.Event)
    arrived: threading.Condition = field(default_factory=threading.Condition)

    def url(self, path: str = "/hook") -> str:
        return f"{'https' if self.secure else 'http'}://127.0.0.1:{self.port}{path}"

    def answer(self, *statuses: int | None, **headers: str) -> None:
        self.answers = deque(statuses)
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    @property
    def ids(self) -> list[str]:
        return [each.id for each in self.got]

    @property
    def kinds(self) -> list[str]:
        return [each.payload["type"] for each in self.got]

    def take(self, got: Got) -> int | None:
        with self.arrived:
            self.got.append(got)
            self.arrived.notify_all()
            return self.answers.popleft() if len(self.answers) > 1 else self.answers[0]

    def wait(self, count: int) -> None:
        """Until so many have arrived."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.got) >= count, LONGEST)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    receiver: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        names = {name.lower(): value for name, value in self.headers.items()}
        status = self.receiver.take(Got(self.path, names, body))
        if status is None:
            self.receiver.ending.wait(LONGEST)
            self.close_connection = True
            return
        with suppress(OSError):
            self.send_response(status)
            for name, value in self.receiver.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A caller that hangs up is no fault here."""


@contextmanager
def receiving(context: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """A receiver for as long as the block lasts."""
    receiver = Receiver(secure=context is not None)
    handler = type("Handler", (_Handler,), {"receiver": receiver})
    with _Server(("127.0.0.1", 0), handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        receiver.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.ending.set()
            server.shutdown()
            thread.join()
