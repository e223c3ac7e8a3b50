"""HTTP/1.1 as far as one small page needs it: heads and bodies with limits, plain responses."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BODY: Final = 2**20
HEAD_SECONDS: Final = 75
BODY_SECONDS: Final = 30
_BODILESS: Final = frozenset({HTTPStatus.SWITCHING_PROTOCOLS, HTTPStatus.NO_CONTENT})
_SECURITY: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Request:
    """One request; names of headers are in small letters, repeated ones are joined."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def has_token(self, header: str, token: str) -> bool:
        """Whether a comma-separated header names `token`."""
        return token in (part.strip().lower() for part in self.headers.get(header, "").split(","))


@dataclass(frozen=True, slots=True)
class Response:
    """One response; what every response carries is added when it is written."""

    status: HTTPStatus
    body: bytes = b""
    media_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)

    def encode(self, *, head_only: bool = False, close: bool = False) -> bytes:
        about = {"Content-Type": self.media_type, "Content-Length": str(len(self.body))}
        headers = {
            **({} if self.status in _BODILESS else about),
            "Cache-Control": "no-cache",
            **_SECURITY,
            **self.headers,
            **({"Connection": "close"} if close else {}),
        }
        lines = [f"HTTP/1.1 {self.status.value} {self.status.phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        return head if head_only else head + self.body


class Bad(Exception):
    """A request that cannot be read; the connection ends with this response."""

    def __init__(self, status: HTTPStatus, reason: str, **headers: str) -> None:
        super().__init__(reason)
        self.response = answer(status, reason, **headers)


def answer(status: HTTPStatus, text: str, **headers: str) -> Response:
    """A line of text; underscores in header names stand for dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, f"{text}\n".encode(), headers=named)


def answer_json(value: object) -> Response:
    return Response(HTTPStatus.OK, json.dumps(value).encode(), "application/json")


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """The next request; None when the client has gone or says nothing more."""
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, TimeoutError):
        return None
    except asyncio.LimitOverrunError:
        raise Bad(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head is too large") from None
    request = parse_head(head)
    length = _body_length(request)
    if not length:
        return request
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await reader.readexactly(length)
    except (asyncio.IncompleteReadError, TimeoutError):
        return None
    return Request(request.method, request.path, request.headers, body)


def parse_head(head: bytes) -> Request:
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or words[2] != "HTTP/1.1" or not words[1].startswith("/"):
        raise Bad(HTTPStatus.BAD_REQUEST, "this is not an HTTP/1.1 request")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or any(each in line for each in "\r\n\0"):
            raise Bad(HTTPStatus.BAD_REQUEST, "a header cannot be read")
        before = headers.get(name.lower())
        headers[name.lower()] = value.strip() if before is None else f"{before}, {value.strip()}"
    return Request(words[0], words[1].partition("?")[0], headers)


def _body_length(request: Request) -> int:
    if "transfer-encoding" in request.headers:
        raise Bad(HTTPStatus.LENGTH_REQUIRED, "send the body with a Content-Length")
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise Bad(HTTPStatus.BAD_REQUEST, "the Content-Length is not a number")
    if len(length) > 12 or int(length) > MAX_BODY:
        raise Bad(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "at most 1 MiB")
    return int(length)
