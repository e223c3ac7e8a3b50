"""`codehub.ports.Notifier` over HTTP/1.1: one connection for each post, closed after it.

Written on asyncio's streams, because all that is needed is little, and what matters are the
limits: a time for connecting and one for everything, a head and a body of bounded size, names
looked up in threads of their own (a dead resolver would fill the pool that others wait for), and
no redirect, proxy or cookie. TLS is verified by the system's authorities.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cached_property
from threading import Thread
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from codehub.errors import Unreachable
from codehub.model.webhook import Answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
    Found = list[tuple[Any, ...]]

CONNECT: Final = 5.0
TOTAL: Final = 15.0
REST: Final = 2.0
"""Seconds for the body, of which nothing is needed: it is read so that the sender can end well."""
HEAD: Final = 32 * 1024
BODY: Final = 4 * 1024
INTERIM: Final = 8
"""Answers of 1xx before the real one."""
LONGEST: Final = timedelta(days=7)
"""However long a receiver asks to be left alone."""

_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])(?: [^\r\n]*)?")
_KEPT: Final = "%/:=&?~#+!$,;'@()*[]-._"
"""What stands in an address as it is; spaces and the like are escaped."""


@dataclass(frozen=True, slots=True)
class _Target:
    host: str
    port: int
    secure: bool
    authority: str
    path: str


class HttpPost:
    """Posts as `agent`. `context` is for receivers whose certificates the system does not know."""

    def __init__(
        self,
        agent: str,
        *,
        connect_seconds: float = CONNECT,
        total_seconds: float = TOTAL,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._agent = agent
        self._connect_seconds = connect_seconds
        self._total_seconds = total_seconds
        self._given = context

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        target = _target(url)
        with _speaking_of(target):
            try:
                async with asyncio.timeout(self._total_seconds):
                    async with self._connected(target) as (reader, writer):
                        writer.write(self._request(target, headers, body) + body)
                        await writer.drain()
                        return await _answer(reader)
            except TimeoutError:
                raise Unreachable(
                    f"{target.host} gave no answer within {self._total_seconds:g} s"
                ) from None

    async def reach(self, url: str) -> None:
        """Connect, and say nothing; raises Unreachable. For check-ups."""
        target = _target(url)
        with _speaking_of(target):
            async with self._connected(target):
                pass

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return self._given or ssl.create_default_context()

    @asynccontextmanager
    async def _connected(self, target: _Target) -> AsyncIterator[Streams]:
        try:
            async with asyncio.timeout(self._connect_seconds):
                streams = await self._connect(target)
        except TimeoutError:
            raise Unreachable(
                f"{target.host} could not be connected to within {self._connect_seconds:g} s"
            ) from None
        try:
            yield streams
        finally:
            streams[1].transport.abort()

    async def _connect(self, target: _Target) -> Streams:
        """The first of its addresses that takes us."""
        secure: dict[str, Any] = {}
        if target.secure:
            secure = {"ssl": self._context, "server_hostname": target.host}
        failure: OSError | None = None
        for family, _, _, _, where in await _look_up(target):
            try:
                return await asyncio.open_connection(
                    where[0], where[1], family=family, limit=HEAD, **secure
                )
            except ssl.SSLError:
                raise
            except OSError as error:
                failure = error
        raise failure or OSError("it has no address")

    def _request(self, target: _Target, headers: Mapping[str, str], body: bytes) -> bytes:
        lines = [
            f"POST {target.path} HTTP/1.1",
            f"Host: {target.authority}",
            f"User-Agent: {self._agent}",
            "Content-Type: application/json",
            "Accept: */*",
            "Connection: close",
            f"Content-Length: {len(body)}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        return "\r\n".join([*lines, "", ""]).encode("ascii")


async def _answer(reader: asyncio.StreamReader) -> Answer:
    for _ in range(INTERIM):
        lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        found = _STATUS.fullmatch(lines[0])
        if found is None:
            break
        status = int(found[1])
        if status >= 200:
            fields = _fields(lines[1:])
            await _finish(reader, fields)
            return Answer(status, _retry_after(fields.get("retry-after", "")))
    raise ValueError("no answer in HTTP")


def _fields(lines: list[bytes]) -> dict[str, str]:
    """The fields of a head, as far as anybody here looks at them."""
    pairs = (line.decode("latin-1").partition(":") for line in lines)
    return {name.lower(): value.strip() for name, _, value in pairs}


async def _finish(reader: asyncio.StreamReader, fields: dict[str, str]) -> None:
    """Read what is left of it, within bounds; the answer is known, so nothing here undoes it."""
    length = fields.get("content-length", "")
    left = min(BODY, int(length)) if length.isdecimal() and len(length) < 10 else BODY
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(REST):
            while left > 0 and (piece := await reader.read(left)):
                left -= len(piece)


def _retry_after(text: str) -> timedelta | None:
    """Seconds, or a date; anything else was not said."""
    if text.isdecimal():
        return min(timedelta(seconds=int(text[:9])), LONGEST)
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    wait = (until if until.tzinfo else until.replace(tzinfo=UTC)) - datetime.now(UTC)
    return max(timedelta(0), min(wait, LONGEST))


def _target(url: str) -> _Target:
    """Where an address leads; specs are checked, but rows may be older than the check."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode()
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (ValueError, KeyError):
        host = ""
    if not host:
        raise Unreachable("its address cannot be used", hint="correct it in the specs")
    shown = f"[{host}]" if ":" in host else host
    path = quote(parts.path or "/", safe=_KEPT)
    query = f"?{quote(parts.query, safe=_KEPT)}" if parts.query else ""
    authority = f"{shown}:{parts.port}" if parts.port else shown
    return _Target(host, port, parts.scheme == "https", authority, path + query)


@contextmanager
def _speaking_of(target: _Target) -> Iterator[None]:
    """What goes wrong on the way, in words that name the host and nothing else of the address."""
    host = target.host
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        said = f"the certificate of {host} is not trusted: {error.verify_message}"
        raise Unreachable(said, hint="give it one that this machine's authorities signed") from None
    except ssl.SSLError:
        raise Unreachable(f"{host} does not speak TLS as it should") from None
    except socket.gaierror:
        raise Unreachable(f"the name {host} cannot be resolved") from None
    except OSError as error:
        said = os.strerror(error.errno) if error.errno else "the connection was lost"
        raise Unreachable(f"{host} cannot be reached: {said}") from None
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        raise Unreachable(f"{host} gave no answer in HTTP") from None


async def _look_up(target: _Target) -> Found:
    """The addresses of a host, in a thread that nobody waits for once time is up."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Found] = loop.create_future()

    def settle(found: Found | OSError) -> None:
        if answer.done():
            return
        if isinstance(found, OSError):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def ask() -> None:
        found: Found | OSError
        try:
            found = [*socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)]
        except OSError as error:
            found = error
        # The loop is closed when this comes too late, and nobody wants it any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, found)

    Thread(target=ask, daemon=True, name="codehub-lookup").start()
    return await answer
