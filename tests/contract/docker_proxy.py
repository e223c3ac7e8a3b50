"""A socket in front of the engine's that counts what is asked and does harm where it is told to."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.contract.docker_engine import SOCKET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Harm(Enum):
    HANG = auto()
    """The engine never sees it, and no answer comes until `release`."""
    CUT = auto()
    """The engine never sees it; the connection is closed."""
    LOSE_ANSWER = auto()
    """The engine does it; the answer is lost."""
    TRUNCATE = auto()
    """The engine does it; the end of the answer is lost."""
    GARBAGE = auto()
    REFUSE = auto()
    """The engine says 500."""
    TOO_OLD = auto()
    """The engine says that the client's version is too old for it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, its path without the version and the query."""

    method: str
    path: str


@dataclass
class Proxy:
    """Where it listens, what it was asked, and what it is to do with the next such request."""

    path: Path
    asked: list[Asked] = field(default_factory=list)
    harms: list[tuple[str, str, Harm, int]] = field(default_factory=list)
    hooks: list[tuple[str, str, Callable[[], None]]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    open: set[socket.socket] = field(default_factory=set)

    @property
    def base_url(self) -> str:
        return f"unix://{self.path}"

    def harm(self, method: str, ending: str, harm: Harm, *, times: int = 10**6) -> None:
        """Do this to requests whose path ends so."""
        self.harms.append((method, ending, harm, times))

    def before(self, method: str, ending: str, hook: Callable[[], None]) -> None:
        """Call this before the engine sees such a request."""
        self.hooks.append((method, ending, hook))

    def heal(self) -> None:
        self.harms.clear()

    def release(self) -> None:
        self.heal()
        self.released.set()

    def cut_streams(self) -> None:
        """The engine goes: whatever it is still saying ends."""
        for each in tuple(self.open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def take(self, asked: Asked) -> Harm | None:
        self.asked.append(asked)
        for method, ending, hook in self.hooks:
            if method == asked.method and asked.path.endswith(ending):
                hook()
        for index, (method, ending, harm, times) in enumerate(self.harms):
            if method == asked.method and asked.path.endswith(ending) and times > 0:
                self.harms[index] = (method, ending, harm, times - 1)
                return harm
        return None


async def asked(proxy: Proxy, path: str) -> bool:
    return any(each.path == path for each in proxy.asked)


@contextmanager
def engine_proxy() -> Iterator[Proxy]:
    with TemporaryDirectory(prefix="codehub-proxy-") as directory:
        proxy = Proxy(Path(directory) / "engine.sock")
        server = _Server(str(proxy.path), _Handler)
        server.proxy = proxy
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield proxy
        finally:
            proxy.release()
            server.shutdown()
            server.server_close()
            thread.join()


class _Server(ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    proxy: Proxy


class _Handler(StreamRequestHandler):
    """One request for each connection: then nothing but bytes has to be understood."""

    def handle(self) -> None:
        assert isinstance(self.server, _Server)
        proxy = self.server.proxy
        head = self._read_head()
        if not head:
            return
        method, target = head[0].decode().split()[:2]
        path = "/" + target.partition("?")[0].split("/", 2)[2] if "/v1." in target else target
        harm = proxy.take(Asked(method, path.partition("?")[0]))
        if harm is Harm.HANG:
            proxy.released.wait(60)
        elif harm is Harm.GARBAGE:
            self._answer(200, b'{"Volumes": "yes"')
        elif harm is Harm.REFUSE:
            self._answer(500, b'{"message": "something is wrong"}')
        elif harm is Harm.TOO_OLD:
            self._answer(400, b'{"message": "client version 1.41 is too old."}')
        elif harm is not Harm.CUT:
            self._forward(proxy, head, harm)

    def _read_head(self) -> list[bytes]:
        lines = []
        while (line := self.rfile.readline()).strip():
            lines.append(line)
        return lines

    def _answer(self, status: int, body: bytes) -> None:
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        self.wfile.write(head.encode() + body)

    def _forward(self, proxy: Proxy, head: list[bytes], harm: Harm | None) -> None:
        lengths = [line for line in head if line.lower().startswith(b"content-length:")]
        body = self.rfile.read(int(lengths[0].split(b":")[1])) if lengths else b""
        kept = [line for line in head if not line.lower().startswith(b"connection:")]
        with socket.socket(socket.AF_UNIX) as engine, suppress(OSError):
            engine.connect(SOCKET)
            engine.sendall(b"".join(kept) + b"Connection: close\r\n\r\n" + body)
            proxy.open.add(engine)
            try:
                self._relay(engine, harm)
            finally:
                proxy.open.discard(engine)

    def _relay(self, engine: socket.socket, harm: Harm | None) -> None:
        threading.Thread(target=self._watch, args=(engine,), daemon=True).start()
        whole = b""
        while chunk := engine.recv(65536):
            whole += chunk if harm else b""
            if harm is None:
                self.wfile.write(chunk)
        if harm is Harm.TRUNCATE:
            self.wfile.write(whole[:-2])

    def _watch(self, engine: socket.socket) -> None:
        """Whoever asked has gone: so does the question."""
        with suppress(OSError, ValueError):
            self.connection.recv(1)
            engine.shutdown(socket.SHUT_RDWR)
