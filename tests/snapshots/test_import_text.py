"""What `codehub import` says: what came back, what did not, and what is to be done."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from codehub.core.keys import build_key
from codehub.core.rebuild import rebuild
from codehub.model.archive import ArchiveKey, ArchiveMeta
from codehub.model.runtime import VolumeRef, VolumeSeen
from codehub.model.salvage import Committed, Flawed, Known, LeftBehind, Salvage
from codehub.model.workspace import Runtime
from codehub.render.import_text import import_text
from codehub.specs.drafts import draft_specs
from tests.make import NOW

if TYPE_CHECKING:
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

HUB = UUID("6f0e4b9e-3c1b-4d53-9a52-0d6f6f8a9c11")


def key(workspace: int, op: int) -> str:
    return build_key(ArchiveKey(HUB, UUID(int=workspace), UUID(int=op), "1"))


def archive(
    workspace: int, name: str, hours: float, size: int = 3_400_000, **more: Any
) -> Committed:
    op, at = more.get("op", 10), NOW - timedelta(hours=hours)
    meta = ArchiveMeta(
        key(workspace, op),
        "0" * 64,
        size,
        size,
        3,
        0,
        HUB,
        UUID(int=workspace),
        name,
        more.get("owner", "alice"),
        1,
        at,
    )
    return Committed(meta, at)


def volume(workspace: int, generation: int, name: str = "") -> VolumeSeen:
    ref = VolumeRef(UUID(int=workspace), generation)
    return VolumeSeen(ref.workspace_id, ref.name, generation, name)


LEFT = LeftBehind({Runtime.DOCKER: (volume(2, 2),)}, frozenset({Runtime.DOCKER}))
"""Nothing that needs a person: an imported workspace was in use."""

SALVAGE = Salvage(
    HUB,
    (
        archive(1, "payments-api", 30, op=10),
        archive(1, "payments-api", 3, op=11),
        archive(2, "playground", 400, size=5_000_000_000, owner="bob"),
        archive(3, "playground", 900),
        archive(4, "notebook", 70, size=900),
        archive(6, "red\x1b[31m", 5),
    ),
    (
        Flawed(key(4, 12), UUID(int=4), NOW, "the archive's commit marker is damaged: no JSON"),
        Flawed(key(5, 10), UUID(int=5), NOW, "its commit marker is there, but no archive"),
    ),
    unfinished=2,
)


@pytest.mark.parametrize("dry_run", [True, False], ids=["dry-run", "done"])
def test_an_import_that_needs_a_person(dry_run: bool, text_snapshot: SnapshotAssertion) -> None:
    plan = rebuild(SALVAGE, Known(), Runtime.DOCKER, {})
    text = import_text(plan, LEFT, "recovered", 5, dry_run=dry_run)
    assert "\x1b" not in text
    assert ("Next:" in text) is not dry_run
    assert text == text_snapshot


def test_an_import_with_nothing_left_to_do(text_snapshot: SnapshotAssertion) -> None:
    known = Known(HUB, frozenset({UUID(int=2)}), {"playground": UUID(int=2)})
    plan = rebuild(Salvage(HUB, SALVAGE.committed[2:3]), known, Runtime.DOCKER, {})
    text = import_text(plan, LEFT, "recovered", 0, dry_run=False)
    assert "1 workspace known already" in text
    assert text == text_snapshot


def test_homes_that_no_workspace_has_any_more(text_snapshot: SnapshotAssertion) -> None:
    """By name where a label or an archive tells it, each with a line that copies it out."""
    plan = rebuild(SALVAGE, Known(), Runtime.PROCESS, {})
    volumes = {
        Runtime.DOCKER: (
            volume(2, 7, "playground"),
            volume(7, 1, "sketches"),
            volume(7, 2, "sketches"),
            volume(8, 1, "; rm -rf /"),
        ),
        Runtime.PROCESS: (volume(3, 4), volume(9, 1)),
    }
    left = LeftBehind(volumes, frozenset(volumes), folder="/home/alice/my team/.codehub/volumes")
    text = import_text(plan, left, "recovered", 5, dry_run=False)
    assert "g7" not in text, "an imported workspace has it"
    copies = re.findall(r"-cf (\S+) \.$", text, re.MULTILINE)
    assert len(set(copies)) == len(copies) == 5, "no copy takes the place of another"
    assert ";" not in text
    assert text == text_snapshot


def test_homes_that_could_not_be_looked_for(text_snapshot: SnapshotAssertion) -> None:
    plan = rebuild(Salvage(HUB, SALVAGE.committed[:2]), Known(), Runtime.DOCKER, {})
    left = LeftBehind(unseen={Runtime.DOCKER: "the Docker engine does not run"})
    text = import_text(plan, left, "recovered", 2, dry_run=False)
    assert f"--filter label=dev.codehub.hub={HUB}" in text
    assert text == text_snapshot


@pytest.mark.parametrize("runtime", [Runtime.DOCKER, Runtime.PROCESS])
def test_the_specs_that_are_written(
    runtime: Runtime, tmp_path: Path, text_snapshot: SnapshotAssertion
) -> None:
    plan = rebuild(Salvage(HUB, SALVAGE.committed[:2]), Known(), runtime, {})
    files = draft_specs(tmp_path, plan.homes).files
    text = "".join(f"=== {path.relative_to(tmp_path)}\n{files[path]}" for path in sorted(files))
    assert "suspend: true" in text
    assert text == text_snapshot
