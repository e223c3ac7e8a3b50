"""What leaves the specs and what comes back: workspaces and users, with what they own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from codehub.core.admit import admit
from codehub.errors import Conflict
from codehub.model.events import EventKind
from codehub.model.people import Hub
from codehub.model.states import DesiredState, IntentSource, Phase
from codehub.model.workspace import (
    Intent,
    Status,
)
from codehub.store.connect import connect
from codehub.store.declare import loader_lock, write_spec_set
from codehub.store.events import events
from codehub.store.hubs import read_hub_state
from codehub.store.users import read_user_ids, read_users
from tests.integration.stored import apply, change, count, insert, live
from tests.make import NOW, declaration, spec_set, user, workspace

if TYPE_CHECKING:
    from psycopg import AsyncConnection

pytestmark = pytest.mark.anyio

DELETED = Status(phase=Phase.DELETED, phase_changed_at=NOW, deleted_at=NOW)


async def told(conn: AsyncConnection[Any]) -> list[tuple[str, EventKind, str, str]]:
    return [(one.workspace, one.kind, one.old, one.new) for one in await events(conn)]


async def test_a_removed_workspace_is_deleted_and_keeps_its_declaration(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(declaration("api", protect=True), digest="d1"))
        revision = await apply(conn, spec_set(digest="d2"))

        api = await live(conn, "api")
        assert revision is not None
        assert revision.summary == {"delete": 1}
        assert api.intent.desired is DesiredState.DELETED
        assert api.intent.source is IntentSource.SPEC
        assert api.declaration == declaration("api", protect=True)
        assert (await told(conn))[-2:] == [
            ("api", EventKind.DECLARED, "RUNNING", ""),
            ("api", EventKind.DESIRED, "RUNNING", "DELETED"),
        ]
        assert await apply(conn, spec_set(digest="d2")) is None


async def test_without_pruning_it_becomes_an_orphan_and_comes_back(database_url: str) -> None:
    keep = Hub(prune=False)
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(declaration("api"), digest="d1", hub=keep))
        revision = await apply(conn, spec_set(digest="d2", hub=keep))
        orphan = await live(conn, "api")
        assert revision is not None
        assert revision.summary == {"orphan": 1}
        assert orphan.orphaned
        assert orphan.intent.desired is DesiredState.RUNNING

        await apply(conn, spec_set(declaration("api"), digest="d3", hub=keep))
        again = await live(conn, "api")
        assert not again.orphaned
        assert again.generation == 1
        assert (await told(conn))[-2:] == [
            ("api", EventKind.DECLARED, "RUNNING", ""),
            ("api", EventKind.DECLARED, "", "RUNNING"),
        ]


@pytest.mark.parametrize(
    ("archive", "phase"), [("hub/1/home.tar.zst", Phase.ARCHIVED), (None, Phase.PENDING)]
)
async def test_put_back_it_stands_where_its_archive_puts_it(
    database_url: str, archive: str | None, phase: Phase
) -> None:
    status = replace(DELETED, archive_key=archive, error_message="left over")
    gone = workspace("api", intent=Intent(DesiredState.DELETED), status=status)
    async with await connect(database_url) as conn:
        await insert(conn, gone)
        revision = await apply(conn, spec_set(declaration("api", memo="back"), digest="d9"))

        api = await live(conn, "api")
        assert revision is not None
        assert revision.summary == {"undelete": 1}
        assert api.id == gone.id
        assert (api.status.phase, api.status.archive_key) == (phase, archive)
        assert api.status.error_message is None
        assert api.intent.desired is DesiredState.RUNNING
        assert api.declaration.memo == "back"
        assert ("api", EventKind.PHASE, "DELETED", phase.value) in await told(conn)


async def test_put_back_while_it_is_still_leaving_it_just_stays(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(declaration("api"), digest="d1"))
        await apply(conn, spec_set(digest="d2"))
        await change(conn, "api", phase="STANDBY", home_store_key="ws-home-g1")

        await apply(conn, spec_set(declaration("api"), digest="d1"))
        api = await live(conn, "api")
        assert api.intent.desired is DesiredState.RUNNING
        assert api.status.phase is Phase.STANDBY


async def test_purging_that_came_first_wins_and_nothing_is_written(database_url: str) -> None:
    gone = workspace("api", intent=Intent(DesiredState.DELETED), status=DELETED)
    async with await connect(database_url) as conn, await connect(database_url) as collector:
        await insert(conn, gone)
        incoming = spec_set(declaration("api"), declaration("lab"), digest="d9")

        async def load() -> None:
            async with loader_lock(conn):
                admissions = admit(await read_hub_state(conn), incoming)
                await change(collector, "api", purged_at=NOW)
                await write_spec_set(conn, incoming, admissions, author="alice", source="cli")

        with pytest.raises(Conflict, match="purged"):
            await load()
        assert await count(conn, "workspaces WHERE deleted_at IS NULL") == 0
        assert await count(conn, "spec_revisions") == 1


async def test_put_back_by_somebody_else_it_is_new(database_url: str) -> None:
    gone = workspace("api", intent=Intent(DesiredState.DELETED), status=DELETED)
    async with await connect(database_url) as conn:
        await insert(conn, gone)
        await apply(conn, spec_set(declaration("api", owner="bob"), digest="d9"))

        api = await live(conn, "api")
        assert api.id != gone.id
        assert api.status.phase is Phase.PENDING


async def test_a_removed_user_is_disabled_and_locked_out(database_url: str) -> None:
    both = {"alice": user("alice"), "bob": user("bob")}
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(digest="d1", users=both))
        for name, key in (await read_user_ids(conn)).items():
            await conn.execute(
                "INSERT INTO sessions (user_id, token_hash, expires_at) VALUES (%s, %s, now())",
                (key, name),
            )
            await conn.execute(
                "INSERT INTO api_tokens (user_id, name, token_hash) VALUES (%s, 'ci', %s)",
                (key, name),
            )

        await apply(conn, spec_set(digest="d2", users={"alice": user("alice")}))
        users = await read_users(conn)
        assert (users["alice"].disabled, users["bob"].disabled) == (False, True)
        for table in ("sessions", "api_tokens"):
            left = await (await conn.execute(f"SELECT token_hash FROM {table}")).fetchall()
            assert [row["token_hash"] for row in left] == ["alice"]

        await apply(conn, spec_set(digest="d3", users=both))
        assert not (await read_users(conn))["bob"].disabled


async def test_a_users_new_fields_are_written(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(digest="d1", users={"alice": user("alice")}))
        changed = user("alice", display_name="Alice", max_running=7, password_hash="$argon2id$2")
        await apply(conn, spec_set(digest="d2", users={"alice": changed}))

        assert await read_users(conn) == {"alice": changed}
