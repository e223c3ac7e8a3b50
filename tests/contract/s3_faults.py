"""A bad network between a store and its S3 server: a proxy that spoils the requests it is told to.

It cuts, stalls, truncates, flips bits, loses answers, or answers by itself with an error. Every
request has a connection of its own, so that one fault touches one request.
"""

from __future__ import annotations

import socket
from contextlib import closing, suppress
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Self
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

PATIENCE = 60
BLOCK = 65536
FOR_EVER = 1_000_000
HALF = 100_000
"""Where bodies are cut and bits are flipped: the bodies of these tests are longer."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asked for."""

    method: str
    target: str
    headers: dict[str, str]

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.target).query, keep_blank_values=True)

    @property
    def length(self) -> int:
        return int(self.headers.get("content-length", "0"))


def any_request(request: Request) -> bool:
    return True


def is_part(request: Request) -> bool:
    return request.method == "PUT" and "partNumber" in request.query


def is_put(request: Request) -> bool:
    return request.method == "PUT" and not request.query


def is_complete(request: Request) -> bool:
    return request.method == "POST" and "uploadId" in request.query


def is_read(request: Request) -> bool:
    return request.method == "GET" and not request.query


def is_head(request: Request) -> bool:
    return request.method == "HEAD"


def is_next_page(request: Request) -> bool:
    return "continuation-token" in request.query


class Exchange:
    """One request on its way, and what can be done to it."""

    def __init__(self, proxy: FaultyProxy, client: socket.socket) -> None:
        self.proxy = proxy
        self.client = client
        self.head = b""
        self.rest = b""

    def receive_head(self) -> Request | None:
        while b"\r\n\r\n" not in self.rest:
            piece = self.client.recv(BLOCK)
            if not piece:
                return None
            self.rest += piece
        self.head, _, self.rest = self.rest.partition(b"\r\n\r\n")
        first, *lines = self.head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        pairs = (line.split(":", 1) for line in lines)
        return Request(method, target, {name.lower(): value.strip() for name, value in pairs})

    def receive_body(self, request: Request, most: int | None = None) -> bytes:
        if request.headers.get("expect"):
            self.client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = bytearray(self.rest)
        while len(body) < (request.length if most is None else most):
            piece = self.client.recv(BLOCK)
            if not piece:
                break
            body += piece
        return bytes(body)

    def ask_server(self, body: bytes) -> socket.socket:
        """Pass the request on; the server closes the connection after its answer.

        It may answer before it has heard all, and then hear no more.
        """
        server = self.proxy.connect()
        lines = self.head.split(b"\r\n")
        kept = [line for line in lines if not line.lower().startswith((b"expect:", b"connection:"))]
        with suppress(OSError):
            server.sendall(b"\r\n".join([*kept, b"Connection: close"]) + b"\r\n\r\n" + body)
        return server

    def answer(self, server: socket.socket, alter: Callable[[int, bytes], bytes]) -> None:
        """Pass the answer on; `alter` is given each piece of its body with the place it has."""
        data = b""
        while b"\r\n\r\n" not in data and (piece := server.recv(BLOCK)):
            data += piece
        head, _, piece = data.partition(b"\r\n\r\n")
        self.client.sendall(head + b"\r\n\r\n")
        at = 0
        while piece or (piece := server.recv(BLOCK)):
            self.client.sendall(alter(at, piece))
            at += len(piece)
            piece = b""


def pass_on(exchange: Exchange, request: Request) -> None:
    with closing(exchange.ask_server(exchange.receive_body(request))) as server:
        exchange.answer(server, lambda at, piece: piece)


def cut_request(exchange: Exchange, request: Request) -> None:
    """The connection breaks while the client still sends."""
    exchange.receive_body(request, most=min(HALF, request.length))


def lose_answer(exchange: Exchange, request: Request) -> None:
    """The server does what it was asked to, and the client never hears of it."""
    with closing(exchange.ask_server(exchange.receive_body(request))) as server:
        while server.recv(BLOCK):
            pass


def stall(exchange: Exchange, request: Request) -> None:
    """No answer, and no end of the connection either."""
    exchange.receive_body(request)
    exchange.proxy.over.wait(PATIENCE)


def hold(released: Event) -> Callable[[Exchange, Request], None]:
    """Nothing arrives until it is released; then everything goes on as if nothing had been."""

    def act(exchange: Exchange, request: Request) -> None:
        body = exchange.receive_body(request)
        exchange.proxy.wait_for(released)
        with closing(exchange.ask_server(body)) as server:
            exchange.answer(server, lambda at, piece: piece)

    return act


