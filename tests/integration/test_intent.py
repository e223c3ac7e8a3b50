"""Who may move a workspace where, against real rows: each rule, and what the refusal says."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from codehub.errors import Conflict, NotFound, Refused
from codehub.model.events import EventKind
from codehub.model.people import Hub
from codehub.model.revision import Origin
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.workspace import Intent, Status
from codehub.service.intent import (
    TOUCHES_APART,
    Moved,
    set_desired,
    touch,
    undelete,
)
from codehub.store.connect import connect, transaction
from codehub.store.events import events
from tests.integration.stored import apply, change, insert, live, number, versions
from tests.make import NOW, declaration, spec_set, workspace

if TYPE_CHECKING:
    from psycopg import AsyncConnection

pytestmark = pytest.mark.anyio

RUNNING, STANDBY = DesiredState.RUNNING, DesiredState.STANDBY
ARCHIVED, DELETED = DesiredState.ARCHIVED, DesiredState.DELETED
SPEC, TTL, VISIT = IntentSource.SPEC, IntentSource.TTL, IntentSource.VISIT
API, CLI = IntentSource.API, IntentSource.CLI

BUSY = Status(
    phase=Phase.STANDBY, operation=Operation.ARCHIVING, op_id=number(9), op_started_at=NOW
)
FAILED = Status(phase=Phase.ERROR, error_reason=ErrorReason.TIMEOUT, error_message="too slow")
GONE = Status(phase=Phase.DELETED, deleted_at=NOW)


async def ask(
    conn: AsyncConnection[Any], state: DesiredState, source: IntentSource = CLI, name: str = "api"
) -> Moved:
    return await set_desired(conn, name, state, source=source, by="alice", reason="because")


async def refused(
    url: str, state: DesiredState, source: IntentSource = CLI, **fields: Any
) -> Refused:
    """Asks a workspace made of `fields`; it must be refused, and nothing may have been written."""
    async with await connect(url) as conn:
        await conn.execute("TRUNCATE workspaces")
        await insert(conn, workspace("api", **fields))
        before = await versions(conn, "workspaces", "workspace_events")
        with pytest.raises(Refused) as error:
            await ask(conn, state, source)
        assert await versions(conn, "workspaces", "workspace_events") == before
        return error.value


async def accepted(
    url: str, state: DesiredState, source: IntentSource = CLI, **fields: Any
) -> Moved:
    async with await connect(url) as conn:
        await conn.execute("TRUNCATE workspaces")
        await insert(conn, workspace("api", **fields))
        moved = await ask(conn, state, source)
        assert (await live(conn, "api")).intent.desired is state
        return moved


async def test_a_move_and_its_audit_are_written_together(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, workspace("api", desired=STANDBY))

        async with transaction(conn):
            row = await (await conn.execute("SELECT now() AS now")).fetchone()
            assert await ask(conn, RUNNING) == Moved("api", STANDBY, RUNNING, changed=True)
        api = await live(conn, "api")
        (event,) = await events(conn)
        assert row is not None
        assert api.intent == Intent(RUNNING, CLI, row["now"], "alice")
        assert (event.kind, event.old, event.new) == (EventKind.DESIRED, "STANDBY", "RUNNING")
        assert (event.source, event.by, event.reason) == ("cli", "alice", "because")


async def test_asking_again_keeps_the_place_in_the_queue(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, workspace("api", intent=Intent(RUNNING, SPEC, NOW, "bob")))
        before = await versions(conn, "workspaces", "workspace_events")

        assert await ask(conn, RUNNING) == Moved("api", RUNNING, RUNNING, changed=False)
        assert await versions(conn, "workspaces", "workspace_events") == before


@pytest.mark.parametrize(
    ("status", "says"),
    [(BUSY, "api is busy: ARCHIVING is under way"), (FAILED, "api is in ERROR (Timeout)")],
)
async def test_only_people_are_told_that_it_is_busy_or_broken(
    database_url: str, status: Status, says: str
) -> None:
    for source in (API, CLI):
        error = await refused(database_url, RUNNING, source, desired=STANDBY, status=status)
        assert isinstance(error, Conflict)
        assert str(error) == says
        assert error.hint
    for source in (SPEC, TTL, VISIT):
        assert (await accepted(database_url, STANDBY, source, status=status)).changed


async def test_what_only_waits_for_an_answer_is_not_busy(database_url: str) -> None:
    for operation in (Operation.ARCHIVING, Operation.STARTING):
        status = replace(
            BUSY,
            operation=operation,
            error_reason=ErrorReason.UNREACHABLE,
            retry_at=NOW,
            home_store_key="ws-1-home-g1",
        )
        assert (await accepted(database_url, STANDBY, status=status)).changed
        busy = replace(status, error_reason=ErrorReason.ACTION_FAILED)
        assert isinstance(await refused(database_url, STANDBY, status=busy), Conflict)
    retired = replace(status, operation=Operation.ARCHIVING, home_store_key=None)
    assert isinstance(await refused(database_url, STANDBY, status=retired), Conflict)


async def test_what_is_desired_already_is_still_refused_in_error(database_url: str) -> None:
    error = await refused(database_url, RUNNING, desired=RUNNING, status=FAILED)
    assert "codehub recover api" in (error.hint or "")
    assert not (
        await accepted(database_url, RUNNING, VISIT, desired=RUNNING, status=FAILED)
    ).changed


async def test_deleting_is_always_possible(database_url: str) -> None:
    for status in (BUSY, FAILED):
        assert (await accepted(database_url, DELETED, status=status, orphaned=True)).changed


async def test_an_unknown_name_is_guessed_for_operators_only(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, workspace("payments-api"))

        with pytest.raises(NotFound, match='did you mean "payments-api"'):
            await ask(conn, RUNNING, CLI, name="payments-apo")
        with pytest.raises(NotFound) as told:
            await ask(conn, RUNNING, API, name="payments-apo")
        assert str(told.value) == 'there is no workspace "payments-apo"'


async def test_a_deleted_one_is_not_there(database_url: str) -> None:
    for source in (API, CLI, VISIT, TTL):
        error = await refused(database_url, RUNNING, source, desired=DELETED, status=GONE)
        assert isinstance(error, NotFound)
        assert ("was deleted" in str(error)) is (source is CLI)


async def test_one_that_is_leaving_is_not_called_back(database_url: str) -> None:
    for source in (API, CLI, VISIT, TTL):
        error = await refused(database_url, RUNNING, source, desired=DELETED)
        assert str(error) == "api is being deleted"
        assert "specs" in (error.hint or "")


async def test_above_the_ceiling_the_file_is_named(database_url: str) -> None:
    low = {"desired": ARCHIVED, "declared_state": STANDBY}
    for source in (API, CLI, VISIT):
        error = await refused(database_url, RUNNING, source, **low)
        assert str(error) == "api may not go above STANDBY: declared at specs/api.yaml:1"
        assert "specs/api.yaml" in (error.hint or "")


async def test_the_commit_is_named_with_the_file(database_url: str) -> None:
    origin = Origin("specs", commit="0123456789abcdef")
    low = declaration("api", declared_state=STANDBY)
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(low, origin=origin))

        with pytest.raises(Refused, match=r"declared at specs/api.yaml:1, commit 0123456789ab$"):
            await ask(conn, RUNNING)


async def test_up_to_the_ceiling_people_move_freely(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, workspace("api", declared_state=STANDBY, desired=STANDBY))
        for state in (ARCHIVED, STANDBY):
            assert (await ask(conn, state)).new is state


async def test_a_pinned_one_is_raised_but_not_lowered(database_url: str) -> None:
    for source in (API, CLI, TTL):
        error = await refused(database_url, STANDBY, source, pinned=True)
        assert str(error) == "api is pinned to RUNNING at specs/api.yaml:1"
        assert "pinned" in (error.hint or "")
    assert (await accepted(database_url, RUNNING, pinned=True, desired=STANDBY)).changed


async def test_a_suspended_one_is_left_alone(database_url: str) -> None:
    for source in (API, CLI, TTL, VISIT):
        error = await refused(database_url, STANDBY, source, suspend=True)
        assert "suspended at specs/api.yaml:1" in str(error)


async def test_what_is_declared_is_deleted_in_the_specs(database_url: str) -> None:
    for source in (API, CLI):
        error = await refused(database_url, DELETED, source)
        assert "declared at specs/api.yaml:1" in str(error)
        assert error.hint == "remove it from specs/api.yaml and run 'codehub apply'"


async def test_nothing_is_deleted_by_itself(database_url: str) -> None:
    for source in (TTL, VISIT):
        error = await refused(database_url, DELETED, source, orphaned=True)
        assert "cannot delete" in str(error)


async def test_the_loader_may_set_anything(database_url: str) -> None:
    fields = {"pinned": True, "suspend": True, "declared_state": STANDBY, "desired": STANDBY}
    assert (await accepted(database_url, DELETED, SPEC, **fields)).changed


async def test_what_no_spec_declares_is_not_undeleted(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, workspace("api", desired=DELETED, status=GONE))
        with pytest.raises(Refused, match="no spec declares api") as error:
            await undelete(conn, "api", source=CLI, by="alice")
        assert error.value.hint is not None
        assert "it was at specs/api.yaml:1, owner alice" in error.value.hint

        with pytest.raises(NotFound):
            await undelete(conn, "nobody", source=CLI, by="alice")


async def test_what_is_declared_comes_back_with_its_archive(database_url: str) -> None:
    document = {"kind": "Workspace", "metadata": {"name": "api"}, "spec": {"owner": "alice"}}
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(declaration("api"), documents=(document,)))
        with pytest.raises(Conflict, match="api is not deleted"):
            await undelete(conn, "api", source=CLI, by="alice")

        gone = {"phase": "DELETED", "deleted_at": NOW, "archive_key": "k"}
        await change(conn, "api", desired_state="DELETED", **gone)
        moved = await undelete(conn, "api", source=CLI, by="alice", reason="sorry")
        api = await live(conn, "api")
        assert moved == Moved("api", DELETED, RUNNING, changed=True)
        assert (api.status.phase, api.intent.desired) == (Phase.ARCHIVED, RUNNING)
        assert [(one.old, one.new) for one in (await events(conn))[-2:]] == [
            ("DELETED", "ARCHIVED"),
            ("DELETED", "RUNNING"),
        ]


async def test_what_is_purged_does_not_come_back(database_url: str) -> None:
    document = {"kind": "Workspace", "metadata": {"name": "api"}, "spec": {"owner": "alice"}}
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(declaration("api"), documents=(document,)))
        gone = {"phase": "DELETED", "deleted_at": NOW, "purged_at": NOW}
        await change(conn, "api", desired_state="DELETED", **gone)

        with pytest.raises(Refused, match="retention has ended"):
            await undelete(conn, "api", source=CLI, by="alice")


async def test_touching_counts_as_activity_now(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, workspace("api"))
        await touch(conn, "api", by="alice", source=CLI)

        api = await live(conn, "api")
        assert api.activity.last_access_at is not None
        assert api.activity.last_access_at > NOW
        assert api.activity.source == "touch"
        with pytest.raises(NotFound, match='did you mean "api"'):
            await touch(conn, "apo", by="alice", source=CLI)


async def test_who_touched_is_in_the_audit_once_in_a_while(database_url: str) -> None:
    """A script that says it every minute moves the time each time, and leaves few rows."""
    async with await connect(database_url) as conn:
        await insert(conn, workspace("api"), workspace("web", number=2))
        for _ in range(3):
            before = (await live(conn, "api")).activity.last_access_at or NOW
            await touch(conn, "api", by="alice", source=API, reason="from 192.0.2.7")
            assert ((await live(conn, "api")).activity.last_access_at or NOW) > before
        await touch(conn, "api", by="bob", source=CLI)
        await touch(conn, "web", by="alice", source=CLI)
        said = [(e.workspace, e.kind, e.old, e.new, e.source, e.by) for e in await events(conn)]
        assert said == [
            ("api", EventKind.TOUCH, "", "active", "api", "alice"),
            ("api", EventKind.TOUCH, "", "active", "cli", "bob"),
            ("web", EventKind.TOUCH, "", "active", "cli", "alice"),
        ]
        assert (await events(conn))[0].reason == "from 192.0.2.7"
        async with transaction(conn):
            # The audit is append-only for everybody but time.
            await conn.execute("SET LOCAL session_replication_role = replica")
            await conn.execute("UPDATE workspace_events SET at = at - %s", (TOUCHES_APART,))
        await touch(conn, "api", by="alice", source=API)
        assert len(await events(conn, "api")) == 3


async def test_a_rule_is_judged_on_what_is_there_when_it_is_written(database_url: str) -> None:
    """The controller begins an operation while somebody asks: the asking waits and then sees it."""
    async with await connect(database_url) as conn, await connect(database_url) as controller:
        await insert(conn, workspace("api", desired=STANDBY, status=Status(phase=Phase.STANDBY)))
        async with transaction(controller):
            begun = {"operation": "ARCHIVING", "op_id": number(1), "op_started_at": NOW}
            await change(controller, "api", **begun)
            asking = asyncio.create_task(ask(conn, RUNNING))
            await until_blocked(controller, conn)

        with pytest.raises(Conflict, match="ARCHIVING"):
            await asking
        assert (await live(conn, "api")).intent.desired is STANDBY


async def until_blocked(watcher: AsyncConnection[Any], blocked: AsyncConnection[Any]) -> None:
    """Returns once a connection waits for a lock that another one holds."""
    query = "SELECT cardinality(pg_blocking_pids(%s)) AS blockers"
    async with asyncio.timeout(60):
        while True:
            row = await (await watcher.execute(query, (blocked.info.backend_pid,))).fetchone()
            if row and row["blockers"]:
                return


async def test_an_orphan_kept_by_the_hub_is_deleted_by_hand(database_url: str) -> None:
    keep = Hub(prune=False)
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(declaration("api"), digest="d1", hub=keep))
        await apply(conn, spec_set(digest="d2", hub=keep))

        assert (await ask(conn, DELETED)).changed
        assert await apply(conn, spec_set(digest="d2", hub=keep)) is None
        assert (await live(conn, "api")).intent.desired is DELETED
