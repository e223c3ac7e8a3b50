"""What is behind the proxies: answers of 1 KiB and 1 MiB as fast as they are wanted, and an echo.

python -m tests.bench.proxies.upstream http|echo PORT
"""

from __future__ import annotations

import asyncio
import sys

import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, WSUpgradeRequest, ws_create_server

HEAD = (
    b"HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\n"
    b"Content-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n"
)
SMALL = HEAD % 1024 + b"x" * 1024
LARGE = HEAD % 2**20 + b"x" * 2**20


class Answers(asyncio.Protocol):
    """One answer for each head; requests here have no bodies."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.rest = b""

    def data_received(self, data: bytes) -> None:
        *heads, self.rest = (self.rest + data).split(b"\r\n\r\n")
        for head in heads:
            large = b"large" in head[: head.find(b"\r\n")]
            self.transport.write(LARGE if large else SMALL)  # type: ignore[attr-defined]


class Echo(WSListener):
    """Says everything again."""

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.CLOSE:
            transport.send_close(frame.get_close_code(), frame.get_close_message())
            transport.disconnect()
        elif frame.msg_type in (WSMsgType.TEXT, WSMsgType.BINARY):
            transport.send(frame.msg_type, frame.get_payload_as_bytes())


def _echo(_: WSUpgradeRequest) -> WSListener:
    return Echo()


async def serve(kind: str, port: int) -> None:
    if kind == "echo":
        server = await ws_create_server(_echo, "127.0.0.1", port, backlog=8192)
    else:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Answers, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(sys.argv[1], int(sys.argv[2])))
