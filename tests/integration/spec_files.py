"""Spec directories for tests of commands: small, valid, and easy to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

ENVELOPE = """apiVersion: codehub.dev/v1
kind: {kind}
metadata: {{name: {name}}}
spec: {spec}
"""


def document(kind: str, name: str, spec: str) -> str:
    return ENVELOPE.format(kind=kind, name=name, spec=spec)


def write_workspace(specs: Path, name: str, spec: str = "{owner: alice, image: i}") -> Path:
    """One workspace in a file of its own."""
    file = specs / f"{name}.yaml"
    file.write_text(document("Workspace", name, spec))
    return file


def write_specs(root: Path, *names: str) -> Path:
    """A directory `specs` with alice, bob and the named workspaces of alice."""
    specs = root / "specs"
    specs.mkdir(parents=True, exist_ok=True)
    people = "---\n".join(document("User", name, "{role: member}") for name in ("alice", "bob"))
    (specs / "people.yaml").write_text(people)
    for name in names:
        write_workspace(specs, name)
    return specs