def hold_answer(released: Event, after: int) -> Callable[[Exchange, Request], None]:
    """The body stops after so many bytes until it is released."""

    def act(exchange: Exchange, request: Request) -> None:
        def alter(at: int, piece: bytes) -> bytes:
            if at <= after < at + len(piece):
                exchange.client.sendall(piece[: after - at])
                exchange.proxy.wait_for(released)
                return piece[after - at :]
            return piece

        with closing(exchange.ask_server(exchange.receive_body(request))) as server:
            exchange.answer(server, alter)

    return act


def cut_answer(exchange: Exchange, request: Request) -> None:
    """The connection breaks in the middle of the body."""

    def alter(at: int, piece: bytes) -> bytes:
        if at + len(piece) <= HALF:
            return piece
        exchange.client.sendall(piece[: max(HALF - at, 0)])
        raise ConnectionAbortedError

    with closing(exchange.ask_server(exchange.receive_body(request))) as server:
        exchange.answer(server, alter)


def stall_answer(exchange: Exchange, request: Request) -> None:
    """The body stops in the middle, and the connection stays."""

    def alter(at: int, piece: bytes) -> bytes:
        if at + len(piece) <= HALF:
            return piece
        exchange.client.sendall(piece[: max(HALF - at, 0)])
        exchange.proxy.over.wait(PATIENCE)
        raise ConnectionAbortedError

    with closing(exchange.ask_server(exchange.receive_body(request))) as server:
        exchange.answer(server, alter)


def flip_answer(exchange: Exchange, request: Request) -> None:
    def alter(at: int, piece: bytes) -> bytes:
        return _flip(piece, HALF - at) if at <= HALF < at + len(piece) else piece

    with closing(exchange.ask_server(exchange.receive_body(request))) as server:
        exchange.answer(server, alter)


def flip_request(exchange: Exchange, request: Request) -> None:
    body = exchange.receive_body(request)
    with closing(exchange.ask_server(_flip(body, min(HALF, len(body) - 1)))) as server:
        exchange.answer(server, lambda at, piece: piece)


def reply(status: int, code: str) -> Callable[[Exchange, Request], None]:
    """Answer in the place of the server: an error as S3 says it, or a page when it has no code."""

    def act(exchange: Exchange, request: Request) -> None:
        exchange.receive_body(request)
        text = f"<Error><Code>{code}</Code><Message>canary</Message></Error>" if code else "<html>"
        body = b"" if request.method == "HEAD" else text.encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        exchange.client.sendall(head.encode() + body)

    return act


def _flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@dataclass(slots=True)
class Fault:
    """Spoils the next requests that match."""

    act: Callable[[Exchange, Request], None]
    when: Callable[[Request], bool]
    times: int


@dataclass
class FaultyProxy:
    """Listens on loopback and passes everything on to the server, but for the faults."""

    target: str
    requests: list[Request] = field(default_factory=list)
    over: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        self._faults: list[Fault] = []
        self._lock = Lock()
        self._threads: list[Thread] = []
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for each in self._sockets:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def spoil(
        self,
        act: Callable[[Exchange, Request], None],
        when: Callable[[Request], bool] = any_request,
        times: int = 1,
    ) -> None:
        """From now on, do this to the next so many requests of this kind."""
        with self._lock:
            self._faults.append(Fault(act, when, times))

    def heal(self) -> None:
        with self._lock:
            self._faults.clear()

    def seen(self, when: Callable[[Request], bool]) -> list[Request]:
        with self._lock:
            return [request for request in self.requests if when(request)]

    def wait_for(self, released: Event) -> None:
        """Until then, or until the end of everything."""
        while not (released.wait(0.05) or self.over.is_set()):
            pass

    def connect(self) -> socket.socket:
        parts = urlsplit(self.target)
        server = socket.create_connection((parts.hostname, parts.port), PATIENCE)
        with self._lock:
            self._sockets.append(server)
        return server

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while not self.over.is_set():
                client, _ = self._listener.accept()
                client.settimeout(PATIENCE)
                with self._lock:
                    self._sockets.append(client)
                self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), closing(client):
            exchange = Exchange(self, client)
            request = exchange.receive_head()
            if request is not None:
                self._choose(request)(exchange, request)

    def _choose(self, request: Request) -> Callable[[Exchange, Request], None]:
        with self._lock:
            self.requests.append(request)
            for fault in self._faults:
                if fault.times and fault.when(request):
                    fault.times -= 1
                    return fault.act
        return pass_on
