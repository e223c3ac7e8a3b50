"""In which form something is told: as `format` asks, else as `Accept` does, else as JSON."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from fastapi.responses import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codehub.web.shapes import Shape


class Form(StrEnum):
    JSON = "json"
    MARKDOWN = "md"
    HTML = "html"
    TEXT = "text"


MEDIA_TYPES: Final = {
    Form.JSON: "application/json",
    Form.MARKDOWN: "text/markdown",
    Form.HTML: "text/html",
    Form.TEXT: "text/plain",
}
# These pages are whole files: each says itself what it may load, and a stricter word of ours
# would take away its style.
_PAGE: Final = {"Content-Security-Policy": "frame-ancestors 'none'"}


def choose(asked: str | None, accept: str, offered: tuple[Form, ...]) -> Form:
    """The form to answer in; one that nobody asked for, JSON, where nothing fits."""
    if asked is not None:
        return Form(asked)
    by_type = {MEDIA_TYPES[form]: form for form in offered}
    for wanted in _by_preference(accept):
        if wanted in by_type:
            return by_type[wanted]
        if wanted in ("*/*", "application/*"):
            return Form.JSON
    return Form.JSON


def answer(text: str, form: Form) -> Response:
    """The text as an answer in this form."""
    kind = MEDIA_TYPES[form]
    charset = "" if form is Form.JSON else "; charset=utf-8"
    return Response(text, media_type=kind + charset, headers=_PAGE if form is Form.HTML else None)


def contents(shape: type[Shape], examples: Mapping[Form, str]) -> dict[str, Any]:
    """For the document: an answer in JSON, whose shape has an example, and in each other form."""
    told: dict[str, Any] = {
        MEDIA_TYPES[form]: {"schema": {"type": "string"}, "example": example}
        for form, example in examples.items()
    }
    schema = {"$ref": f"#/components/schemas/{shape.__name__}"}
    return {MEDIA_TYPES[Form.JSON]: {"schema": schema}} | told


def _by_preference(accept: str) -> list[str]:
    """The types of an Accept header, the dearest first; of equals, the one that stands first."""
    wanted = []
    for place, part in enumerate(accept.lower().split(",")):
        kind, *parameters = (each.strip() for each in part.split(";"))
        weight = next((each[2:] for each in parameters if each.startswith("q=")), "1")
        if kind and _number(weight) > 0:
            wanted.append((-_number(weight), place, kind))
    return [kind for _, _, kind in sorted(wanted)]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
