"""Put into plain sentences what the models refuse.

pydantic's own words speak of inputs and instances; whoever edits a spec wants to read which
field is wrong, what it must be and what it is. Values are quoted through `withhold`, so that no
secret slips into a message.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, get_args

from pydantic import BaseModel

from codehub.core.suggest import did_you_mean
from codehub.core.withhold import is_secret_path, quoted, shown
from codehub.model.problem import Fault
from codehub.model.scalars import Unlike

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_core import ErrorDetails

_TTL_FORMS: Final = ("inline", "name")
_FORMS: Final = {
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
}


def phrase(error: ErrorDetails, model: type[BaseModel]) -> Fault:
    """One of pydantic's errors as a fault with a plain message."""
    path, at_key = _own_path(error["loc"])
    kind = error["type"]
    if kind == "extra_forbidden":
        return Fault(path, _unknown_field(path, model), at_key=True)
    if kind == "missing":
        return Fault(path, "is required")
    return Fault(path, _message(error, path), at_key=at_key)


def one_of(choices: Sequence[str]) -> str:
    """`a, b or c`."""
    return " or ".join(", ".join(choices).rsplit(", ", 1))


def _own_path(loc: Sequence[str | int]) -> tuple[tuple[str | int, ...], bool]:
    """The path in the document: without pydantic's names for alternatives and keys."""
    path = list(loc)
    at_key = bool(path) and path[-1] == "[key]"
    if at_key:
        path.pop()
    if path[:2] == ["spec", "ttl"] and len(path) > 2 and path[2] in _TTL_FORMS:
        del path[2]
    return tuple(path), at_key


def _message(error: ErrorDetails, path: tuple[str | int, ...]) -> str:
    kind, value = error["type"], error.get("input")
    context: dict[str, Any] = error.get("ctx", {})
    if kind == "value_error":
        cause = context["error"]
        return f"{cause}{_but_is(value, path) if isinstance(cause, Unlike) else ''}"
    if kind == "string_type" and isinstance(value, int | float):
        return "must be text: quote it" + ("" if is_secret_path(path) else _example(value))
    if kind in ("enum", "literal_error"):
        return _choice(context["expected"], value, path)
    if kind == "too_short":
        return "must not be empty"
    wanted = _FORMS.get(kind)
    return f"{wanted}{_but_is(value, path)}" if wanted else _lowered(error["msg"])


def _lowered(text: str) -> str:
    """Whatever pydantic says that we do not know yet, in our voice as far as it goes."""
    return re.sub(r"^(Input|Value) should", "must", text)


def _but_is(value: object, path: tuple[str | int, ...]) -> str:
    return "" if is_secret_path(path) or value is None else f", not {shown(value)}"


def _example(value: object) -> str:
    return f', as in "{shown(value)}"'


def _choice(expected: str, value: object, path: tuple[str | int, ...]) -> str:
    choices = re.findall(r"'([^']*)'", expected)
    guess = did_you_mean(value, choices) if isinstance(value, str) else ""
    return f"must be {one_of(choices)}{_but_is(value, path)}{guess}"


def _unknown_field(path: tuple[str | int, ...], model: type[BaseModel]) -> str:
    word = str(path[-1])
    known = _fields(_model_at(model, path[:-1]))
    head = f"unknown field {quoted(word)}"
    for part in ("spec", "metadata"):
        if part not in path and word in _fields(_model_at(model, (part,))):
            return f'{head}; it belongs under "{part}"'
    return head + did_you_mean(word, known)


def _fields(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_at(model: type[BaseModel], path: tuple[str | int, ...]) -> type[BaseModel]:
    """The model that describes what stands at a path; the nearest one above where none does."""
    for part in path:
        for name, field in model.model_fields.items():
            if part in (name, field.alias):
                model = _model_in(field.annotation) or model
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(each) for each in get_args(annotation))
    return next((each for each in found if each), None)
