"""`codehub validate`: what is said, to whom, and with which exit code."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from codehub.cli.main import run
from tests.integration.command_line import run_codehub
from tests.integration.spec_files import write_specs, write_workspace

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_specs(tmp_path, "api", "web")


def test_valid_specs_are_counted(specs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate"]) == 0

    said = capsys.readouterr()
    assert said.out == "specs: 4 documents in 3 files are valid (2 workspaces, 2 users).\n"
    assert said.err == ""


def test_one_document_is_spoken_of_in_the_singular(
    specs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in specs.iterdir():
        path.unlink()
    (specs / "hub.yaml").write_text("apiVersion: codehub.dev/v1\nkind: Hub\nmetadata: {name: h}\n")

    assert run(["validate", "specs"]) == 0

    assert capsys.readouterr().out == "specs: 1 document in 1 file is valid (1 hub).\n"


def test_all_problems_are_shown_and_the_exit_code_is_1(
    specs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_workspace(specs, "api", "{owner: alice, image: i, prot: 1}")
    write_workspace(specs, "web", "{owner: alice, image: i, ttl: [x]}")

    assert run(["validate"]) == 1

    said = capsys.readouterr().out.splitlines()
    assert said[0] == 'specs/api.yaml:4:32: spec.prot: unknown field "prot", did you mean "port"?'
    assert said[1] == "    4 | spec: {owner: alice, image: i, prot: 1}"
    assert said[2].index("^") == said[1].index("prot")
    assert said[3].startswith("specs/web.yaml:4:")
    assert said[-1] == "2 problems in 2 files."


def test_json_of_valid_specs_is_stable(specs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "--format", "json"]) == 0

    answer = json.loads(capsys.readouterr().out)
    assert len(answer.pop("digest")) >= 16
    assert answer == {
        "formatVersion": 1,
        "valid": True,
        "directory": "specs",
        "commit": None,
        "documents": 4,
        "files": 3,
        "kinds": {"Workspace": 2, "User": 2, "TTLPolicy": 0, "Hub": 0},
        "problems": [],
    }


def test_json_of_problems_has_places(specs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_workspace(specs, "api", "{owner: alice, image: i, port: no}")

    assert run(["validate", "--format", "json"]) == 1

    answer = json.loads(capsys.readouterr().out)
    assert (answer["formatVersion"], answer["valid"]) == (1, False)
    (problem,) = answer["problems"]
    assert (problem["file"], problem["line"], problem["column"]) == ("specs/api.yaml", 4, 38)
    assert problem["field"] == "spec.port"


def test_a_missing_directory_says_what_to_do(
    specs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["validate", "nowhere"]) == 1

    said = capsys.readouterr().out
    assert said.startswith("nowhere: there is no such directory\n\n1 problem.\n")
    assert "codehub init" in said


def test_a_ref_is_read_from_the_commit_not_the_work_tree(
    specs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git(specs, "init", "--quiet")
    git(specs, "add", ".")
    git(specs, "commit", "--quiet", "--message", "specs")
    write_workspace(specs, "api", "{broken: true}")

    assert run(["validate", "--ref", "HEAD"]) == 0
    assert "4 documents" in capsys.readouterr().out
    assert run(["validate"]) == 1


def git(directory: Path, *words: str) -> None:
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *author, *words], cwd=directory, check=True, timeout=60)


def test_the_command_itself_stays_light(specs: Path) -> None:
    """No database, template or table library is loaded to check a directory."""
    ran = run_codehub("validate", cwd=specs.parent, env={"PYTHONPROFILEIMPORTTIME": "1"})

    loaded = {line.rpartition("|")[2].strip() for line in ran.err.splitlines()}
    heavy = {"sqlmodel", "sqlalchemy", "psycopg", "alembic", "jinja2", "ruamel.yaml", "rich"}
    assert ran.code == 0
    assert "codehub.specs.load" in loaded
    assert loaded & heavy == set()
