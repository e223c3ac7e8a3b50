"""One request to a workspace, and its answer back: streamed both ways, heads written anew."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from codehub.model.workspace import PathPrefix
from codehub.proxy.body import Cut, Framing, copy, request_framing, response_framing
from codehub.proxy.splice import splice
from codehub.proxy.wire import HEAD_LIMIT, Bad, kept_headers, parse_status, read_head, write_head

if TYPE_CHECKING:
    from collections.abc import Callable

    from codehub.model.runtime import Upstream
    from codehub.proxy.wire import Head, Headers, Request

CONNECT_SECONDS: Final = 5
IDLE_SECONDS: Final = 120
"""How long a request's body may stand still; an answer may take any time."""

NO_ACTIVITY: Final = "x-codehub-no-activity"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_OURS: Final = (
    *("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"),
    *("x-forwarded-prefix", "x-real-ip", "host", "content-length", "expect", NO_ACTIVITY),
)


class NoAnswer(Exception):
    """The workspace gave no answer that could be passed on; nothing was sent to the client yet."""


class Gone(Exception):
    """The client, or the workspace in the middle of its answer, is gone: nothing more to say."""


@dataclass
class Client:
    """Somebody's connection. `begun` once an answer is on its way, `upgraded` for a WebSocket."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    begun: bool = False
    upgraded: bool = False

    @property
    def address(self) -> str:
        peer = self.writer.get_extra_info("peername")
        return str(peer[0]) if peer else "unknown"


@dataclass(frozen=True, slots=True)
class Errand:
    """A request, the workspace it is for and where that answers; `seen` is told of activity."""

    request: Request
    name: str
    prefix: PathPrefix
    upstream: Upstream
    seen: Callable[[], None]

    @property
    def base(self) -> str:
        return f"/w/{self.name}"


async def forward(errand: Errand, client: Client) -> None:
    """Do the errand. Raises Bad or NoAnswer while the client can still be told, then Gone."""
    framing = request_framing(errand.request.head)
    waits = _expects_continue(errand.request.head) and not framing.empty
    reader, writer = await _connect(errand.upstream)
    try:
        writer.write(_request_head(errand, client, framing))
        if errand.request.upgrade and framing.empty:
            await _answer(errand, client, reader, writer)
            return
        if waits:
            client.writer.write(_CONTINUE)
        await _exchange(errand, client, reader, writer, framing)
    except ConnectionError as error:
        raise (Gone() if client.begun else NoAnswer()) from error
    finally:
        writer.transport.abort()


async def _connect(upstream: Upstream) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await asyncio.open_connection(upstream.host, upstream.port, limit=HEAD_LIMIT)
    except (OSError, TimeoutError) as error:
        raise NoAnswer from error


async def _exchange(
    errand: Errand,
    client: Client,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    framing: Framing,
) -> None:
    """Send the body and receive the answer at once: an answer may come before the body's end."""
    sending = asyncio.create_task(_send(client, writer, framing))
    answering = asyncio.create_task(_answer(errand, client, reader, writer))
    try:
        await asyncio.wait({sending, answering}, return_when=asyncio.FIRST_COMPLETED)
        if sending.done() and not answering.done():
            sending.result()
        await answering
    finally:
        for task in (sending, answering):
            task.cancel()
        await asyncio.gather(sending, answering, return_exceptions=True)


async def _send(client: Client, writer: asyncio.StreamWriter, framing: Framing) -> None:
    """The request's body to the workspace, then watch: a client that leaves ends the errand."""
    try:
        if not framing.empty:
            await copy(client.reader, writer, framing, idle=IDLE_SECONDS)
    except (Cut, TimeoutError) as error:
        raise Gone from error
    except Bad as error:
        raise (Gone() if client.begun else error) from error
    except ConnectionError:
        # The workspace has heard enough; what it has to say is still to come.
        return
    if not await client.reader.read(1):
        raise Gone


