"""Digests follow meaning, and nothing but meaning."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import pytest

from codehub.core.digest import digest_documents, template_digest
from codehub.errors import SpecsInvalid
from codehub.model.people import Hub
from codehub.model.revision import Origin
from codehub.model.workspace import Resources, Runtime, Source, Ttl
from codehub.specs.load import load_documents
from tests import make
from tests.unit.spec_world import POLICY, hub, load, workspace

if TYPE_CHECKING:
    from pathlib import Path

SPEC = "  image: i\n  ttl: interactive\n  resources: {memory: 1Gi, cpus: 1}\n"


def digest(root: Path, *texts: str) -> str:
    return load(root, *texts).digest


def test_layout_comments_and_order_make_no_difference(tmp_path: Path) -> None:
    apart = digest(tmp_path / "a", workspace("a", SPEC), workspace("b"), POLICY)
    together = digest(
        tmp_path / "b",
        "# all in one\n" + POLICY + "---\n" + workspace("b") + "---\n\n" + workspace("a", SPEC),
    )
    flow = digest(
        tmp_path / "c",
        workspace("b"),
        POLICY,
        '{"apiVersion": "codehub.dev/v1", "kind": "Workspace", "metadata": {"name": "a"}, "spec":'
        ' {"ttl": "interactive", "resources": {"cpus": 1.0, "memory": 1073741824}, "image": "i",'
        ' "owner": "alice"}}',
    )
    assert apart == together == flow


def test_defaults_written_out_make_no_difference(tmp_path: Path) -> None:
    written = workspace(
        spec="  image: i\n  runtime: docker\n  port: 8080\n  pathPrefix: strip\n  inject: true\n"
        "  env: {}\n  secretEnv: {}\n  resources: {}\n  desiredState: RUNNING\n  startOn: apply\n"
        "  wakeFrom: STANDBY\n  update: nextStart\n  pinned: false\n  suspend: false\n"
        "  protect: false\n  ttl: {activity: auto, busyCpu: 25%}\n  description: ''\n  memo: ''\n"
    )
    short = digest(tmp_path / "a", workspace())
    assert digest(tmp_path / "b", written, hub("{prune: true, webhooks: []}")) == short


@pytest.mark.parametrize(
    "text",
    [
        workspace(spec="  image: j\n"),
        workspace(spec="  image: i\n  env: {A: b}\n"),
        workspace(spec="  image: i\n  protect: true\n"),
        workspace(spec="  image: i\n  renamedFrom: old\n"),
        workspace("other"),
        workspace() + "---\n" + POLICY,
        workspace() + "---\n" + hub("{prune: false}"),
        workspace() + "---\n" + hub("{webhooks: [{url: 'http://a'}]}"),
    ],
)
def test_every_change_of_meaning_counts(tmp_path: Path, text: str) -> None:
    assert digest(tmp_path / "a", workspace()) != digest(tmp_path / "b", text)


def test_stored_documents_make_the_same_spec_set(tmp_path: Path) -> None:
    loaded = load(tmp_path, workspace("a", SPEC), POLICY, hub("{defaultTTL: interactive}"))
    stored = json.loads(json.dumps(loaded.documents))
    assert load_documents(stored, loaded.origin) == loaded
    assert stored[1] == {
        "apiVersion": "codehub.dev/v1",
        "kind": "Workspace",
        "metadata": {"name": "a"},
        "spec": {
            "owner": "alice",
            "image": "i",
            "ttl": "interactive",
            "resources": {"memory": "1Gi", "cpus": 1},
        },
        "file": f"{tmp_path}/f0.yaml",
        "line": 1,
    }


def test_stored_documents_are_checked_again() -> None:
    broken = {"apiVersion": "codehub.dev/v1", "kind": "User", "file": "a.yaml", "line": 4}
    with pytest.raises(SpecsInvalid) as caught:
        load_documents([broken], Origin("specs"))
    assert [str(each) for each in caught.value.problems] == ["a.yaml:4: metadata: is required"]


def test_no_stored_documents_are_no_empty_hub() -> None:
    with pytest.raises(SpecsInvalid):
        load_documents([], Origin("specs"))


TEMPLATE: dict[str, Any] = {
    "image": "j",
    "command": ("other",),
    "env": {"A": "b"},
    "secret_env": {"A": "b"},
    "port": 1,
    "resources": Resources(pids=5),
    "runtime": Runtime.DOCKER,
}


@pytest.mark.parametrize("field", TEMPLATE)
def test_what_a_container_is_made_of_is_in_the_template(field: str) -> None:
    one = make.declaration()
    assert template_digest(one) != template_digest(replace(one, **{field: TEMPLATE[field]}))


def test_nothing_else_is_in_the_template() -> None:
    one = make.declaration(source=Source("a", 1))
    other = make.declaration(
        "other",
        owner="bob",
        description="x",
        ttl=Ttl(1, 2),
        pinned=True,
        protect=True,
        source=Source("b", 2),
    )
    assert template_digest(one) == template_digest(other)


@pytest.mark.parametrize("field", [each.name for each in fields(make.declaration())])
def test_every_field_of_a_declaration_counts_but_its_place(field: str) -> None:
    """A field that is added to Declaration counts by itself."""
    changed: dict[str, Any] = {field: "changed"}
    one = make.declaration()
    digests = {
        digest_documents({"api": each}, {}, {}, Hub()) for each in (one, replace(one, **changed))
    }
    assert len(digests) == (1 if field == "source" else 2)
