"""Somebody who visits a hub: a browser's navigation, a page's request, a WebSocket.

They are logged in, at their first visit, with a one-time link as `codehub up` makes them.
"""

from __future__ import annotations

import asyncio
import http.client
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from codehub.model.access import Visitor
from codehub.service.links import create_login_link, redeem
from codehub.service.sessions import Lasting
from codehub.store.access import first_person
from codehub.store.connect import connect
from tests.unit.demo_client import Client

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 60
NAVIGATION = {
    "Accept": "text/html,application/xhtml+xml",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
    "Sec-Fetch-User": "?1",
}
PLAIN: dict[str, str] = {}

_databases: dict[int, Callable[[], str]] = {}
_cookies: dict[int, str] = {}


def welcome(port: int, database_url: Callable[[], str]) -> None:
    """Whoever visits this port from now on is logged in, as somebody of the hub in there."""
    _databases[port] = database_url
    _cookies.pop(port, None)


def cookie(port: int) -> str:
    """The cookie of a login; an admin's, where there is one."""
    if port not in _cookies:
        _cookies[port] = asyncio.run(_log_in(_databases[port]()))
    return _cookies[port]


async def _log_in(database_url: str) -> str:
    async with await connect(database_url) as conn:
        async with asyncio.timeout(PATIENCE):
            while (person := await first_person(conn)) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        code = await create_login_link(conn, person.name)
        opened = await redeem(conn, code, Visitor(), lasting=Lasting())
    return f"codehub={opened.secret}"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


def visit(port: int, path: str) -> Answer:
    """A person opens this address."""
    return request(port, "GET", path, headers=NAVIGATION)


def request(
    port: int, method: str, path: str, body: bytes | None = None, *, headers: dict[str, str] = PLAIN
) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    own = {"Cookie": cookie(port), "Origin": f"http://127.0.0.1:{port}"}
    try:
        connection.request(method, path, body, {**own, **headers})
        response = connection.getresponse()
        named = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, named, response.read())
    finally:
        connection.close()


class _Socket(Client):
    """The demo's client, at an address of this machine."""

    own: ClassVar[dict[str, str]] = {}

    async def send(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        named = {"Host": "localhost", "Origin": "http://localhost", **self.own, **headers}
        lines = [f"{method} {path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in named.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await self.writer.drain()


async def echo(port: int, path: str, *messages: str) -> list[str]:
    """Say these over a WebSocket, each after the answer to the one before."""
    own = {"Cookie": await asyncio.to_thread(cookie, port)}
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    socket, heard = type("_Own", (_Socket,), {"own": own})(reader, writer), []
    try:
        answer = await socket.upgrade(path)
        assert answer.status == 101
        for message in messages:
            socket.frame(1, message.encode())
            heard.append((await socket.heard())[1].decode())
    finally:
        writer.close()
    return heard
