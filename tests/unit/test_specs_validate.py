"""What documents say of each other, and the messages when it does not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.spec_world import (
    ALICE,
    POLICY,
    hub,
    load,
    problems_in,
    problems_of,
    workspace,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_an_unknown_owner_is_told_with_a_guess(tmp_path: Path) -> None:
    assert problems_of(tmp_path, workspace(owner="alcie")) == [
        'f0.yaml:6:10: spec.owner: unknown user "alcie", did you mean "alice"?'
    ]


def test_an_unknown_policy_is_told_with_a_guess(tmp_path: Path) -> None:
    text = workspace(spec="  image: i\n  ttl: interactve\n")
    assert problems_of(tmp_path, text, POLICY, hub("{defaultTTL: nope}")) == [
        'f0.yaml:8:8: spec.ttl: unknown policy "interactve", did you mean "interactive"?',
        'f2.yaml:4:20: spec.defaultTTL: unknown policy "nope"',
    ]


def test_a_name_is_declared_once(tmp_path: Path) -> None:
    problems = problems_of(tmp_path, workspace() + "---\n" + workspace("web"), workspace(), ALICE)
    assert problems == [
        'f1.yaml:4:9: metadata.name: "api" is declared already, at f0.yaml:1',
        'f2.yaml:3:18: metadata.name: "alice" is declared already, at alice.yaml:1',
    ]


def test_kinds_do_not_share_names(tmp_path: Path) -> None:
    loaded = load(tmp_path, workspace("alice"), POLICY.replace("interactive", "alice"))
    assert set(loaded.workspaces) == set(loaded.users) == set(loaded.policies) == {"alice"}


def test_there_is_one_hub(tmp_path: Path) -> None:
    other = hub("{}").replace("name: hub", "name: other")
    assert problems_of(tmp_path, hub("{}"), other) == [
        "f1.yaml:2:7: kind: there is a Hub already, at f0.yaml:1; at most one may be declared"
    ]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("  port: 80\n", "5:1: spec.command: a command or an image is required"),
        ("  runtime: docker\n", "5:1: spec.image: is required by the runtime docker"),
        ("  runtime: kubernetes\n", "5:1: spec.image: is required by the runtime kubernetes"),
        ("  runtime: process\n", "5:1: spec.command: is required by the runtime process"),
        ("  runtime: process\n  command: []\n", "8:12: spec.command: must not be empty"),
        ("  command: ['', a]\n", "7:13: spec.command[0]: must name the program to run"),
    ],
)
def test_a_runtime_needs_what_it_runs(tmp_path: Path, spec: str, problem: str) -> None:
    assert problems_of(tmp_path, workspace(spec=spec)) == [f"f0.yaml:{problem}"]


def test_the_hubs_default_runtime_counts(tmp_path: Path) -> None:
    default = hub("{defaultRuntime: process}")
    assert problems_of(tmp_path, workspace(), default) == [
        "f0.yaml:5:1: spec.command: is required by the runtime process"
    ]


def test_a_name_cannot_come_from_itself_or_from_a_living_one(tmp_path: Path) -> None:
    problems = problems_of(
        tmp_path,
        workspace("a", "  image: i\n  renamedFrom: a\n"),
        workspace("b", "  image: i\n  renamedFrom: a\n"),
    )
    assert problems == [
        "f0.yaml:8:16: spec.renamedFrom: is the workspace's own name",
        'f1.yaml:8:16: spec.renamedFrom: "a" is still declared, at f0.yaml:1',
    ]


def test_one_home_cannot_follow_two_names(tmp_path: Path) -> None:
    problems = problems_of(
        tmp_path,
        workspace("a", "  image: i\n  renamedFrom: old\n"),
        workspace("b", "  image: i\n  renamedFrom: old\n"),
    )
    assert problems == [
        'f1.yaml:8:16: spec.renamedFrom: "old" is claimed already, by the workspace at f0.yaml:1'
    ]


def test_a_variable_is_given_once(tmp_path: Path) -> None:
    text = workspace(spec="  image: i\n  env: {A: x}\n  secretEnv: {A: y}\n")
    assert problems_of(tmp_path, text) == ["f0.yaml:9:15: spec.secretEnv.A: is given in env too"]


def test_a_name_counts_although_its_document_is_wrong(tmp_path: Path) -> None:
    bob = ALICE.replace("alice", "bob") + "spec: {role: boss}\n"
    problems = problems_of(tmp_path, workspace(owner="bob"), bob)
    assert problems == ['f1.yaml:4:14: spec.role: must be member or admin, not "boss"']


def test_nothing_is_called_unknown_while_a_file_cannot_be_read(tmp_path: Path) -> None:
    problems = problems_of(tmp_path, workspace(owner="bob"), "users: [\n")
    assert [each.split(":")[0] for each in problems] == ["f1.yaml"]


def test_problems_of_all_files_come_at_once_and_in_order(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "b/two.yml": workspace("b", "  image: i\n  prot: 1\n"),
            "a.yaml": workspace("a", "  image: i\n  port: x\n  pinned: 1\n"),
            "c.yaml": "a: [\n",
        },
    )
    places = [each.place for each in problems_in(tmp_path)]
    assert [(place.file, place.line) for place in places] == [
        (f"{tmp_path}/a.yaml", 8),
        (f"{tmp_path}/a.yaml", 9),
        (f"{tmp_path}/b/two.yml", 8),
        (f"{tmp_path}/c.yaml", 2),
    ]


def test_a_wrong_document_of_many_is_placed_in_its_own(tmp_path: Path) -> None:
    text = "---\n".join(
        [ALICE.replace("alice", "u1"), workspace("w1"), workspace("w2", "  ttl: x\n")]
    )
    assert problems_of(tmp_path, text) == [
        "f0.yaml:17:1: spec.command: a command or an image is required",
        'f0.yaml:19:8: spec.ttl: unknown policy "x"',
    ]
