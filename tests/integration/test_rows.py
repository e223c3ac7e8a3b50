"""A row and a Workspace hold the same: whatever is written comes back, field by field."""

from __future__ import annotations

import asyncio
from dataclasses import MISSING, fields, is_dataclass, replace
from datetime import UTC, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codehub.model.conditions import Condition, ConditionName, ConditionStatus
from codehub.model.runtime import Upstream
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.workspace import (
    Activity,
    ActivityPolicy,
    Declaration,
    HomeContext,
    Intent,
    Override,
    PathPrefix,
    Resources,
    Runtime,
    Source,
    StartOn,
    Status,
    Ttl,
    UpdatePolicy,
    Workspace,
)
from codehub.store.connect import connect
from codehub.store.rows import StoredConditions, source_of
from codehub.store.workspaces import read_workspaces
from tests.integration.stored import insert
from tests.make import NOW, workspace

EARLIER = NOW - timedelta(days=1, microseconds=7)

FULL = Workspace(
    id=UUID(int=7),
    declaration=Declaration(
        name="payments-api",
        owner="zoë",
        runtime=Runtime.DOCKER,
        description="Payments — sandbox",
        memo='says "hi"\n\tand \\ more',
        labels={"team": "payments", "größe": "XL"},
        image="code-server:4.107.1",
        command=("code-server", "--auth", "none", ""),
        env={"LANG": "C.UTF-8", "EMPTY": ""},
        secret_env={"TOKEN": "payments-token"},
        port=9000,
        path_prefix=PathPrefix.KEEP,
        inject=False,
        resources=Resources(cpus=1.5, memory_bytes=4 << 30, pids=512),
        declared_state=DesiredState.STANDBY,
        start_on=StartOn.VISIT,
        wake_from=DesiredState.ARCHIVED,
        ttl=Ttl(10_800, 0, ActivityPolicy.TRAFFIC, 0, "interactive"),
        update=UpdatePolicy.IMMEDIATE,
        pinned=True,
        suspend=True,
        protect=True,
        source=Source("specs/a:b.yaml", 12),
    ),
    intent=Intent(
        desired=DesiredState.ARCHIVED,
        source=IntentSource.TTL,
        at=NOW,
        by="ttl",
        override=Override(DesiredState.RUNNING, NOW + timedelta(hours=8), "demo day"),
        recover_requested="from-archive",
    ),
    status=Status(
        phase=Phase.STANDBY,
        phase_changed_at=EARLIER,
        operation=Operation.ARCHIVING,
        op_started_at=NOW,
        op_id=UUID(int=99),
        op_progress={"bytes": 1_048_576, "percent": 12.5, "step": "upload"},
        conditions={
            ConditionName.VOLUME_READY: Condition(ConditionStatus.TRUE, "Found", "", EARLIER),
            ConditionName.HEALTHY: Condition(ConditionStatus.UNKNOWN, "", "no answer", None),
        },
        observed_at=NOW,
        archive_key="hub/ws/op/1/home.tar.zst",
        archive_bytes=1 << 40,
        archive_sha256="ab" * 32,
        home_store_key="ws-7-home-g3",
        home_generation=3,
        home_ctx=HomeContext(
            restore_marker="hub/ws/op/0/home.tar.zst",
            retired=("ws-7-home-g2",),
            given_up=("ws-7-home-g0", "ws-7-home-g1"),
            found=("ws-7-home-g1",),
        ),
        container_template="t0",
        error_reason=ErrorReason.ACTION_FAILED,
        error_message="no space left",
        error_count=2,
        retry_at=NOW + timedelta(seconds=8),
        observed_generation=4,
        deleted_at=NOW,
        purged_at=None,
        upstream=Upstream("127.0.0.1", 40001),
    ),
    activity=Activity(EARLIER, "input"),
    generation=5,
    template_digest="t1",
    spec_revision=3,
    orphaned=True,
    created_at=EARLIER,
    declared_at=NOW,
)

# Not in a row, or not together with the rest: purged rows are not read.
LEFT_OUT = {"renamed_from", "purged_at"}


def unset(value: Any) -> list[str]:
    """The fields, at any depth, that still have their default."""
    found = []
    for field in fields(value):
        given = getattr(value, field.name)
        if is_dataclass(given):
            found += unset(given)
        elif field.default is not MISSING and given == field.default:
            found.append(field.name)
    return found


async def stored_again(url: str, *workspaces: Workspace) -> tuple[Workspace, ...]:
    async with await connect(url) as conn:
        await conn.execute("TRUNCATE workspaces")
        await insert(conn, *workspaces)
        return await read_workspaces(conn)


def test_the_full_workspace_sets_every_field_there_is() -> None:
    assert set(unset(FULL)) == LEFT_OUT


def test_every_field_survives(database_url: str) -> None:
    assert asyncio.run(stored_again(database_url, FULL)) == (FULL,)


def test_defaults_survive(database_url: str) -> None:
    plain = workspace()

    assert asyncio.run(stored_again(database_url, plain)) == (plain,)


@pytest.mark.parametrize("runtime", Runtime)
def test_every_runtime_has_its_backends(database_url: str, runtime: Runtime) -> None:
    one = workspace(runtime=runtime)

    assert asyncio.run(stored_again(database_url, one)) == (one,)


# What JSON and text columns can hold at all: no NUL, no lone surrogates.
TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=12)
MAYBE = st.none() | TEXT
TEXTS = st.dictionaries(TEXT, TEXT, max_size=3)
TIMES = st.none() | st.datetimes(
    min_value=NOW.replace(tzinfo=None, year=1970),
    max_value=NOW.replace(tzinfo=None, year=2200),
    timezones=st.just(UTC),
)
COUNTS = st.integers(0, 2**31 - 1)
BIG = st.integers(0, 2**53)
CEILINGS = st.sampled_from([DesiredState.RUNNING, DesiredState.STANDBY, DesiredState.ARCHIVED])
JSON_VALUES = st.none() | st.booleans() | BIG | TEXT | st.lists(TEXT, max_size=2)

