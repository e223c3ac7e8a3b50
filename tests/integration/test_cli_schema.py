"""`codehub schema`: the schema on stdout, or in the file that the example specs name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from jsonschema import Draft202012Validator

from codehub.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_it_prints_a_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema"]) == 0

    schema = json.loads(capsys.readouterr().out)
    Draft202012Validator.check_schema(schema)
    assert schema["properties"]["kind"]["enum"] == ["Workspace", "TTLPolicy", "User", "Hub"]


def test_it_writes_the_file_that_the_examples_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run(["init"])
    capsys.readouterr()

    assert run(["schema", "--out", "specs/.codehub.schema.json"]) == 0

    said = capsys.readouterr()
    written = tmp_path / "specs" / ".codehub.schema.json"
    assert json.loads(written.read_text())["title"] == "CodeHub spec"
    assert (said.out, said.err) == ("", "schema written to specs/.codehub.schema.json\n")
    assert run(["validate"]) == 0


def test_a_place_that_cannot_be_written_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["schema", "--out", str(tmp_path / "no" / "schema.json")]) == 1

    assert "cannot be written" in capsys.readouterr().err
