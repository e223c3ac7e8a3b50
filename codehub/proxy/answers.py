"""What the front itself says: pages for people, problems (RFC 9457) for programs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from codehub.proxy.wire import write_head
from codehub.render.pages import Trouble, Waiting, page
from codehub.render.words import clean

if TYPE_CHECKING:
    from codehub.proxy.wire import Headers, Request

RETRY_SECONDS: Final = 2
_SECURITY: Final = (
    # The pages carry their own policy; only this part of it cannot stand in a page.
    ("Content-Security-Policy", "frame-ancestors 'none'"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
)
_HTML: Final = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Response:
    """One answer of our own; the connection ends with it."""

    status: HTTPStatus
    body: bytes
    media_type: str = "text/plain; charset=utf-8"
    headers: Headers = ()

    def encode(self, *, head_only: bool = False) -> bytes:
        headers = [
            ("Content-Type", self.media_type),
            ("Content-Length", str(len(self.body))),
            *_SECURITY,
            *self.headers,
            ("Connection", "close"),
        ]
        head = write_head(f"HTTP/1.1 {self.status.value} {self.status.phrase}", headers)
        return head if head_only else head + self.body


def line(status: HTTPStatus, text: str) -> Response:
    """A line of text."""
    return Response(status, f"{text}\n".encode())


def html(status: HTTPStatus, body: bytes) -> Response:
    return Response(status, body, _HTML)


def notice(request: Request, status: HTTPStatus, said: Waiting | Trouble) -> Response:
    """The page for somebody who looks at it, the same in JSON for a program."""
    headers: Headers = ()
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers = (("Retry-After", str(RETRY_SECONDS)),)
    if wants_page(request):
        return Response(status, page(said).encode(), _HTML, headers)
    problem = {"title": said.title, "status": status.value, "detail": clean(said.message)}
    if isinstance(said, Trouble) and said.advice:
        problem["advice"] = clean(said.advice)
    body = json.dumps(problem, ensure_ascii=False).encode() + b"\n"
    return Response(status, body, "application/problem+json", headers)


def redirect(target: str) -> Response:
    """To another path of this host, for good."""
    body = b"the address ends with a slash\n"
    headers = (("Location", target),)
    return Response(HTTPStatus.PERMANENT_REDIRECT, body, headers=headers)


def wants_page(request: Request) -> bool:
    """Whether a person will look at the answer: a navigation that takes HTML."""
    if request.method not in ("GET", "HEAD") or request.upgrade:
        return False
    mode = request.head.get("sec-fetch-mode")
    return mode in (None, "navigate") and "text/html" in (request.head.get("accept") or "").lower()


def is_visit(request: Request) -> bool:
    """Whether a person came: a page that shows itself in a frame of another does not wake."""
    destination = request.head.get("sec-fetch-dest")
    return request.method == "GET" and wants_page(request) and destination in (None, "document")