DECLARATIONS = st.builds(
    Declaration,
    name=st.from_regex(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", fullmatch=True),
    owner=st.sampled_from(["alice", "bob"]),
    runtime=st.sampled_from(Runtime),
    description=TEXT,
    memo=TEXT,
    labels=TEXTS,
    image=MAYBE,
    command=st.lists(TEXT, max_size=3).map(tuple),
    env=TEXTS,
    secret_env=TEXTS,
    port=st.integers(1, 65_535),
    path_prefix=st.sampled_from(PathPrefix),
    inject=st.booleans(),
    resources=st.builds(
        Resources,
        cpus=st.none() | st.floats(0, allow_infinity=False, allow_nan=False),
        memory_bytes=st.none() | BIG,
        pids=st.none() | COUNTS,
    ),
    declared_state=CEILINGS,
    start_on=st.sampled_from(StartOn),
    wake_from=st.sampled_from([DesiredState.STANDBY, DesiredState.ARCHIVED]),
    ttl=st.builds(
        Ttl,
        standby=st.none() | COUNTS,
        archive=st.none() | COUNTS,
        activity=st.sampled_from(ActivityPolicy),
        busy_cpu=COUNTS,
        policy=MAYBE,
    ),
    update=st.sampled_from(UpdatePolicy),
    pinned=st.booleans(),
    suspend=st.booleans(),
    protect=st.booleans(),
    renamed_from=st.none(),
    source=st.builds(Source, TEXT.filter(bool), COUNTS) | st.just(Source("", 0)),
)
INTENTS = st.builds(
    Intent,
    desired=st.sampled_from(DesiredState),
    source=st.sampled_from(IntentSource),
    at=TIMES,
    by=TEXT,
    override=st.none() | st.builds(Override, CEILINGS, TIMES.filter(bool), TEXT),
    recover_requested=MAYBE,
)
STATUSES = st.builds(
    Status,
    phase=st.sampled_from(Phase),
    phase_changed_at=TIMES,
    operation=st.just(Operation.NONE),
    op_started_at=TIMES,
    op_id=st.none() | st.uuids(),
    op_progress=st.dictionaries(TEXT, JSON_VALUES, max_size=3),
    conditions=st.dictionaries(
        st.sampled_from(ConditionName),
        st.builds(Condition, st.sampled_from(ConditionStatus), TEXT, TEXT, TIMES),
    ),
    observed_at=TIMES,
    archive_key=MAYBE,
    archive_bytes=st.none() | BIG,
    archive_sha256=MAYBE,
    home_store_key=MAYBE,
    home_generation=COUNTS,
    home_ctx=st.builds(HomeContext, MAYBE, st.lists(TEXT, max_size=3).map(tuple)),
    container_template=MAYBE,
    error_reason=st.none() | st.sampled_from(ErrorReason),
    error_message=MAYBE,
    error_count=COUNTS,
    retry_at=TIMES,
    observed_generation=COUNTS,
    # Deleted, so that names may repeat within one example.
    deleted_at=TIMES.filter(bool),
    purged_at=st.none(),
    upstream=st.none() | st.builds(Upstream, host=st.just("10.0.0.7"), port=st.integers(1, 65535)),
)
WORKSPACES = st.builds(
    Workspace,
    id=st.uuids(),
    declaration=DECLARATIONS,
    intent=INTENTS,
    status=STATUSES,
    activity=st.builds(Activity, TIMES, MAYBE),
    generation=st.integers(1, 2**31),
    template_digest=TEXT,
    spec_revision=st.none() | st.integers(1, 3),
    orphaned=st.booleans(),
    created_at=TIMES.filter(bool),
    declared_at=TIMES,
)


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(rows=st.lists(WORKSPACES, max_size=4, unique_by=lambda each: each.id))
def test_whatever_is_written_comes_back(database_url: str, rows: list[Workspace]) -> None:
    in_order = tuple(sorted(rows, key=lambda each: each.id))

    assert asyncio.run(stored_again(database_url, *rows)) == in_order


def test_rows_with_equal_json_do_not_share_what_differs(database_url: str) -> None:
    one = workspace("one", number=1, env={"A": "1"}, labels={})
    two = workspace("two", number=2, env={"A": "2"}, labels={})
    twin = workspace("twin", number=3, env={"A": "1"}, labels={"team": "x"})

    assert asyncio.run(stored_again(database_url, one, two, twin)) == (one, two, twin)


def test_an_override_without_a_reason_is_read_as_such(database_url: str) -> None:
    override = Override(DesiredState.STANDBY, NOW, "")
    one = replace(workspace(), intent=Intent(DesiredState.RUNNING, override=override))

    assert asyncio.run(stored_again(database_url, one)) == (one,)


def test_stored_conditions_read_like_a_mapping() -> None:
    text = '{"policy.healthy": {"status": "False", "reason": "DataLost", "message": "gone"}}'
    stored = StoredConditions(text)

    assert stored == {ConditionName.HEALTHY: Condition(ConditionStatus.FALSE, "DataLost", "gone")}
    assert len(stored) == 1
    assert "DataLost" in repr(stored)
    assert StoredConditions("{}").get(ConditionName.HEALTHY) is None


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("specs/a.yaml:3", Source("specs/a.yaml", 3)),
        ("C:/specs/a.yaml:3", Source("C:/specs/a.yaml", 3)),
        ("", Source("", 0)),
    ],
)
def test_places_are_read_from_the_end(text: str, source: Source) -> None:
    assert source_of(text) == source
