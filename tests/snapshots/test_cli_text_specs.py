"""What `validate` and `fmt` print, to be read as the person who made the mistakes would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from codehub.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

WORKSPACES: Final = """\
apiVersion: codehub.dev/v1
kind: Workspace
metadata:
  name: Payments_API
  labels: {team: 7}
spec:
  owner: alice
  image: codercom/code-server:4.107.1
  prot: 8080
  port: "8080"
  desiredState: Running
  resources: {memory: lots, cpus: -1}
  env:
    DEBUG: true
    PORT: "1"
---
apiVersion: codehub.dev/v1
kind: Workspace
metadata:
  name: demo
spec:
  runtime: process
  ttl:
    standby: 3 hours
---
apiVersion: codehub.dev/v2
kind: Workspaces
metadata: {name: x}
"""
PEOPLE: Final = """\
apiVersion: codehub.dev/v1
kind: User
metadata: {name: alice}
spec:
  role: root
  passwordHash: hunter2
---
apiVersion: codehub.dev/v1
kind: User
metadata: {name: alice}
"""
MISTAKES: Final = {
    "broken.yaml": "apiVersion: codehub.dev/v1\nkind: Hub\nmetadata:\n  name: 日本語: x\n",
    "people.yaml": PEOPLE,
    "policies.yml": (
        "apiVersion: codehub.dev/v1\nkind: TTLPolicy\n"
        "metadata: {name: interactive}\nspec: {standby: 3h, standby: 4h}\n"
    ),
    "team/note.yaml": "just a word\n",
    "workspaces.yaml": WORKSPACES,
}
REFERENCES: Final = {
    "hub.yaml": (
        "apiVersion: codehub.dev/v1\nkind: Hub\nmetadata: {name: hub}\nspec: {defaultTTL: long}\n"
    ),
    "people.yaml": "apiVersion: codehub.dev/v1\nkind: User\nmetadata: {name: alice}\n",
    "policies.yaml": (
        "apiVersion: codehub.dev/v1\nkind: TTLPolicy\nmetadata: {name: interactive}\nspec: {}\n"
    ),
    "workspaces.yaml": """\
apiVersion: codehub.dev/v1
kind: Workspace
metadata: {name: api}
spec:
  owner: alcie
  command: [serve]
  ttl: interactve
---
apiVersion: codehub.dev/v1
kind: Workspace
metadata: {name: api}
spec:
  owner: alice
  runtime: docker
""",
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "specs"


def write(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def test_mistakes_of_many_kinds(
    place: Path, text_snapshot: SnapshotAssertion, capsys: pytest.CaptureFixture[str]
) -> None:
    write(place, MISTAKES)

    assert run(["validate"]) == 1

    said = capsys.readouterr().out
    assert "hunter2" not in said
    assert said == text_snapshot


def test_references_that_lead_nowhere(
    place: Path, text_snapshot: SnapshotAssertion, capsys: pytest.CaptureFixture[str]
) -> None:
    write(place, REFERENCES)

    assert run(["validate"]) == 1

    said = capsys.readouterr().out
    assert 'did you mean "interactive"?' in said
    assert said == text_snapshot


def test_problems_as_json(
    place: Path, text_snapshot: SnapshotAssertion, capsys: pytest.CaptureFixture[str]
) -> None:
    write(place, REFERENCES)

    assert run(["validate", "--format", "json"]) == 1

    said = capsys.readouterr().out
    assert '"formatVersion": 1' in said
    assert said == text_snapshot


def test_an_untidy_file_and_what_fmt_makes_of_it(
    place: Path, text_snapshot: SnapshotAssertion, capsys: pytest.CaptureFixture[str]
) -> None:
    write(place, {"untidy.yaml": UNTIDY})

    assert run(["fmt"]) == 0

    made = (place / "untidy.yaml").read_text()
    assert capsys.readouterr().out.startswith("formatted specs/untidy.yaml\n")
    assert made.count("#") == UNTIDY.count("#")
    assert made == text_snapshot


UNTIDY: Final = """\
# yaml-language-server: $schema=.codehub.schema.json
# Everything of the payments team.

kind: Workspace   # one of four
spec:   # all of it
    # the image of the month
    image: codercom/code-server:4.107.1   # pinned

    # Alice since May,
    # Bob before.
    owner: alice

    memo: |
          # not a comment
            indented

          the end

    # starts without login
    command:
    - code-server
      # - --verbose
    - "--auth"
    -   none   # behind the proxy
    ttl: {archive: 24h, standby: 3h}   # short
    description: 'It''s “quoted” – 日本'
    # protect: true
metadata:
      labels: {team: payments, app: api}
      name: payments-api
apiVersion: codehub.dev/v1
# the workspace ends here
---
# The hub.
spec:
  webhooks:
  - events: [workspace.error]  # only these
    # where to
    url: https://chat.example.org/hook
  - url: https://other.example.org/hook
  prune: true
kind: Hub
metadata: {name: hub}
apiVersion: codehub.dev/v1
...
# the end"""