async def _answer(
    errand: Errand, client: Client, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    status, reason, head = await _final_head(errand.request, reader)
    if status == HTTPStatus.SWITCHING_PROTOCOLS:
        client.begun = client.upgraded = True
        client.writer.write(_switching_head(head))
        await splice((client.reader, client.writer), (reader, writer), errand.seen)
        return
    try:
        framing = response_framing(head, method=errand.request.method, status=status)
    except Bad as error:
        raise NoAnswer from error
    client.begun = True
    client.writer.write(_response_head(errand, status, reason, head, framing))
    if _counts(errand.request, status):
        errand.seen()
    try:
        await copy(reader, client.writer, framing)
    except (Cut, Bad, ConnectionError) as error:
        raise Gone from error


async def _final_head(request: Request, reader: asyncio.StreamReader) -> tuple[int, str, Head]:
    """The head of the answer proper; interim ones are for us, and 101 only if it was asked for."""
    while True:
        try:
            head = await read_head(reader)
            status, reason = parse_status(head) if head else (0, "")
        except Bad as error:
            raise NoAnswer from error
        if head is None or (status == HTTPStatus.SWITCHING_PROTOCOLS and not request.upgrade):
            raise NoAnswer
        if status >= HTTPStatus.OK or status == HTTPStatus.SWITCHING_PROTOCOLS:
            return status, reason, head


def _request_head(errand: Errand, client: Client, framing: Framing) -> bytes:
    request = errand.request
    target = request.target
    if errand.prefix is PathPrefix.STRIP:
        target = target[len(errand.base) :]
    host = request.head.get("host") or ""
    headers = [
        ("Host", host),
        *kept_headers(request.head, _OURS),
        ("X-Forwarded-For", client.address),
        ("X-Forwarded-Host", host),
        ("X-Forwarded-Proto", "http"),
        ("X-Forwarded-Prefix", errand.base),
    ]
    if framing.chunked:
        headers.append(("Transfer-Encoding", "chunked"))
    elif request.head.get("content-length") is not None:
        headers.append(("Content-Length", str(framing.length)))
    upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket")]
    headers += upgrade if request.upgrade and framing.empty else [("Connection", "close")]
    return write_head(f"{request.method} {target} HTTP/1.1", headers)


def _switching_head(head: Head) -> bytes:
    upgrade = (("Connection", "Upgrade"), ("Upgrade", "websocket"))
    return write_head("HTTP/1.1 101 Switching Protocols", [*kept_headers(head), *upgrade])


def _response_head(errand: Errand, status: int, reason: str, head: Head, framing: Framing) -> bytes:
    headers = [*_relocated(errand, kept_headers(head))]
    if framing.length is None:
        headers.append(("Transfer-Encoding", "chunked"))
    headers.append(("Connection", "close"))
    return write_head(f"HTTP/1.1 {status} {reason}", headers)


def _relocated(errand: Errand, headers: Headers) -> Headers:
    host = errand.request.head.get("host") or ""
    return tuple(
        (name, relocate(value, errand, host) if name.lower() == "location" else value)
        for name, value in headers
    )


def relocate(location: str, errand: Errand, host: str) -> str:
    """A redirect as the browser must see it: paths of the application lie below its prefix.

    Where it names this very host, only its path counts. Leading `//` and `/\\` would name another
    host, which an application that means a path cannot have meant.
    """
    own = f"http://{host}/"
    path = location[len(own) - 1 :] if location.lower().startswith(own.lower()) else location
    if not path.startswith("/"):
        return location
    path = "/" + path.lstrip("/\\")
    below = path == errand.base or path.startswith((f"{errand.base}/", f"{errand.base}?"))
    return path if below or errand.prefix is PathPrefix.KEEP else errand.base + path


def _expects_continue(head: Head) -> bool:
    expected = head.tokens("expect")
    if expected - {"100-continue"}:
        raise Bad(HTTPStatus.EXPECTATION_FAILED, "the only expectation met here is 100-continue")
    return bool(expected)


def _counts(request: Request, status: int) -> bool:
    """Whether an answer is activity: a success, unless the caller says that nobody is there."""
    success = HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES
    there = request.head.get(NO_ACTIVITY) is None
    return there and (success or status == HTTPStatus.NOT_MODIFIED)
