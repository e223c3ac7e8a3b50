"""Headers whose names have underscores: a workspace must not take them for what the hub says.

Applications that read headers as CGI does (every WSGI server) see `X_Forwarded_For` under the name
of `X-Forwarded-For`. One of those stands behind a real proxy here.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest

from codehub.model.runtime import Upstream
from codehub.proxy.credentials import Trust, outgoing
from tests.integration.stored import insert
from tests.proxy.gate_world import awake, until
from tests.proxy.whole_world import whole

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator
    from pathlib import Path

    from tests.proxy.whole_world import Whole

pytestmark = pytest.mark.anyio

CANARY = "203.0.113.66"
TRICKS = (
    *("X_Forwarded_For", "x_forwarded-for", "X-Forwarded_For", "X_FORWARDED_PROTO"),
    *("X_Forwarded_Host", "X_Forwarded_Prefix", "X_Real_IP", "X_CodeHub_Wake", "X_Codehub-User"),
    *("Proxy_Authorization", "Content_Length", "Transfer_Encoding", "_Cookie", "Cookie_", "_"),
)


class Silent(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def application() -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """A WSGI application's port, and what it was asked with."""
    seen: list[dict[str, Any]] = []

    def app(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        seen.append(dict(environ))
        start("200 OK", [("Content-Length", "2")])
        return [b"ok"]

    with make_server("127.0.0.1", 0, app, WSGIServer, Silent) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_port, seen
        finally:
            server.shutdown()
            thread.join(timeout=60)


@pytest.fixture
async def proxy(database_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[Whole]:
    async with whole(database_url, redis_url, tmp_path) as made:
        yield made


async def test_they_do_not_arrive(proxy: Whole) -> None:
    lines = [f"{name}: {CANARY}" for name in TRICKS]
    answer = await proxy.ask(proxy.get("/w/api/", proxy.cookie, *lines, "X-Plain: kept"))
    assert answer.startswith(b"HTTP/1.1 200")
    heard = proxy.workspace.heard
    assert CANARY.encode() not in heard
    assert b"X-Plain: kept\r\n" in heard
    assert b"X-Forwarded-For: 127.0.0.1\r\n" in heard


async def test_nor_over_a_websocket(proxy: Whole) -> None:
    socket = await proxy.socket(proxy.secret, *(f"{name}: {CANARY}" for name in TRICKS))
    assert await socket.echoes(b"typed")
    assert CANARY.encode() not in proxy.workspace.heard


async def test_an_application_that_reads_as_cgi_does_is_not_deceived(proxy: Whole) -> None:
    with application() as (port, seen):
        upstream = Upstream("127.0.0.1", port)
        await insert(proxy.conn, awake("wsgi", number=2, upstream=upstream))
        lines = [f"{name}: {CANARY}" for name in TRICKS]
        answer = await proxy.ask(proxy.get("/w/wsgi/", proxy.cookie, *lines))
        assert answer.startswith(b"HTTP/1.1 200"), answer
        await until(lambda: seen)
    (environ,) = seen
    assert CANARY not in "\n".join(str(value) for value in environ.values())
    assert environ["HTTP_X_FORWARDED_FOR"] == "127.0.0.1"
    assert environ["HTTP_X_FORWARDED_PREFIX"] == "/w/wsgi"
    assert environ["HTTP_COOKIE"] == "theme=dark; own=2"


def test_a_trusted_name_cannot_be_said_in_other_letters_either() -> None:
    trust = Trust("X-Forwarded-User", ["127.0.0.1"])
    given = [(b"X_Forwarded_User", b"root"), (b"x-forwarded_user", b"root"), (b"Accept", b"*/*")]
    assert outgoing(given, trust) == [(b"Accept", b"*/*")]
