"""The canonical order of fields, read off the models: there is no second list to keep in step."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, get_args

from pydantic import BaseModel

from codehub.model.spec import DOCUMENTS, Metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codehub.specs.order import Order


@cache
def field_order(kind: str) -> Order:
    """The fields of a document of this kind, each with the order of its own fields.

    Of an unknown kind only the envelope is known.
    """
    model = DOCUMENTS.get(kind)
    if model is not None:
        return _order(model)
    return {"apiVersion": {}, "kind": {}, "metadata": _order(Metadata), "spec": {}}


def _order(model: type[BaseModel]) -> Order:
    found: dict[str, Order] = {}
    for name, field in model.model_fields.items():
        inner = next(_models(field.annotation), None)
        found[field.alias or name] = _order(inner) if inner else {}
    return found


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    """The models within an annotation such as `list[X]` or `X | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)
