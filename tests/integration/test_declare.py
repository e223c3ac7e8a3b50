"""Loading a revision into real Postgres: nothing is written that did not change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codehub.core.digest import template_digest
from codehub.model.admission import Admission
from codehub.model.events import EventKind
from codehub.model.people import Hub
from codehub.model.plan import Action
from codehub.model.states import DesiredState, IntentSource, Operation, Phase
from codehub.model.workspace import (
    Activity,
    Resources,
    Source,
    StartOn,
    Status,
    Ttl,
)
from codehub.store.connect import connect
from codehub.store.declare import loader_lock, write_spec_set
from codehub.store.events import events
from codehub.store.users import read_users
from codehub.store.workspaces import read_workspaces
from tests.integration.stored import apply, count, insert, live, number, versions
from tests.make import NOW, declaration, spec_set, workspace

if TYPE_CHECKING:
    from psycopg import AsyncConnection

pytestmark = pytest.mark.anyio

TABLES = ("hub", "users", "workspaces", "spec_revisions", "workspace_events")


async def told(conn: AsyncConnection[Any]) -> list[tuple[str, EventKind, str, str]]:
    return [(one.workspace, one.kind, one.old, one.new) for one in await events(conn)]


async def test_a_new_workspace_starts_where_its_spec_says(database_url: str) -> None:
    async with await connect(database_url) as conn:
        revision = await apply(
            conn, spec_set(declaration("api"), declaration("lab", start_on=StartOn.VISIT))
        )
        api, lab = await live(conn, "api"), await live(conn, "lab")

        assert revision is not None
        assert revision.summary == {"create": 2}
        assert api.declaration == declaration("api")
        assert api.status.phase is Phase.PENDING
        assert api.intent.desired is DesiredState.RUNNING
        assert lab.intent.desired is DesiredState.STANDBY
        assert (api.intent.source, api.intent.by) == (IntentSource.SPEC, "alice")
        assert api.intent.at == api.declared_at == api.created_at == revision.created_at
        assert (api.generation, api.spec_revision) == (1, revision.id)
        assert api.template_digest == template_digest(declaration("api"))
        assert ("lab", EventKind.DECLARED, "", "RUNNING") in await told(conn)
        assert ("lab", EventKind.DESIRED, "", "STANDBY") in await told(conn)


async def test_the_callers_time_replaces_the_servers(database_url: str) -> None:
    async with await connect(database_url) as conn:
        revision = await apply(conn, spec_set(declaration("api")), now=NOW)

        assert revision is not None
        assert revision.created_at == NOW
        assert (await live(conn, "api")).declared_at == NOW


async def test_a_no_op_writes_nothing_at_all(database_url: str) -> None:
    incoming = spec_set(declaration("api"), declaration("lab"), hub=Hub(prune=False))
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(declaration("orphan"), digest="d0", hub=Hub(prune=False)))
        assert await apply(conn, incoming) is not None
        before = await versions(conn, *TABLES)

        assert await apply(conn, incoming) is None
        assert await versions(conn, *TABLES) == before


async def test_equal_workspaces_under_a_new_digest_make_a_revision_only(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(declaration("api"), digest="d1"))
        before = await versions(conn, "users", "workspaces", "workspace_events", "hub")

        revision = await apply(conn, spec_set(declaration("api"), digest="d2"))
        assert revision is not None
        assert revision.summary == {}
        assert await versions(conn, "users", "workspaces", "workspace_events", "hub") == before


async def test_only_the_row_that_changed_is_written(database_url: str) -> None:
    async with await connect(database_url) as conn:
        first = await apply(conn, spec_set(declaration("api"), declaration("lab"), digest="d1"))
        untouched = await versions(conn, "workspaces WHERE name = 'lab'")

        second = await apply(
            conn, spec_set(declaration("api", memo="x"), declaration("lab"), digest="d2")
        )
        api, lab = await live(conn, "api"), await live(conn, "lab")
        assert first is not None
        assert second is not None
        assert second.summary == {"update": 1}
        assert (api.declaration.memo, api.generation, api.spec_revision) == ("x", 2, second.id)
        assert (lab.generation, lab.spec_revision) == (1, first.id)
        assert await versions(conn, "workspaces WHERE name = 'lab'") == untouched


async def test_moving_in_the_files_moves_no_generation(database_url: str) -> None:
    moved = declaration("api", source=Source("specs/team/api.yaml", 9), ttl=Ttl(60, policy="b"))
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(declaration("api", ttl=Ttl(60, policy="a")), digest="d1"))
        audit = await count(conn, "workspace_events")

        revision = await apply(conn, spec_set(moved, digest="d1"))
        api = await live(conn, "api")
        assert revision is not None
        assert api.declaration == moved
        assert (api.generation, api.spec_revision) == (1, revision.id)
        assert await count(conn, "workspace_events") == audit


async def test_every_field_of_a_declaration_is_updated(database_url: str) -> None:
    new = declaration(
        "api",
        owner="bob",
        description="d",
        memo="m",
        labels={"a": "b"},
        image="i",
        command=("c",),
        env={"E": "1"},
        secret_env={"S": "s"},
        port=1,
        inject=False,
        resources=Resources(1.0, 2, 3),
        declared_state=DesiredState.STANDBY,
        ttl=Ttl(1, 2),
        pinned=True,
        suspend=True,
        protect=True,
    )
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(declaration("api"), digest="d1"))
        await apply(conn, spec_set(new, digest="d2"))

        api = await live(conn, "api")
        assert api.declaration == new
        assert api.template_digest == template_digest(new)


@pytest.mark.parametrize(
    ("fields", "moves"),
    [
        ({"declared_state": DesiredState.STANDBY}, True),
        ({"image": "other"}, True),
        ({"memo": "other"}, False),
    ],
)
async def test_the_time_of_declaring_moves_with_ceiling_and_template(
    database_url: str, fields: dict[str, Any], moves: bool
) -> None:
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(declaration("api"), digest="d1"), now=NOW)
        await apply(conn, spec_set(declaration("api", **fields), digest="d2"))

        assert ((await live(conn, "api")).declared_at != NOW) is moves


async def test_a_raised_ceiling_moves_desired_and_a_lowered_one_does_not(database_url: str) -> None:
    low = declaration("api", declared_state=DesiredState.STANDBY)
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(low, digest="d1"))
        assert (await live(conn, "api")).intent.desired is DesiredState.STANDBY

        await apply(conn, spec_set(declaration("api"), digest="d2"), author="bob")
        raised = await live(conn, "api")
        assert (raised.intent.desired, raised.intent.by) == (DesiredState.RUNNING, "bob")

        await apply(conn, spec_set(low, digest="d3"))
        lowered = await live(conn, "api")
        assert lowered.declaration.declared_state is DesiredState.STANDBY
        assert lowered.intent.desired is DesiredState.RUNNING
        assert ("api", EventKind.DESIRED, "STANDBY", "RUNNING") in await told(conn)
        assert (await told(conn))[-1] == ("api", EventKind.DECLARED, "RUNNING", "STANDBY")


async def test_the_controllers_columns_are_not_the_loaders(database_url: str) -> None:
    status = Status(
        phase=Phase.RUNNING,
        phase_changed_at=NOW,
        operation=Operation.STOPPING,
        op_id=number(5),
        op_started_at=NOW,
        home_store_key="ws-1-home-g1",
        home_generation=1,
        error_count=1,
    )
    seen = workspace("api", status=status, activity=Activity(NOW, "input"))
    async with await connect(database_url) as conn:
        await insert(conn, seen)
        await apply(conn, spec_set(declaration("api", memo="new"), digest="d9"))

        api = await live(conn, "api")
        assert (api.status, api.activity, api.intent) == (seen.status, seen.activity, seen.intent)


async def test_names_may_be_passed_on_in_one_revision(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(declaration("a"), declaration("b"), digest="d1"))
        was_a, was_b = (await live(conn, "a")).id, (await live(conn, "b")).id

        # By hand: admit takes no chain of renames, the writing must not depend on that.
        rows = {one.name: one for one in await read_workspaces(conn)}
        passed = [
            Admission(Action.UPDATE, new, rows[old], declaration(new), changed=True)
            for old, new in (("a", "b"), ("b", "c"))
        ]
        async with loader_lock(conn):
            incoming = spec_set(declaration("b"), declaration("c"), digest="d2")
            await write_spec_set(conn, incoming, passed, author="alice", source="cli")

        assert (await live(conn, "b")).id == was_a
        assert (await live(conn, "c")).id == was_b


async def test_a_renamed_workspace_keeps_identity_and_audit(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(declaration("old"), digest="d1"))
        before = await live(conn, "old")
        renamed = declaration("new", renamed_from="old")

        await apply(conn, spec_set(renamed, declaration("old2"), digest="d2"))
        after = await live(conn, "new")
        assert after.id == before.id
        assert after.generation == 2
        assert [one.workspace for one in await events(conn, "new")] == ["old", "old", "new"]
        assert await apply(conn, spec_set(renamed, declaration("old2"), digest="d2")) is None


async def test_no_secret_reaches_the_audit(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(declaration("api", env={"KEY": "canary-1"}), digest="d1"))
        new = declaration("api", env={"KEY": "canary-2"}, secret_env={"T": "canary-3"})
        await apply(conn, spec_set(new, digest="d2"))

        written = [str(one) for one in await events(conn)]
        assert not [line for line in written if "canary" in line]
        assert (await events(conn))[-1].reason == "spec changed: env, secret_env"


async def test_a_thousand_workspaces_arrive_and_leave_together(database_url: str) -> None:
    many = [declaration(f"w{n}", owner=f"u{n % 20}") for n in range(1_000)]
    async with await connect(database_url) as conn:
        revision = await apply(conn, spec_set(*many, digest="d1"))
        assert revision is not None
        assert revision.summary == {"create": 1_000}
        assert await count(conn, "workspace_events") == 2_000

        await apply(conn, spec_set(digest="d2", users={}))
        rows = await read_workspaces(conn)
        assert {one.intent.desired for one in rows} == {DesiredState.DELETED}
        assert all(one.disabled for one in (await read_users(conn)).values())
