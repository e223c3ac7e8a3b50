"""What went wrong, as RFC 9457 problems: one sentence, what to do next, and a status.

Every error of ours has its status here; what nobody foresaw is `mistakes.py`'s.
"""

from __future__ import annotations

from http import HTTPStatus
from random import randint
from typing import TYPE_CHECKING, Any, Final

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from codehub.errors import (
    CodeHubError,
    Conflict,
    DatabaseProblem,
    LimitReached,
    NotAllowed,
    NotFound,
    NotLetIn,
    Outdated,
    PlanStale,
    PlanUnsafe,
    Refused,
    SpecsInvalid,
    TooManyTries,
    Unreachable,
    Unsupported,
    UsageError,
)
from codehub.render.validation import problem_data
from codehub.render.words import clean
from codehub.telemetry.logs import this_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI, Request

MEDIA_TYPE: Final = "application/problem+json"
RETRY_SECONDS: Final = 2
LIMIT_SECONDS: Final = (10, 30)

_STATUS: Final[tuple[tuple[type[CodeHubError], HTTPStatus], ...]] = (
    (NotLetIn, HTTPStatus.UNAUTHORIZED),
    (NotAllowed, HTTPStatus.FORBIDDEN),
    (NotFound, HTTPStatus.NOT_FOUND),
    (LimitReached, HTTPStatus.TOO_MANY_REQUESTS),
    (TooManyTries, HTTPStatus.TOO_MANY_REQUESTS),
    (Outdated, HTTPStatus.PRECONDITION_FAILED),
    (Conflict, HTTPStatus.CONFLICT),
    (Refused, HTTPStatus.CONFLICT),
    (PlanStale, HTTPStatus.CONFLICT),
    (PlanUnsafe, HTTPStatus.CONFLICT),
    (SpecsInvalid, HTTPStatus.UNPROCESSABLE_ENTITY),
    (UsageError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (Unsupported, HTTPStatus.NOT_IMPLEMENTED),
    (Unreachable, HTTPStatus.SERVICE_UNAVAILABLE),
    (DatabaseProblem, HTTPStatus.SERVICE_UNAVAILABLE),
)
"""First match wins."""


def status_of(error: CodeHubError) -> HTTPStatus:
    for kind, status in _STATUS:
        if isinstance(error, kind):
            return status
    return HTTPStatus.INTERNAL_SERVER_ERROR


def problem(
    status: HTTPStatus, detail: str, headers: Mapping[str, str] | None = None, **facts: Any
) -> JSONResponse:
    """A problem as an answer; facts that are None are left out.

    Its `requestId` is what the log has it under.
    """
    content = {"title": status.phrase, "status": status.value, "detail": clean(detail)}
    facts["requestId"] = this_request()
    told = {name: value for name, value in facts.items() if value is not None}
    return JSONResponse(content | told, status, dict(headers or {}), MEDIA_TYPE)


def problem_of(error: CodeHubError) -> JSONResponse:
    hint = clean(error.hint) if error.hint else None
    told = headers_of(error)
    return problem(status_of(error), error.message, told, hint=hint, **_facts(error))


def headers_of(error: CodeHubError) -> dict[str, str]:
    """What belongs to an error however it is told: how to be let in, when to come again."""
    if isinstance(error, NotLetIn):
        return {"WWW-Authenticate": 'Bearer realm="codehub"'}
    if isinstance(error, TooManyTries):
        return {"Retry-After": str(max(1, round(error.seconds)))}
    if isinstance(error, LimitReached):
        # Those who were one too many come back after a while, and not all at once.
        return {"Retry-After": str(randint(*LIMIT_SECONDS))}
    if status_of(error) is HTTPStatus.SERVICE_UNAVAILABLE:
        return {"Retry-After": str(RETRY_SECONDS)}
    return {}


def plain_headers(request: Request, error: HTTPException) -> dict[str, str]:
    """The same of an error of the framework's; with 405, what can be done at this address."""
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_methods(request))
    return headers


def add_handlers(app: FastAPI) -> None:
    """Have everything foreseen that goes wrong in this application told as a problem."""

    async def ours(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, CodeHubError)
        return problem_of(error)

    async def plain(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        status = HTTPStatus(error.status_code)
        return problem(status, str(error.detail), plain_headers(request, error))

    async def invalid(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return problem(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "the request is not as it should be",
            errors=[_invalid(each) for each in error.errors()],
        )

    app.add_exception_handler(CodeHubError, ours)
    app.add_exception_handler(HTTPException, plain)
    app.add_exception_handler(RequestValidationError, invalid)


def _methods(request: Request) -> list[str]:
    """What can be done at an address: the router itself names the methods of one route only."""

    def is_served(method: str) -> bool:
        scope = {**request.scope, "method": method}
        return any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)

    found = [method for method in ("DELETE", "GET", "PATCH", "POST", "PUT") if is_served(method)]
    return sorted([*found, "HEAD"]) if "GET" in found else found


def _facts(error: CodeHubError) -> dict[str, Any]:
    if isinstance(error, LimitReached):
        facts = {"limit": error.limit, "position": error.position}
        return facts | {"running": list(error.running)}
    if isinstance(error, SpecsInvalid):
        return {"problems": [problem_data(each) for each in error.problems]}
    if isinstance(error, (PlanUnsafe, PlanStale)):
        reasons = error.reasons if isinstance(error, PlanUnsafe) else error.changes
        return {"reasons": list(reasons)}
    return {}


def _invalid(error: Mapping[str, Any]) -> dict[str, str]:
    """Where and what; not the value, which may be a secret."""
    where = ".".join(str(part) for part in error["loc"])
    return {"where": where, "message": clean(str(error["msg"]))}
