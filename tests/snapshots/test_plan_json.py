"""The plan for scripts: stable, described by the schema in its reference page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from codehub.model.plan import Summary
from codehub.render.plan_json import plan_json
from codehub.render.words import DECEPTIVE
from tests.snapshots import plan_cases

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "plan-json.md"


class JsonFile(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "json"


@pytest.fixture
def json_snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(JsonFile)


def schema() -> Any:
    blocks = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return json.loads(blocks[-1])


def test_everything_at_once(json_snapshot: SnapshotAssertion) -> None:
    text = plan_json(plan_cases.everything())
    data = json.loads(text)
    assert data["formatVersion"] == 1
    assert list(data["summary"]) == list(Summary.__slots__)
    assert text == json_snapshot


def test_the_sample_of_the_design(json_snapshot: SnapshotAssertion) -> None:
    text = plan_json(plan_cases.sample())
    changes = {each["name"]: each for each in json.loads(text)["changes"]}
    assert changes["payments-api"]["source"] == {"file": "specs/payments.yaml", "line": 3}
    assert text == json_snapshot


CASES = [
    plan_cases.everything,
    plan_cases.sample,
    plan_cases.unchanged,
    plan_cases.first,
    plan_cases.hostile,
]


@pytest.mark.parametrize("case", CASES)
def test_the_documented_schema_holds(case: Any) -> None:
    data = json.loads(plan_json(case()))
    Draft202012Validator.check_schema(schema())
    assert [error.message for error in Draft202012Validator(schema()).iter_errors(data)] == []


def test_the_schema_rejects_what_is_not_documented() -> None:
    data = json.loads(plan_json(plan_cases.everything()))
    data["changes"][0]["surprise"] = 1
    assert not Draft202012Validator(schema()).is_valid(data)


def test_every_field_is_in_the_tables_of_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8").partition("## Schema")[0]
    data = json.loads(plan_json(plan_cases.everything()))
    names = {*data, *data["summary"], *data["changes"][0], *data["changes"][0]["fields"][0]}
    assert {name for name in names if f"`{name}`" not in page} == set()


def test_hostile_values_are_escaped_and_come_back_whole() -> None:
    text = plan_json(plan_cases.hostile())
    assert DECEPTIVE.findall(text.replace("\n", "")) == []
    fields = json.loads(text)["changes"][0]["fields"]
    assert fields[0]["new"] == plan_cases.HOSTILE


def test_nothing_is_shortened() -> None:
    text = plan_json(plan_cases.everything())
    assert "a much longer memo, " * 6 in text
