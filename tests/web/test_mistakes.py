"""What goes wrong, foreseen or not: a page for people, a problem for programs, and headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fastapi import APIRouter
from structlog.contextvars import get_contextvars

from codehub.errors import CodeHubError, LimitReached, TooManyTries, Unreachable
from codehub.web import mistakes
from codehub.web.api.report import PLACES
from codehub.web.mistakes import Mistakes
from codehub.web.pages.answering import PageRoute
from tests.web.browsing import NAVIGATION, look
from tests.web.web_world import API

if TYPE_CHECKING:
    import httpx
    from starlette.types import Message, Receive, Scope, Send

    from tests.web.web_world import WebWorld

pytestmark = pytest.mark.anyio

BROKEN = "/broken"
USUAL = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "strict-origin",
    "cache-control": "no-store",
}


async def fail() -> None:
    raise RuntimeError("nobody foresaw this")


def is_usual(headers: httpx.Headers) -> bool:
    policy = headers["content-security-policy"]
    strict = "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    return strict and USUAL.items() <= dict(headers).items()


@pytest.fixture
def broken(world: WebWorld) -> WebWorld:
    """With a page and a route of the API that fail."""
    for path in (BROKEN, f"{API}{BROKEN}"):
        world.app.add_api_route(path, fail)
    return world


async def test_a_page_that_fails_is_a_page(broken: WebWorld, ana: httpx.AsyncClient) -> None:
    page = await look(ana, BROKEN)
    assert page.status == 500
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert f'<p class="soft small">Request {page.headers["x-request-id"]}</p>' in page.text
    assert "That went wrong The hub made a mistake; its log tells more." in page.words
    assert "nobody foresaw" not in page.text
    assert is_usual(page.headers)


@pytest.mark.parametrize(
    ("path", "accept"), [(BROKEN, "application/json"), (f"{API}{BROKEN}", "text/html")]
)
async def test_for_programs_it_is_a_problem(
    broken: WebWorld, ana: httpx.AsyncClient, path: str, accept: str
) -> None:
    told = await ana.get(path, headers={"Accept": accept})
    assert told.status_code == 500
    assert told.headers["content-type"] == "application/problem+json"
    assert told.json() == {
        "title": "Internal Server Error",
        "status": 500,
        "detail": "the hub made a mistake; its log tells more",
        "requestId": told.headers["x-request-id"],
    }
    assert is_usual(told.headers)


async def test_the_log_has_it_under_the_same_name(
    broken: WebWorld, ana: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[object] = []

    def written(*_: object) -> None:
        named.append(get_contextvars()["request_id"])

    monkeypatch.setattr(mistakes.log, "exception", written)
    told = await ana.get(f"{API}{BROKEN}", headers={"X-Request-Id": "req-7"})
    assert told.json()["requestId"] == told.headers["x-request-id"] == "req-7"
    assert named == ["req-7"]


@pytest.mark.parametrize(
    ("path", "status"), [("/api/v1/nowhere", 404), ("/api/v1/workspaces?limit=x", 422)]
)
async def test_every_problem_and_every_answer_says_what_its_request_is_called(
    ana: httpx.AsyncClient, path: str, status: int
) -> None:
    told = await ana.get(path)
    assert told.status_code == status
    assert told.json()["requestId"] == told.headers["x-request-id"]
    well, again = await ana.get("/healthz"), await ana.get("/healthz")
    assert well.headers["x-request-id"] != again.headers["x-request-id"]
    elsewhere = await ana.get("/", headers={"Host": "evil.example"})
    assert elsewhere.status_code == 421
    assert elsewhere.json()["requestId"] == elsewhere.headers["x-request-id"]


async def test_the_head_alone_fails_alike(broken: WebWorld, ana: httpx.AsyncClient) -> None:
    told = await ana.head(f"{API}{BROKEN}")
    assert (told.status_code, told.content) == (500, b"")
    assert is_usual(told.headers)


async def test_what_has_begun_breaks_off() -> None:
    """Whoever serves it has to close the connection: a second answer would be read as the first."""
    sent: list[Message] = []
    start: Message = {"type": "http.response.start", "status": 200, "headers": []}

    async def begin_and_fail(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(start)
        await fail()

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request"}

    scope = {"type": "http", "method": "GET", "path": "/"}
    with pytest.raises(RuntimeError):
        await Mistakes(begin_and_fail)(scope, receive, send)
    assert sent == [start]


def refuse(world: WebWorld, error: CodeHubError) -> None:
    """Have a page refused, as pages are."""
    router = APIRouter(route_class=PageRoute)

    async def raise_it() -> None:
        raise error

    router.add_api_route(BROKEN, raise_it)
    world.app.include_router(router)


@pytest.mark.parametrize(
    ("error", "status", "seconds"),
    [
        (TooManyTries("too many tries", seconds=7.2), 429, range(7, 8)),
        (LimitReached("ana may run 2", limit=2, position=3), 429, range(10, 31)),
        (Unreachable("the database gives no answer"), 503, range(2, 3)),
    ],
)
async def test_a_page_says_when_to_come_again(
    world: WebWorld, ana: httpx.AsyncClient, error: CodeHubError, status: int, seconds: range
) -> None:
    refuse(world, error)
    page = await look(ana, BROKEN)
    assert (page.status, page.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert int(page.headers["retry-after"]) in seconds
    assert (f"Request {page.headers['x-request-id']}" in page.words) == (status >= 500)
    assert is_usual(page.headers)


async def test_so_does_one_for_which_there_is_no_room(ana: httpx.AsyncClient) -> None:
    taken = [PLACES.take() for _ in range(PLACES.free)]
    try:
        page = await look(ana, "/report")
    finally:
        for place in taken:
            place.__exit__(None, None, None)
    assert (page.status, page.headers["retry-after"]) == (503, "3")
    assert page.headers["content-type"] == "text/html; charset=utf-8"


async def test_a_page_says_what_can_be_done_at_its_address(ana: httpx.AsyncClient) -> None:
    told = await ana.put("/tokens", headers=NAVIGATION)
    assert (told.status_code, told.headers["allow"]) == (405, "GET, HEAD, POST")
    assert told.headers["content-type"] == "text/html; charset=utf-8"
