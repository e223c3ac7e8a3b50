"""The OpenAPI document shows an example of everything that is sent and told, and they are true."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from codehub.model.plan import Action, Change, FieldChange, Kind, Plan, Summary
from codehub.model.workspace import Source
from codehub.render.plan_formats import render_plan
from codehub.render.report_html import report_html
from codehub.render.report_json import report_json
from codehub.render.report_markdown import report_markdown
from codehub.web.api.forms import MEDIA_TYPES, Form
from codehub.web.api.plan_shapes import EXAMPLE
from tests.snapshots import report_cases
from tests.web.plan_world import PLAN, SPECS, write_files
from tests.web.web_world import API

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

pytestmark = pytest.mark.anyio

Place = tuple[str, dict[str, Any]]
Document = dict[str, Any]
LEFT_OUT = "…\n"


@pytest.fixture
async def document(stranger: httpx.AsyncClient) -> Document:
    found: Document = (await stranger.get(f"{API}/openapi.json")).raise_for_status().json()
    return found


def places(document: Document) -> Iterator[Place]:
    """Everything that must have an example: what it is called, and what is said of it."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield from _of_operation(f"{method.upper()} {path}", operation)


def _of_operation(name: str, operation: dict[str, Any]) -> Iterator[Place]:
    for each in operation.get("parameters", ()):
        yield f"{name}: {each['in']} {each['name']}", each
    for kind, said in operation.get("requestBody", {}).get("content", {}).items():
        yield f"{name}: body {kind}", said
    for status, response in operation["responses"].items():
        for kind, said in response.get("content", {}).items():
            yield f"{name}: {status} {kind}", said
        for header, said in response.get("headers", {}).items():
            yield f"{name}: {status} header {header}", said


def resolved(schema: dict[str, Any], document: Document) -> dict[str, Any]:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def examples(said: dict[str, Any], document: Document) -> list[Any]:
    """Those of a parameter or a body, with those of its schema."""
    schema = resolved(said["schema"], document)
    found = [each["example"] for each in (said, schema) if "example" in each]
    found += [each["value"] for each in said.get("examples", {}).values() if "value" in each]
    return found + list(schema.get("examples", ()))


def instructions(said: dict[str, Any]) -> list[str]:
    """Commands that make an example, where none can stand in a document."""
    told = (each.get("description", "") for each in said.get("examples", {}).values())
    return [each.partition("```sh\n")[2].partition("\n```")[0] for each in told]


def output_of(command: str, cwd: Path) -> bytes:
    return subprocess.run(shlex.split(command), cwd=cwd, capture_output=True, check=True).stdout


def is_binary(said: dict[str, Any]) -> bool:
    return bool(said["schema"].get("format") == "binary")


async def test_everything_has_an_example(document: Document) -> None:
    found = dict(places(document))
    assert f"POST {API}/plan: body application/gzip" in found
    assert f"GET {API}/workspaces/{{name}}/logs: 200 text/plain" in found
    assert f"GET {API}/events: 200 text/event-stream" in found
    without = [
        name
        for name, said in found.items()
        if not (any(instructions(said)) if is_binary(said) else examples(said, document))
    ]
    assert without == []


async def test_every_example_is_as_its_schema_says(document: Document) -> None:
    checked = 0
    for name, said in places(document):
        whole = said["schema"] | {"components": document["components"]}
        judge = Draft202012Validator(whole, format_checker=Draft202012Validator.FORMAT_CHECKER)
        for each in examples(said, document):
            wrong = [error.message for error in judge.iter_errors(each)]
            assert wrong == [], name
            checked += 1
    assert checked > 100


async def test_every_answer_that_has_a_body_says_which(document: Document) -> None:
    """An answer without a described body would need no example, and pass unseen."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for status, response in operation["responses"].items():
                bare = status in ("204", "304")
                assert ("content" in response) != bare, (method, path, status)


async def test_the_examples_of_problems_are_of_their_status(document: Document) -> None:
    for name, said in places(document):
        if name.endswith("application/problem+json"):
            assert str(said["example"]["status"]) in name


# What they show is what is told


def told(document: Document, path: str, method: str) -> dict[str, Any]:
    """The example of each form that something can be had in."""
    content = document["paths"][f"{API}{path}"][method]["responses"]["200"]["content"]
    found = {form.value: content.get(MEDIA_TYPES[form]) for form in Form}
    return {form: examples(said, document)[0] for form, said in found.items() if said is not None}


def assert_cut_from(example: str, whole: str) -> None:
    """Its parts are in the whole, in this order, from the beginning."""
    first, *parts = example.split(LEFT_OUT)
    assert whole.startswith(first)
    rest = whole.removeprefix(first)
    for part in filter(None, parts):
        _, found, rest = rest.partition(part)
        assert found == part


async def test_the_plans_are_one_and_the_same(document: Document) -> None:
    field = EXAMPLE["changes"][0]["fields"][0]
    plan = Plan(
        digest=EXAMPLE["specs"]["digest"],
        made_at=datetime.fromisoformat(EXAMPLE["madeAt"]),
        directory="specs",
        hub_id=EXAMPLE["hub"]["id"],
        base_revision=EXAMPLE["hub"]["revision"],
        base_digest=EXAMPLE["hub"]["digest"],
        summary=Summary(update=1),
        changes=(
            Change(
                Kind.WORKSPACE,
                "payments-api",
                Action.UPDATE,
                Source("specs/payments.yaml", 12),
                (FieldChange("image", field["old"], field["new"], field["effect"]),),
                ("STANDBY",),
                seen=EXAMPLE["changes"][0]["seen"],
            ),
        ),
    )
    shown = told(document, "/plan", "post")
    assert sorted(shown) == ["html", "json", "md", "text"]
    assert json.loads(render_plan(plan, "json")) == shown["json"]
    for form in ("md", "text", "html"):
        assert_cut_from(shown[form], render_plan(plan, form))


async def test_the_reports_are_one_and_the_same(document: Document) -> None:
    report = report_cases.everything()
    shown = told(document, "/report", "get")
    assert sorted(shown) == ["html", "json", "md"]
    assert_cut_from(shown["md"], report_markdown(report))
    assert_cut_from(shown["html"], report_html(report))
    whole = json.loads(report_json(report))
    for key, value in shown["json"].items():
        if isinstance(value, list):
            assert [each for each in whole[key] if each in value] == value, key
        else:
            assert whole[key] == value, key


@pytest.mark.parametrize("kind", ["application/x-tar", "application/gzip"])
async def test_a_packed_body_is_made_as_the_document_says(
    document: Document, root: httpx.AsyncClient, tmp_path: Path, kind: str
) -> None:
    """The command up to the pipe is run; what comes of it is sent with the command's headers."""
    body = document["paths"][PLAN]["post"]["requestBody"]["content"][kind]
    (command,) = instructions(body)
    tar, _, curl = command.partition(" | ")
    write_files(tmp_path / "specs")
    packed = await asyncio.to_thread(output_of, tar, tmp_path)
    words = shlex.split(curl)
    assert f"Content-Type: {kind}" in words
    target = words[-1].removeprefix("$HUB")
    made = await root.post(target, content=packed, headers={"Content-Type": kind})
    assert made.status_code == 200, made.text
    assert made.text.startswith("Plan for specs, ")
    assert "workspace new " in made.text
    assert "team/new.yaml" in SPECS
