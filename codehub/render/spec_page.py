"""`docs/reference/specs.md`, made from the models: `python -m codehub.render.spec_page`.

A test compares the page with what this makes, so the page cannot say what the code does not.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

import yaml

from codehub.model.scalars import (
    DURATION_PATTERN,
    MEMORY_PATTERN,
    NAME_PATTERN,
    PERCENT_PATTERN,
    SECRET_PATTERN,
)
from codehub.model.spec import DOCUMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import BaseModel

INTRODUCTION: Final = """\
# Specs

<!-- Made by 'python -m codehub.render.spec_page' from codehub/model/spec.py; edit that. -->

A spec directory holds YAML documents, any number in a file, in any layout of `*.yaml` and `*.yml`
files. Each declares one thing. Unknown fields are errors. Only `true` and `false` are booleans,
numbers are decimal, and everything else is text.

| command | does |
|---|---|
| `codehub init` | writes example specs |
| `codehub validate` | lists everything that is wrong, with file, line and column |
| `codehub fmt` | puts fields in the order of this page; comments and all else are kept |
| `codehub schema --out specs/.codehub.schema.json` | writes the JSON Schema for editors |

An editor with a YAML language server completes and checks a file that starts with
`# yaml-language-server: $schema=.codehub.schema.json` (the path is relative to the file).

Every document has `apiVersion: codehub.dev/v1`, a `kind`, a `metadata` with at least a `name`,
and a `spec`. Durations are `90s`, `10m`, `3h`, `7d` or seconds.
"""

Schema = dict[str, Any]

_TEXTS: Final = {
    NAME_PATTERN: "name",
    SECRET_PATTERN: "name of a secret",
    DURATION_PATTERN: "duration",
    MEMORY_PATTERN: "size",
    PERCENT_PATTERN: "percentage",
}


def spec_page() -> str:
    """The whole page."""
    sections = (_section(kind, model) for kind, model in DOCUMENTS.items())
    return INTRODUCTION + "".join(sections)


def sample(model: type[BaseModel]) -> str:
    """A document with every field, each with its first example, in canonical order."""
    schema = model.model_json_schema()
    lines = list(_sample_lines(schema, schema["$defs"]))
    return "\n".join(lines) + "\n"


def _section(kind: str, model: type[BaseModel]) -> str:
    schema = model.model_json_schema()
    tables = "".join(_tables(schema["properties"]["spec"], schema["$defs"], "spec"))
    metadata = "".join(_tables(schema["properties"]["metadata"], schema["$defs"], "metadata"))
    return (
        f"\n## {kind}\n\n{schema['description']}\n\n"
        f"{metadata}\n{tables}\nEvery field at once:\n\n```yaml\n{sample(model)}```\n"
    )


def _tables(field: Schema, definitions: Mapping[str, Schema], path: str) -> Iterator[str]:
    """The table of one mapping, then those of the mappings inside it."""
    model = _model_of(field, definitions)
    if model is None:
        return
    required = model.get("required", ())
    yield f"| `{path}.` | values | default | meaning |\n|---|---|---|---|\n"
    for name, inner in model["properties"].items():
        default = "**required**" if name in required else _default(inner)
        values = _values(inner, definitions)
        yield f"| `{name}` | {values} | {default} | {inner['description']} |\n"
    for name, inner in model["properties"].items():
        deeper = list(_tables(inner, definitions, _deeper(path, name, inner)))
        yield from ["\n", *deeper] if deeper else []


def _deeper(path: str, name: str, field: Schema) -> str:
    return f"{path}.{name}" + ("[]" if field.get("type") == "array" else "")


def _model_of(field: Schema, definitions: Mapping[str, Schema]) -> Schema | None:
    """The mapping with named fields that a field holds, directly, as an item or as one form."""
    for form in (field, field.get("items", {}), *field.get("anyOf", ()), *field.get("oneOf", ())):
        found = definitions.get(str(form.get("$ref", "")).rpartition("/")[2], {})
        if "properties" in found:
            return found
    return None


def _default(field: Schema) -> str:
    value = field.get("default")
    return "" if value in (None, "", [], {}) else f"`{_words(value)}`"


def _words(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _values(field: Schema, definitions: Mapping[str, Schema]) -> str:
    """What may stand there, in few words."""
    if "$ref" in field:
        return _values(definitions[field["$ref"].rpartition("/")[2]], definitions)
    forms = field.get("anyOf") or field.get("oneOf")
    if forms:
        words = list(dict.fromkeys(_values(form, definitions) for form in forms))
        return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    return _plain_values(field, definitions)


def _plain_values(field: Schema, definitions: Mapping[str, Schema]) -> str:
    match field.get("type"):
        case "array":
            return f"list of {_values(field['items'], definitions)}"
        case "object":
            if "properties" in field:
                return "fields below"
            return f"mapping of text to {_values(field['additionalProperties'], definitions)}"
        case "integer" | "number" as number:
            return _number(field, "whole number" if number == "integer" else "number")
        case "boolean":
            return "`true`, `false`"
    return _TEXTS.get(field.get("pattern", ""), "text")


def _number(field: Schema, word: str) -> str:
    low, high = field.get("minimum"), field.get("maximum")
    above = field.get("exclusiveMinimum")
    if above is not None:
        return f"{word} above {above}"
    return word if low is None or high is None or high > 10**8 else f"{word}, {low} to {high:,}"


def _sample_lines(schema: Schema, definitions: Mapping[str, Schema]) -> Iterator[str]:
    for name, field in schema["properties"].items():
        model = _model_of(field, definitions)
        example = field["examples"][0]
        if model is None:
            yield f"{name}: {_flow(example)}"
            continue
        yield f"{name}:"
        for inner, deeper in model["properties"].items():
            value = example.get(inner, deeper["examples"][0])
            yield f"  {inner}: {_flow(_ordered(value, _model_of(deeper, definitions)))}"


def _ordered(value: Any, model: Schema | None) -> Any:
    """pydantic sorts examples by key; a sample has the canonical order."""
    if isinstance(value, list):
        return [_ordered(item, model) for item in value]
    if model is None or not isinstance(value, dict):
        return value
    return {name: value[name] for name in model["properties"] if name in value}


def _flow(value: object) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


if __name__ == "__main__":
    sys.stdout.write(spec_page())
