"""`codehub schema`: one JSON Schema for a spec document of any kind.

It is made from the models, so that an editor knows what `codehub validate` knows of a single
document. Kinds are told apart by if/then on `kind` and not by oneOf: an editor then names the
one wrong field instead of saying that nothing matches.
"""

from __future__ import annotations

import json
from typing import Any, Final

from pydantic import TypeAdapter

from codehub.model.spec import API_VERSION, DOCUMENTS, AnyDocument

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def document_schema() -> dict[str, Any]:
    """The schema, as plain data."""
    adapter: TypeAdapter[object] = TypeAdapter(AnyDocument)
    definitions = adapter.json_schema(by_alias=True)["$defs"]
    return {
        "$schema": DIALECT,
        "title": "CodeHub spec",
        "description": "One document of a CodeHub spec directory.",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata"],
        "properties": {
            "apiVersion": {
                "title": "apiVersion",
                "description": "The version of this format.",
                "const": API_VERSION,
            },
            "kind": _kind(definitions),
        },
        "allOf": [_branch(kind, model.__name__) for kind, model in DOCUMENTS.items()],
        "$defs": {name: _titled(definitions[name]) for name in sorted(definitions)},
    }


def schema_text() -> str:
    """The schema as it is printed and written."""
    return json.dumps(document_schema(), indent=2, ensure_ascii=False) + "\n"


def _titled(definition: dict[str, Any]) -> dict[str, Any]:
    """Editors show titles: a field's is its name as it is written, not pydantic's guess."""
    fields = definition.get("properties", {})
    if not fields:
        return definition
    titled = {name: {**field, "title": name} for name, field in fields.items()}
    return {**definition, "properties": titled}


def _kind(definitions: dict[str, Any]) -> dict[str, Any]:
    meanings = [
        f"{kind}: {definitions[model.__name__]['description']}" for kind, model in DOCUMENTS.items()
    ]
    return {
        "title": "kind",
        "description": "What the document declares. " + " ".join(meanings),
        "enum": list(DOCUMENTS),
    }


def _branch(kind: str, model: str) -> dict[str, Any]:
    return {
        "if": {"required": ["kind"], "properties": {"kind": {"const": kind}}},
        "then": {"$ref": f"#/$defs/{model}"},
    }
