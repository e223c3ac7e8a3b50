"""What loads a proxy: requests by wrk, long answers, WebSockets with echoes, and silent ones.

wrk reads 8 KiB at a time: with answers of 1 MiB it would have more to do than most proxies, and be
what is measured. Those are read here, in larger pieces.

python -m tests.bench.proxies.loads fetch URL CONNECTIONS SECONDS HEADERS
python -m tests.bench.proxies.loads echo URL CONNECTIONS SECONDS HEADERS
python -m tests.bench.proxies.loads hold URL CONNECTIONS READY_FILE HEADERS
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from tests.bench.proxies.processes import PATIENCE, pinned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.proxies.peers import Started

MESSAGE = b"x" * 64
UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
ROOM = 64 * 1024
"""What is read at once of a long answer: it still fits where the processor is fast."""
OPENING = 64
"""WebSockets that are opened at once."""


def has_wrk() -> bool:
    return shutil.which("wrk") is not None


def requests(
    started: Started, path: str, connections: int, seconds: float, core: int
) -> tuple[float, float]:
    """Requests a second, and the median of their latency in milliseconds."""
    headers = [f"-H{name}: {value}" for name, value in started.headers.items()]
    url = f"http://127.0.0.1:{started.port}{started.prefix}/{path}"
    load = ["-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "30s"]
    wrk = ["wrk", *load, "--latency", *headers, url]
    printed = _run([*pinned(core), *wrk], seconds)
    if "Non-2xx" in printed or "Socket errors" in printed:
        raise RuntimeError(f"{url} did not answer well:\n{printed}")
    rate = re.search(r"Requests/sec:\s+([0-9.]+)", printed)
    middle = re.search(r"50%\s+([0-9.]+)(us|ms|s)", printed)
    assert rate is not None
    assert middle is not None
    return float(rate[1]), float(middle[1]) * UNITS[middle[2]]


def downloads(started: Started, path: str, connections: int, seconds: float, core: int) -> float:
    """Long answers a second."""
    url = f"http://127.0.0.1:{started.port}{started.prefix}/{path}"
    module = [sys.executable, "-m", "tests.bench.proxies.loads", "fetch", url]
    words = [str(connections), str(seconds), json.dumps(started.headers)]
    return float(_run([*pinned(core), *module, *words], seconds))


def round_trips(started: Started, connections: int, seconds: float, core: int) -> float:
    """Echoes a second."""
    module = [sys.executable, "-m", "tests.bench.proxies.loads", "echo", _url(started)]
    words = [str(connections), str(seconds), json.dumps(started.headers)]
    return float(_run([*pinned(core), *module, *words], seconds))


@contextmanager
def idle_websockets(started: Started, count: int, ready: Path, core: int) -> Iterator[None]:
    """So many WebSockets, open and silent until the block ends."""
    module = [sys.executable, "-m", "tests.bench.proxies.loads", "hold", _url(started)]
    words = [str(count), str(ready), json.dumps(started.headers)]
    process = subprocess.Popen([*pinned(core), *module, *words])
    try:
        ends = time.monotonic() + PATIENCE * 5
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > ends:
                raise RuntimeError("the WebSockets could not be opened")
            time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait(timeout=PATIENCE)


def _url(started: Started) -> str:
    return f"ws://127.0.0.1:{started.port}{started.prefix}/"


def _run(command: list[str], seconds: float) -> str:
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=seconds + PATIENCE
    ).stdout


class _Fetching(asyncio.BufferedProtocol):
    """Asks again when the last answer is whole."""

    def __init__(self, request: bytes, room: bytearray, counted: list[int]) -> None:
        self._request = request
        self._room = room
        self._counted = counted
        self._head = b""
        self._left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._ask()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        if not self._left:
            self._head += self._room[:nbytes]
            head, end, body = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            length = re.search(rb"\r\ncontent-length: *([0-9]+)", head, re.IGNORECASE)
            if not head.startswith(b"HTTP/1.1 200 ") or length is None:
                raise RuntimeError(f"this is no answer to a request: {head!r}")
            self._left, nbytes = int(length[1]), len(body)
        self._left -= nbytes
        if not self._left:
            self._counted[0] += 1
            self._ask()

    def _ask(self) -> None:
        self._head = b""
        self._transport.write(self._request)  # type: ignore[attr-defined]


async def fetch(url: str, connections: int, seconds: float, headers: dict[str, str]) -> None:
    counted, room, address = [0], bytearray(ROOM), urlsplit(url)
    named = {"Host": address.netloc} | headers
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    request = f"GET {address.path} HTTP/1.1\r\n{lines}\r\n".encode()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_end)
    where = (address.hostname or "", address.port or 80)
    for _ in range(connections):
        await loop.create_connection(lambda: _Fetching(request, room, counted), *where)
    before, begin = counted[0], time.perf_counter()
    await asyncio.sleep(seconds)
    print((counted[0] - before) / (time.perf_counter() - begin))


def _end(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A rate of less than all connections would mean nothing."""
    print(context.get("exception") or context["message"], file=sys.stderr, flush=True)
    os._exit(1)


class _Counting(WSListener):
    """Sends the next message when the last has come back."""

    def __init__(self, counted: list[int]) -> None:
        self._counted = counted

    def on_ws_connected(self, transport: WSTransport) -> None:
        transport.send(WSMsgType.BINARY, MESSAGE)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.BINARY:
            self._counted[0] += 1
            transport.send(WSMsgType.BINARY, MESSAGE)


async def echo(url: str, connections: int, seconds: float, headers: dict[str, str]) -> None:
    counted = [0]
    opened = [
        await ws_connect(lambda: _Counting(counted), url, extra_headers=headers)
        for _ in range(connections)
    ]
    before, begin = counted[0], time.perf_counter()
    await asyncio.sleep(seconds)
    print((counted[0] - before) / (time.perf_counter() - begin))
    for transport, _ in opened:
        transport.disconnect()


async def hold(url: str, count: int, ready: Path, headers: dict[str, str]) -> None:
    kept = []
    for at in range(0, count, OPENING):
        some = range(at, min(at + OPENING, count))
        kept += await asyncio.gather(
            *(
                ws_connect(
                    WSListener, url, extra_headers=headers, websocket_handshake_timeout=PATIENCE
                )
                for _ in some
            )
        )
    ready.touch()  # noqa: ASYNC240 (once, and nothing else waits)
    await asyncio.Event().wait()


def allow_files() -> int:
    """As many open files as the system lets this process have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


if __name__ == "__main__":
    allow_files()
    kind, url, number, third, headers = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if kind in ("echo", "fetch"):
            load = echo if kind == "echo" else fetch
            runner.run(load(url, int(number), float(third), json.loads(headers)))
        else:
            runner.run(hold(url, int(number), Path(third), json.loads(headers)))
