"""The example specs are what we ask of everybody's specs, and what their comments say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from codehub.model.states import DesiredState
from codehub.model.workspace import Runtime, StartOn
from codehub.resources import example_specs_directory
from codehub.specs.fmt import format_content
from codehub.specs.load import load_directory

if TYPE_CHECKING:
    from pathlib import Path

ROOT = example_specs_directory()
FILES = sorted(ROOT.rglob("*.yaml"))
MODELINE = re.compile(r"# yaml-language-server: \$schema=(\S+)\n")


def test_they_are_valid_and_show_the_kinds_and_ways_to_start() -> None:
    specs = load_directory(ROOT)

    assert {name: each.role.value for name, each in specs.users.items()} == {
        "alice": "admin",
        "bob": "member",
    }
    assert set(specs.policies) == {"interactive", "batch"}
    assert len(specs.workspaces) == 3
    assert {each.runtime for each in specs.workspaces.values()} == {Runtime.PROCESS}
    assert specs.workspaces["payments-api"].start_on is StartOn.VISIT
    assert specs.workspaces["nightly-report"].declared_state is DesiredState.STANDBY
    assert specs.workspaces["playground"].ttl.policy == specs.hub.default_ttl == "interactive"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_they_are_in_canonical_order(path: Path) -> None:
    assert format_content(path.read_bytes(), path.name) == path.read_bytes()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_names_the_schema_that_the_schema_command_writes(path: Path) -> None:
    modeline = MODELINE.match(path.read_text())

    assert modeline
    assert (path.parent / modeline[1]).resolve() == ROOT.resolve() / ".codehub.schema.json"


def test_no_line_is_too_long_to_read() -> None:
    assert max(len(line) for path in FILES for line in path.read_text().splitlines()) <= 100
