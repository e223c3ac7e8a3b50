"""From documents to values: defaults filled in, references followed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codehub.model.people import Hub, Role, User, Webhook
from codehub.model.states import DesiredState
from codehub.model.workspace import (
    NEVER,
    ActivityPolicy,
    Declaration,
    PathPrefix,
    Resources,
    Runtime,
    Source,
    StartOn,
    Ttl,
    UpdatePolicy,
)
from tests.unit.spec_world import POLICY, hub, load, workspace

if TYPE_CHECKING:
    from pathlib import Path

EVERYTHING = """\
apiVersion: codehub.dev/v1
kind: Workspace
metadata:
  name: payments-api
  labels: {team: payments}
spec:
  owner: alice
  description: Payments API sandbox
  memo: free text
  image: codercom/code-server:4.107.1
  runtime: docker
  command: [code-server, --auth, none]
  port: 9090
  pathPrefix: keep
  inject: false
  env: {LANG: C.UTF-8}
  secretEnv: {TOKEN: payments-token}
  resources: {cpus: 2, memory: 4Gi, pids: 512}
  desiredState: STANDBY
  startOn: visit
  wakeFrom: ARCHIVED
  ttl: interactive
  update: immediate
  pinned: true
  suspend: true
  protect: true
  renamedFrom: old-name
"""


def test_every_field_arrives(tmp_path: Path) -> None:
    loaded = load(tmp_path, EVERYTHING, POLICY)
    assert loaded.workspaces["payments-api"] == Declaration(
        name="payments-api",
        owner="alice",
        runtime=Runtime.DOCKER,
        description="Payments API sandbox",
        memo="free text",
        labels={"team": "payments"},
        image="codercom/code-server:4.107.1",
        command=("code-server", "--auth", "none"),
        env={"LANG": "C.UTF-8"},
        secret_env={"TOKEN": "payments-token"},
        port=9090,
        path_prefix=PathPrefix.KEEP,
        inject=False,
        resources=Resources(2.0, 4 * 2**30, 512),
        declared_state=DesiredState.STANDBY,
        start_on=StartOn.VISIT,
        wake_from=DesiredState.ARCHIVED,
        ttl=Ttl(10_800, 86_400, ActivityPolicy.AUTO, 25, "interactive"),
        update=UpdatePolicy.IMMEDIATE,
        pinned=True,
        suspend=True,
        protect=True,
        renamed_from="old-name",
        source=Source(f"{tmp_path}/f0.yaml", 1),
    )


def test_what_is_not_given_has_its_default(tmp_path: Path) -> None:
    loaded = load(tmp_path, workspace("api", "  image: i\n"))
    assert loaded.workspaces["api"] == Declaration(
        name="api",
        owner="alice",
        runtime=Runtime.DOCKER,
        image="i",
        source=Source(f"{tmp_path}/f0.yaml", 1),
    )
    assert loaded.users["alice"] == User("alice", source=Source(f"{tmp_path}/alice.yaml", 1))
    assert loaded.hub == Hub()


@pytest.mark.parametrize(
    ("spec", "hub_spec", "runtime"),
    [
        ("  runtime: process\n  command: [a]\n  image: i\n", "{}", Runtime.PROCESS),
        ("  command: [a]\n  image: i\n", "{defaultRuntime: process}", Runtime.PROCESS),
        ("  command: [a]\n  image: i\n", "{}", Runtime.DOCKER),
        ("  command: [a]\n", "{}", Runtime.PROCESS),
        ("  runtime: kubernetes\n  image: i\n", "{defaultRuntime: docker}", Runtime.KUBERNETES),
    ],
)
def test_the_runtime_is_the_specs_then_the_hubs_then_what_fits(
    tmp_path: Path, spec: str, hub_spec: str, runtime: Runtime
) -> None:
    loaded = load(tmp_path, workspace(spec=spec), hub(hub_spec))
    assert loaded.workspaces["api"].runtime is runtime


@pytest.mark.parametrize(
    ("written", "ttl"),
    [
        ("  ttl: interactive\n", Ttl(10_800, 86_400, policy="interactive")),
        ("  ttl: {standby: never}\n", Ttl(NEVER, None)),
        (
            "  ttl: {archive: 60, activity: traffic, busyCpu: off}\n",
            Ttl(None, 60, ActivityPolicy.TRAFFIC, 0),
        ),
        ("  ttl: {}\n", Ttl()),
        ("", Ttl(10_800, 86_400, policy="interactive")),
    ],
)
def test_a_ttl_is_a_policy_or_inline_or_the_hubs(tmp_path: Path, written: str, ttl: Ttl) -> None:
    texts = (workspace(spec="  image: i\n" + written), POLICY, hub("{defaultTTL: interactive}"))
    assert load(tmp_path, *texts).workspaces["api"].ttl == ttl


def test_without_any_policy_the_settings_decide(tmp_path: Path) -> None:
    assert load(tmp_path, workspace()).workspaces["api"].ttl == Ttl(None, None)


def test_users_and_the_hub_arrive(tmp_path: Path) -> None:
    bob = (
        "apiVersion: codehub.dev/v1\nkind: User\nmetadata: {name: bob}\n"
        "spec: {displayName: Bob, role: admin, passwordHash: '$argon2id$v=19$x', maxRunning: 3}\n"
    )
    text = hub(
        "{maxRunningPerUser: 2, maxRunningGlobal: 100, defaultRuntime: docker, prune: false,"
        " webhooks: [{url: 'https://example.org/x', events: [workspace.error], secret: hook},"
        " {name: chat, url: 'http://[::1]:8080'}]}"
    )
    loaded = load(tmp_path, bob, text)
    source = Source(f"{tmp_path}/f0.yaml", 1)
    assert loaded.users["bob"] == User(
        "bob", "Bob", Role.ADMIN, "$argon2id$v=19$x", 3, False, source
    )
    assert loaded.hub == Hub(
        name="hub",
        max_running_per_user=2,
        max_running_global=100,
        default_runtime=Runtime.DOCKER,
        prune=False,
        webhooks=(
            Webhook("https://example.org/x", ("workspace.error",), "hook"),
            Webhook("http://[::1]:8080", name="chat"),
        ),
        source=Source(f"{tmp_path}/f1.yaml", 1),
    )


def test_things_stand_in_the_order_of_their_names(tmp_path: Path) -> None:
    loaded = load(tmp_path, workspace("zoo"), workspace("api"), workspace("mid"))
    assert list(loaded.workspaces) == ["api", "mid", "zoo"]
