"""What the OpenAPI document says of every route: how to show who one is, and what can go wrong.

A route names the statuses that are its own (`problems(404, 409)`); what every route has in common
is added here, so that none of them can forget it.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from codehub.web.problems import MEDIA_TYPE
from codehub.web.shapes import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi import FastAPI

_REF: Final = "#/components/schemas/{model}"
_WHY: Final = {
    400: "The request cannot be read.",
    401: "Nobody is logged in, and no token is shown that counts.",
    403: "They are known, and this is not for them: the token has another scope, it is for admins, "
    "or the request comes from another site's page.",
    404: "There is no such thing, or it is somebody else's: nobody can tell which.",
    406: "It cannot be had in a form that was asked for.",
    408: "The body took too long to arrive.",
    409: "Something is in the way: an operation under way, an ERROR, the specs, an override, or a "
    "name that is taken.",
    412: "It has changed since: the `If-Match` does not fit any more.",
    413: "The body is too large.",
    415: "The body is of a type that is not understood here.",
    422: "Something in the request is not as it should be; `errors` or `problems` say what.",
    428: "Say which state this is about, with `If-Match`.",
    429: "A limit is reached. `Retry-After` says when to try again.",
    500: "The hub made a mistake; its log tells more.",
    501: "This process cannot do it.",
    503: "The database, or what else it takes, gives no answer, or too much is asked at once. "
    "`Retry-After` says when to try again.",
}
_EVERYWHERE: Final = (401, 403, 500, 503)
_LATER: Final = (429, 503)


class SpecProblem(BaseModel):
    """One thing that is wrong in specs; null for what is not known of it."""

    file: str
    line: int | None
    column: int | None
    field: str | None
    message: str
    excerpt: str | None = Field(description="The line itself, where it may be shown.")


class InvalidField(BaseModel):
    """One thing about a request that is not as it should be."""

    where: str
    message: str


class Problem(BaseModel):
    """What went wrong (RFC 9457). Fields that say nothing here are left out."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "example": {
                "title": "Conflict",
                "status": 409,
                "detail": "payments-api is busy: STARTING is under way",
                "hint": "ask again when it is done",
                "requestId": "9f1c0a2b7d3e4f50",
            }
        },
    )

    title: str = Field(description="The status in words.")
    status: int = Field(ge=400, le=599, description="The HTTP status.")
    detail: str = Field(description="One sentence on what is wrong.")
    hint: str = Field("", description="What to do about it.")
    request_id: str = Field(
        "",
        alias="requestId",
        description="What the hub's log has it under; `X-Request-Id` is the same.",
    )
    errors: list[InvalidField] = Field([], description="With 422: what is wrong where.")
    problems: list[SpecProblem] = Field([], description="With 422: what is wrong in the specs.")
    limit: int = Field(0, description="With a limit that is reached: how many may run.")
    position: int = Field(0, description="With a limit: which number this one would be.")
    running: list[str] = Field([], description="With a limit: the owner's own that run or wait.")


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For a route's `responses`: what can go wrong there beside what can anywhere."""
    return {status: _told(status) for status in statuses}


def describe(app: FastAPI) -> None:
    """Complete the document that the application makes of its routes."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(make())
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    made = Problem.model_json_schema(ref_template=_REF)
    schemas |= made.pop("$defs") | {"Problem": made}
    _put_examples_back(schemas)
    document["components"]["securitySchemes"] = _SECURITY
    document["security"] = [{name: []} for name in _SECURITY]
    for path in document["paths"].values():
        for operation in path.values():
            _complete(operation)
    return document


def _put_examples_back(schemas: dict[str, Any]) -> None:
    """FastAPI leaves out of them what is null, and so what a shape must have."""
    for shape in _shapes(Shape):
        extra = shape.model_config.get("json_schema_extra")
        if shape.__name__ in schemas and isinstance(extra, dict) and "example" in extra:
            schemas[shape.__name__]["example"] = extra["example"]


def _shapes(kind: type[Shape]) -> Iterator[type[Shape]]:
    for each in kind.__subclasses__():
        yield each
        yield from _shapes(each)


def _complete(operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    usual = (*_EVERYWHERE, *((400, 422) if "requestBody" in operation else ()))
    for status in usual:
        responses.setdefault(str(status), _told(status))
    # FastAPI's own words for what is invalid, in a form that this hub does not use.
    if "422" in responses and MEDIA_TYPE not in responses["422"].get("content", {}):
        responses["422"] = _told(422)
    operation["responses"] = dict(sorted(responses.items()))


def _told(status: int) -> dict[str, Any]:
    said = {"title": HTTPStatus(status).phrase, "status": status, "detail": _WHY[status]}
    schema = {"$ref": _REF.format(model="Problem")}
    told: dict[str, Any] = {
        "description": _WHY[status],
        "content": {MEDIA_TYPE: {"schema": schema, "example": said}},
        "headers": {"X-Request-Id": {"schema": {"type": "string"}, "example": "9f1c0a2b7d3e4f50"}},
    }
    if status in _LATER:
        told["headers"]["Retry-After"] = {"schema": {"type": "string"}, "example": "2"}
    return told


_SECURITY: Final = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `codehub token create`, or of `POST /api/v1/tokens`.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "codehub",
        "description": "A login in a browser (`__Host-codehub` with TLS). What changes something "
        "must come from a page of the hub and carry `X-CSRF-Token`, which `/me` tells.",
    },
}
