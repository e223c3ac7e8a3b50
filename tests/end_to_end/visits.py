"""Somebody who visits a hub: a browser's navigation, a program's request, a WebSocket."""

from __future__ import annotations

import asyncio
import http.client
from dataclasses import dataclass

from tests.unit.demo_client import Client

PATIENCE = 60
NAVIGATION = {
    "Accept": "text/html,application/xhtml+xml",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
    "Sec-Fetch-User": "?1",
}
PLAIN: dict[str, str] = {}


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
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        named = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, named, response.read())
    finally:
        connection.close()


class _Socket(Client):
    """The demo's client, at an address of this machine."""

    async def send(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await self.writer.drain()


async def echo(port: int, path: str, *messages: str) -> list[str]:
    """Say these over a WebSocket, each after the answer to the one before."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    socket, heard = _Socket(reader, writer), []
    try:
        answer = await socket.upgrade(path)
        assert answer.status == 101
        for message in messages:
            socket.frame(1, message.encode())
            heard.append((await socket.heard())[1].decode())
    finally:
        writer.close()
    return heard
