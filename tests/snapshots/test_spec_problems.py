"""What people read when specs are wrong: every kind of message, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from codehub.errors import SpecsInvalid
from codehub.specs.load import load_directory
from tests.unit.spec_world import ALICE, POLICY, hub, workspace, write

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

WRONG = """\
  image: [a]
  runtime: dockr
  command: run it
  port: http
  inject: yes
  env:
    A: 5
    PORT: canary
  secretEnv: {T: ../canary}
  resources: {cpus: two, memory: 4GB, pids: 0}
  desiredSate: RUNNING
  startOn: Visit
  ttl: {standby: 0s, archive: 3 hours, busyCpu: 25}
  pinned:
  labels: {team: payments}
"""
FILES = {
    "broken/colon.yaml": workspace(spec="  description: a: b\n"),
    "broken/quote.yaml": workspace(spec='  description: "never closed\n'),
    "broken/tab.yaml": workspace(spec="\timage: i\n"),
    "broken/twice.yaml": workspace("twice", "  image: i\n  image: j\n"),
    "broken/words.yaml": "hello world\n",
    "envelope.yaml": "apiVersion: codehub.dev/v2\nkind: Workspce\n",
    "fields.yaml": workspace("fields", WRONG),
    "names.yaml": workspace("Payments_API") + "---\n" + workspace("x" * 41),
    "users.yaml": ALICE.replace("alice", "bob") + "spec: {role: boss, passwordHash: canary}\n",
}
REFERENCES = {
    "double.yaml": workspace("one") + "---\n" + workspace("one"),
    "hub.yaml": hub("{defaultTTL: interactve}") + "---\n" + hub("{}"),
    "owner.yaml": workspace("two", "  image: i\n  ttl: slow\n", owner="alcie"),
    "policy.yaml": POLICY,
    "rename.yaml": workspace("three", "  image: i\n  renamedFrom: one\n"),
    "runtime.yaml": workspace("four", "  runtime: process\n"),
}


@pytest.mark.parametrize("files", [FILES, REFERENCES], ids=["files", "references"])
def test_problems_as_people_read_them(
    files: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text_snapshot: SnapshotAssertion,
) -> None:
    write(tmp_path / "specs", files)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecsInvalid) as caught:
        load_directory(Path("specs"))
    text = ""
    for problem in caught.value.problems:
        text += f"{problem}\n" + (f"    | {problem.excerpt}\n" if problem.excerpt else "")
    assert "canary" not in text
    assert text == text_snapshot
