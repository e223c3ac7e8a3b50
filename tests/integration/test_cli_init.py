"""`codehub init`: all example specs or none, and never over something that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codehub.cli.main import run
from codehub.specs.examples import example_files

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


def test_it_writes_specs_that_pass_validate_and_fmt(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init"]) == 0

    said = capsys.readouterr().out
    assert written(place / "specs") == example_files()
    assert said.startswith("wrote specs/hub.yaml\n")
    assert said.endswith("    codehub validate specs\n    codehub plan specs\n")
    assert run(["validate"]) == 0
    assert run(["fmt", "--check"]) == 0


def test_the_directory_can_be_named_and_is_made(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", "deep/my specs"]) == 0

    assert written(place / "deep" / "my specs") == example_files()
    assert "codehub validate 'deep/my specs'\n" in capsys.readouterr().out


def test_nothing_is_overwritten_and_then_nothing_is_written(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "specs").mkdir()
    (place / "specs" / "users.yaml").write_text("mine")

    assert run(["init"]) == 1

    said = capsys.readouterr()
    assert written(place / "specs") == {"users.yaml": b"mine"}
    assert "nothing was written: specs/users.yaml would be overwritten" in said.err
    assert said.out == ""


def test_other_files_in_the_directory_are_no_obstacle(place: Path) -> None:
    (place / "specs").mkdir()
    (place / "specs" / "README").write_text("mine")

    assert run(["init"]) == 0

    assert written(place / "specs") == {"README": b"mine", **example_files()}


def test_a_dangling_link_is_something_that_is_there(place: Path) -> None:
    (place / "specs").mkdir()
    (place / "specs" / "hub.yaml").symlink_to("/nowhere/hub.yaml")

    assert run(["init"]) == 1

    assert written(place / "specs") == {}


def test_when_writing_fails_midway_what_was_written_goes_again(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A file where the directory of the workspaces belongs: the last files cannot be written.
    (place / "specs").mkdir()
    (place / "specs" / "workspaces").write_text("mine")

    assert run(["init"]) == 1

    assert written(place / "specs") == {"workspaces": b"mine"}
    assert "cannot write" in capsys.readouterr().err


def test_a_file_is_not_a_directory(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "specs").write_text("mine")

    assert run(["init"]) == 1

    assert (place / "specs").read_text() == "mine"
    assert "specs is a file, not a directory" in capsys.readouterr().err
