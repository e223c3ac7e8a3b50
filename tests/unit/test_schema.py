"""The JSON Schema knows what the models know of a single document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from codehub.model.spec import DOCUMENTS
from codehub.model.workspace import Source
from codehub.render.spec_page import sample
from codehub.resources import example_specs_directory
from codehub.specs.parse import parse
from codehub.specs.read import check_written
from codehub.specs.schema import document_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codehub.model.document import Written

VALIDATOR = Draft202012Validator(document_schema())
EXAMPLES = sorted(example_specs_directory().rglob("*.yaml"))


def errors(text: str) -> list[str]:
    """What an editor would say, each with the path of its field."""
    found = VALIDATOR.iter_errors(yaml.safe_load(text))
    return [f"{'.'.join(map(str, each.absolute_path))}: {each.message}" for each in found]


def workspace(spec: str, metadata: str = "name: api") -> str:
    head = "apiVersion: codehub.dev/v1\nkind: Workspace\n"
    return f"{head}metadata: {{{metadata}}}\nspec: {{{spec}}}\n"


def test_it_is_a_schema_of_its_dialect() -> None:
    schema = document_schema()

    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_example_specs_pass(path: Any) -> None:
    documents = list(yaml.safe_load_all(path.read_text()))

    assert documents
    assert [error for each in documents for error in VALIDATOR.iter_errors(each)] == []


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_document_with_every_field_passes_the_schema_and_the_model(kind: str) -> None:
    text = sample(DOCUMENTS[kind])

    assert errors(text) == []
    assert DOCUMENTS[kind].model_validate(yaml.safe_load(text)).kind == kind


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (workspace("owner: alice, prot: 8080"), "spec: "),
        (workspace("owner: alice, port: '8080'"), "spec.port: "),
        (workspace("owner: alice, port: 70000"), "spec.port: "),
        (workspace("owner: alice, desiredState: DELETED"), "spec.desiredState: "),
        (workspace("owner: alice, runtime: podman"), "spec.runtime: "),
        (workspace("owner: alice, command: serve"), "spec.command: "),
        (workspace("owner: alice, command: []"), "spec.command: "),
        (workspace("owner: alice, env: {A: 1}"), "spec.env.A: "),
        (workspace("owner: alice, secretEnv: {A: ../x}"), "spec.secretEnv.A: "),
        (workspace("owner: alice, image: null"), "spec.image: "),
        (workspace("owner: alice, ttl: {standby: 3 hours}"), "spec.ttl"),
        (workspace("owner: alice, resources: {disk: 1}"), "spec.resources: "),
        (workspace("description: x"), "spec: 'owner' is a required property"),
        (workspace("owner: alice", metadata="name: Not_A_Label"), "metadata.name: "),
        (workspace("owner: alice", metadata="labels: {}"), "metadata: 'name' is a required"),
        ("apiVersion: codehub.dev/v1\nkind: Pod\nmetadata: {name: x}\n", "kind: "),
        ("apiVersion: v1\nkind: Hub\nmetadata: {name: x}\n", "apiVersion: "),
        ("apiVersion: codehub.dev/v1\nmetadata: {name: x}\n", ": 'kind' is a required property"),
        ("[]", ": [] is not of type 'object'"),
    ],
)
def test_what_validate_refuses_in_one_document_the_schema_refuses_at_its_field(
    text: str, field: str
) -> None:
    found = errors(text)

    assert any(each.startswith(field) for each in found), found
    assert parse(text.encode()).flaws or validated(text).faults


def validated(text: str) -> Written:
    return check_written(yaml.safe_load(text), Source("a.yaml", 1))


def test_a_wrong_field_is_the_only_thing_an_editor_marks() -> None:
    assert len(errors(workspace("owner: alice, port: '8080'"))) == 1


def test_every_field_has_a_title_a_description_and_an_example() -> None:
    fields = list(all_fields(document_schema()))

    assert len(fields) > 40
    for name, field in fields:
        assert field["title"] == name
        assert field["description"].endswith(".")
        assert field["examples"]


def all_fields(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for definition in schema["$defs"].values():
        yield from definition.get("properties", {}).items()
