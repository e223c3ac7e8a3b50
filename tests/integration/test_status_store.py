"""The controller's writes: each rests on the row as it was read, or changes nothing."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from codehub.core.audit import Change
from codehub.errors import FenceLost
from codehub.model.archive import ArchiveMeta
from codehub.model.events import EventKind
from codehub.model.runtime import VolumeRef
from codehub.model.states import DesiredState, IntentSource, Operation, Phase, RecoverMode
from codehub.model.workspace import HomeContext, Intent, Override, Status
from codehub.store.clock import read_now
from codehub.store.connect import connect
from codehub.store.fence import take_epoch
from codehub.store.status import (
    Idleness,
    Write,
    read_active,
    renew_home,
    save,
    save_archive,
    save_restored,
    write_progress,
)
from tests.integration.stored import change, insert, live, versions
from tests.make import workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.workspace import Workspace
    from codehub.store.fence import Fence

pytestmark = pytest.mark.anyio

ME, OP, NEXT = UUID(int=1), UUID(int=7), UUID(int=8)
HOME = VolumeRef(ME, 1).name
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2026, 1, 2, tzinfo=UTC)
IDLENESS = Idleness(600, 30.0, 10.0)
KEY = f"{UUID(int=9)}/{ME}/{OP}/1/home.tar.zst"
META = ArchiveMeta(
    key=KEY,
    sha256="5" * 64,
    bytes=1000,
    unpacked_bytes=2000,
    entries=3,
    skipped=0,
    hub=UUID(int=9),
    workspace_id=ME,
    workspace_name="api",
    owner="alice",
    generation=1,
    created_at=LONG_AGO,
)


@dataclass
class Scene:
    """One row, read; and a leader who writes what it decided upon that."""

    conn: AsyncConnection[DictRow]
    fence: Fence
    seen: Workspace

    async def save(self, after: Status, **fields: Any) -> bool:
        return await save(self.conn, self.fence, Write(self.seen, after, **fields), IDLENESS)

    async def look(self) -> Workspace:
        return await live(self.conn, "api")

    async def events(self) -> list[tuple[str, str, str, str]]:
        query = "SELECT kind, old, new, reason FROM workspace_events ORDER BY id"
        rows = await (await self.conn.execute(query)).fetchall()
        return [(row["kind"], row["old"], row["new"], row["reason"]) for row in rows]


@asynccontextmanager
async def scene(url: str, row: Workspace) -> AsyncIterator[Scene]:
    async with await connect(url) as conn:
        await insert(conn, row)
        fence = await take_epoch(conn, "coordinator", "test")
        yield Scene(conn, fence, await live(conn, row.name))


def awake(**fields: Any) -> Workspace:
    """Running, at rest; what is desired of it is told apart by `intent`."""
    intent = fields.pop("intent", Intent(DesiredState.RUNNING, at=LONG_AGO))
    status = Status(
        Phase.RUNNING,
        phase_changed_at=LONG_AGO,
        home_store_key=HOME,
        home_generation=1,
        **fields,
    )
    return workspace(intent=intent, status=status)


def in_flight(operation: Operation, **fields: Any) -> Workspace:
    fields = {"op_started_at": LONG_AGO, "op_progress": {"stage": "pack"}} | fields
    return awake(operation=operation, op_id=OP, **fields)


def claim(seen: Workspace, operation: Operation = Operation.STOPPING) -> Status:
    return replace(seen.status, operation=operation, op_id=NEXT, op_started_at=LATER)


# One change


async def test_what_was_decided_is_stored_whole(database_url: str) -> None:
    async with scene(database_url, awake()) as now:
        after = replace(claim(now.seen), error_count=2, retry_at=LATER, error_message="no")
        assert await now.save(after)
        assert (await now.look()).status == after


async def test_other_writers_columns_stay_theirs(database_url: str) -> None:
    """They changed meanwhile, and what was decided does not rest on them."""
    async with scene(database_url, awake()) as now:
        await change(now.conn, "api", last_access_at=LATER, memo="new", desired_state="STANDBY")
        assert await now.save(replace(now.seen.status, phase=Phase.STANDBY))
        found = await now.look()
    assert found.intent.desired is DesiredState.STANDBY
    assert found.activity.last_access_at == LATER
    assert found.declaration.memo == "new"
    assert found.status.phase is Phase.STANDBY


@pytest.mark.parametrize(
    "changed",
    [
        {"operation": "STOPPING"},
        {"op_id": NEXT},
        {"op_progress": Jsonb({"stage": "verify"})},
        {"home_ctx": Jsonb({"restore_marker": "k"})},
        {"archive_key": "another"},
        {"home_store_key": "another"},
        {"home_store_key": None},
        {"retry_at": LATER},
        {"deleted_at": LATER},
    ],
    ids=str,
)
async def test_what_an_act_changed_since_makes_it_late(
    database_url: str, changed: dict[str, object]
) -> None:
    async with scene(database_url, in_flight(Operation.ARCHIVING)) as now:
        await change(now.conn, "api", **changed)
        before = await versions(now.conn, "workspaces", "workspace_events")
        told = Change(EventKind.PHASE, "RUNNING", "ERROR")
        assert not await now.save(replace(now.seen.status, phase=Phase.ERROR), events=[told])
        assert await versions(now.conn, "workspaces", "workspace_events") == before


@pytest.mark.parametrize(
    "changed",
    [
        {"desired_state": "STANDBY"},
        {"generation": 2},
        {"recover_requested": "plain"},
        {"override_until": LATER, "override_state": "STANDBY", "override_reason": "x"},
    ],
    ids=str,
)
async def test_what_was_asked_since_stops_a_claim_and_nothing_else(
    database_url: str, changed: dict[str, object]
) -> None:
    async with scene(database_url, awake()) as now:
        await change(now.conn, "api", **changed)
        assert not await now.save(claim(now.seen))
        assert (await now.look()).status.operation is Operation.NONE
        assert await now.save(replace(now.seen.status, error_count=1)), "no claim"


async def test_an_override_that_was_read_does_not_stop_its_claim(database_url: str) -> None:
    override = Override(DesiredState.STANDBY, LATER, "a demo")
    row = awake(intent=Intent(DesiredState.RUNNING, override=override))
    async with scene(database_url, row) as now:
        assert await now.save(claim(now.seen))


async def test_of_two_claims_one_is_stored(database_url: str) -> None:
    async with scene(database_url, awake()) as now:
        assert await now.save(claim(now.seen))
        other = replace(claim(now.seen), op_id=UUID(int=99))
        assert not await now.save(other)
        assert (await now.look()).status.op_id == NEXT


async def test_a_leader_of_the_past_writes_nothing(database_url: str) -> None:
    async with scene(database_url, in_flight(Operation.RESTORING, archive_key=KEY)) as now:
        await take_epoch(now.conn, "coordinator", "another")
        before = await versions(now.conn, "workspaces", "workspace_events")
        with pytest.raises(FenceLost):
            await now.save(replace(now.seen.status, phase=Phase.STANDBY))
        with pytest.raises(FenceLost):
            await write_progress(now.conn, now.fence, now.seen, {"bytes": 1})
        with pytest.raises(FenceLost):
            await save_archive(now.conn, now.fence, now.seen, META)
        with pytest.raises(FenceLost):
            await save_restored(now.conn, now.fence, now.seen, KEY)
        with pytest.raises(FenceLost):
            await renew_home(now.conn, now.fence, now.seen)
        assert await versions(now.conn, "workspaces", "workspace_events") == before


# The audit


async def test_the_audit_goes_with_the_change_in_its_order(database_url: str) -> None:
    told = [
        Change(EventKind.OPERATION, "STARTING", "NONE", "it ended"),
        Change(EventKind.ERROR, "", "Timeout", "no port"),
        Change(EventKind.PHASE, "STANDBY", "ERROR", "it ended"),
    ]
    async with scene(database_url, awake()) as now:
        assert await now.save(replace(now.seen.status, phase=Phase.ERROR), events=told)
        assert await now.events() == [
            ("operation", "STARTING", "NONE", "it ended"),
            ("error", "", "Timeout", "no port"),
            ("phase", "STANDBY", "ERROR", "it ended"),
        ]
        query = "SELECT DISTINCT workspace_id, workspace_name, source, by FROM workspace_events"
        (row,) = await (await now.conn.execute(query)).fetchall()
    assert row == {"workspace_id": ME, "workspace_name": "api", "source": "controller", "by": ""}


async def test_a_change_without_a_story_tells_none(database_url: str) -> None:
    async with scene(database_url, awake()) as now:
        assert await now.save(replace(now.seen.status, error_count=1))
        assert await now.events() == []


# Recovery


def asked(mode: str | None) -> Workspace:
    return awake(intent=Intent(DesiredState.RUNNING, recover_requested=mode))


async def test_a_recovery_is_cleared_with_its_answer_and_not_before(database_url: str) -> None:
    async with scene(database_url, asked(RecoverMode.PLAIN)) as now:
        assert await now.save(replace(now.seen.status, error_count=1))
        assert (await now.look()).intent.recover_requested == RecoverMode.PLAIN
        after = replace(now.seen.status, phase=Phase.STANDBY)
        assert await now.save(after, answered=True)
        assert (await now.look()).intent.recover_requested is None


async def test_what_was_asked_anew_is_not_cleared_by_the_answer_before_it(
    database_url: str,
) -> None:
    async with scene(database_url, asked(RecoverMode.PLAIN)) as now:
        await change(now.conn, "api", recover_requested=RecoverMode.ACCEPT_EMPTY.value)
        after = replace(now.seen.status, phase=Phase.STANDBY)
        assert await now.save(after, answered=True)
        assert (await now.look()).intent.recover_requested == RecoverMode.ACCEPT_EMPTY


# A stop for idleness


def idle(**fields: Any) -> Workspace:
    """Lowered by its TTL after a year of silence."""
    long_ago = datetime.now(UTC) - timedelta(days=365)
    intent = Intent(DesiredState.STANDBY, IntentSource.TTL, at=datetime.now(UTC))
    return workspace(
        intent=intent,
        status=Status(
            Phase.RUNNING, phase_changed_at=long_ago, home_store_key=HOME, home_generation=1
        ),
        **fields,
    )


async def drained(conn: AsyncConnection[DictRow], sentinel: str = "there") -> None:
    await conn.execute(
        "INSERT INTO activity_sync (drained_at, blind_until, sentinel)"
        " VALUES (now(), now() - interval '300 days', %s)"
        " ON CONFLICT (is_one) DO UPDATE SET sentinel = excluded.sentinel,"
        " drained_at = excluded.drained_at, blind_until = excluded.blind_until",
        (sentinel,),
    )


async def test_what_is_still_idle_is_stopped(database_url: str) -> None:
    async with scene(database_url, idle()) as now:
        await drained(now.conn)
        assert await now.save(claim(now.seen))


@pytest.mark.parametrize("why", ["active again", "blind", "not drained yet", "no sentinel"])
async def test_what_may_not_be_idle_is_not_stopped(database_url: str, why: str) -> None:
    async with scene(database_url, idle()) as now:
        await drained(now.conn, "" if why == "no sentinel" else "there")
        if why == "active again":
            await now.conn.execute("UPDATE workspaces SET last_access_at = now()")
        if why == "blind":
            await now.conn.execute("UPDATE activity_sync SET blind_until = now()")
        if why == "not drained yet":
            await now.conn.execute(
                "UPDATE activity_sync SET drained_at = drained_at - interval '1 day'"
            )
        assert not await now.save(claim(now.seen))
        assert (await now.look()).status.operation is Operation.NONE


async def test_a_stop_that_a_person_asked_for_asks_no_idleness(database_url: str) -> None:
    row = idle()
    row = replace(row, intent=replace(row.intent, source=IntentSource.CLI))
    async with scene(database_url, row) as now:
        await now.conn.execute("UPDATE workspaces SET last_access_at = now()")
        assert await now.save(claim(now.seen))


async def test_only_the_stop_asks_for_idleness(database_url: str) -> None:
    """What its TTL asked for is asked when the claim is a stop, and not when another."""
    async with scene(database_url, idle()) as now:
        assert not Write(now.seen, claim(now.seen, Operation.ARCHIVING)).for_idleness
        assert not Write(now.seen, now.seen.status).for_idleness
        assert Write(now.seen, claim(now.seen)).for_idleness


# What acts write


async def test_progress_replaces_progress_and_ends_a_blind_time(database_url: str) -> None:
    progress = {
        "stage": "pack",
        "bytes": 1,
        "blind_seconds": 60.0,
        "blind_since": LONG_AGO.isoformat(),
        "unreachable_count": 3,
    }
    row = in_flight(Operation.ARCHIVING, op_progress=progress)
    async with scene(database_url, row) as now:
        assert await write_progress(now.conn, now.fence, now.seen, {"bytes": 2, "entries": 5})
        found = dict((await now.look()).status.op_progress)
        at = datetime.fromisoformat(str(found.pop("at")))
        assert abs(at - await read_now(now.conn)) < timedelta(minutes=5)
    assert found == {"stage": "pack", "bytes": 2, "entries": 5}


@pytest.mark.parametrize("changed", [{"op_id": NEXT}, {"operation": "STOPPING"}], ids=str)
async def test_an_act_of_another_operation_writes_nothing(
    database_url: str, changed: dict[str, object]
) -> None:
    async with scene(database_url, in_flight(Operation.RESTORING, archive_key=KEY)) as now:
        await change(now.conn, "api", **changed)
        before = await versions(now.conn, "workspaces")
        assert not await write_progress(now.conn, now.fence, now.seen, {"bytes": 2})
        assert not await save_archive(now.conn, now.fence, now.seen, META)
        assert not await save_restored(now.conn, now.fence, now.seen, KEY)
        assert await renew_home(now.conn, now.fence, now.seen) is None
        assert await versions(now.conn, "workspaces") == before


async def test_an_archive_is_recorded_and_its_home_retired_together(database_url: str) -> None:
    row = in_flight(Operation.ARCHIVING, home_ctx=HomeContext("old key", ("ws-older",)))
    async with scene(database_url, row) as now:
        assert await save_archive(now.conn, now.fence, now.seen, META)
        status = (await now.look()).status
    assert (status.archive_key, status.archive_bytes, status.archive_sha256) == (
        KEY,
        1000,
        "5" * 64,
    )
    assert status.home_store_key is None
    assert status.home_ctx == HomeContext(None, ("ws-older", HOME))
    assert status.home_generation == 1


async def test_an_archive_of_another_home_is_not_recorded(database_url: str) -> None:
    async with scene(database_url, in_flight(Operation.ARCHIVING)) as now:
        await change(now.conn, "api", home_store_key=VolumeRef(ME, 2).name)
        assert not await save_archive(now.conn, now.fence, now.seen, META)
        assert (await now.look()).status.archive_key is None


async def test_an_empty_archive_retires_nothing(database_url: str) -> None:
    row = workspace(
        status=Status(operation=Operation.CREATE_EMPTY_ARCHIVE, op_id=OP, op_started_at=LONG_AGO)
    )
    async with scene(database_url, row) as now:
        assert await save_archive(now.conn, now.fence, now.seen, META)
        status = (await now.look()).status
    assert (status.archive_key, status.home_store_key) == (KEY, None)
    assert status.home_ctx == HomeContext()


async def test_an_archive_that_is_recorded_twice_is_recorded_once(database_url: str) -> None:
    async with scene(database_url, in_flight(Operation.ARCHIVING)) as now:
        assert await save_archive(now.conn, now.fence, now.seen, META)
        assert not await save_archive(now.conn, now.fence, now.seen, replace(META, key="other"))
        assert (await now.look()).status.archive_key == KEY


async def test_a_restore_is_committed_for_this_home_and_this_archive(database_url: str) -> None:
    row = in_flight(
        Operation.RESTORING, archive_key=KEY, home_ctx=HomeContext(retired=("ws-older",))
    )
    async with scene(database_url, row) as now:
        assert not await save_restored(now.conn, now.fence, now.seen, "another")
        assert await save_restored(now.conn, now.fence, now.seen, KEY)
        status = (await now.look()).status
        assert status.home_ctx == HomeContext(KEY, ("ws-older",))
        await change(now.conn, "api", home_store_key=VolumeRef(ME, 2).name)
        assert not await save_restored(now.conn, now.fence, now.seen, KEY)


async def test_a_restore_that_starts_over_gets_the_next_home(database_url: str) -> None:
    row = in_flight(
        Operation.RESTORING, archive_key=KEY, home_ctx=HomeContext("half", ("ws-older",))
    )
    async with scene(database_url, row) as now:
        assert await renew_home(now.conn, now.fence, now.seen) == 2
        status = (await now.look()).status
        assert await renew_home(now.conn, now.fence, now.seen) is None, "once for each try"
    assert status.home_store_key == VolumeRef(ME, 2).name
    assert status.home_generation == 2
    assert status.home_ctx == HomeContext(None, ("ws-older", HOME))


async def test_only_a_restore_gets_another_home(database_url: str) -> None:
    async with scene(database_url, in_flight(Operation.ARCHIVING)) as now:
        assert await renew_home(now.conn, now.fence, now.seen) is None
        assert (await now.look()).status.home_store_key == HOME


# What a pass reads


async def test_those_under_way_named_or_not_where_they_should_be_are_read(
    database_url: str,
) -> None:
    def one(name: str, number: int, **fields: Any) -> Workspace:
        desired = fields.pop("desired", DesiredState.RUNNING)
        return workspace(
            name, number=number, desired=desired, status=Status(Phase.RUNNING, **fields)
        )

    rows = [
        one("rests", 1),
        one("moves", 2, operation=Operation.STOPPING, op_id=OP, op_started_at=LONG_AGO),
        one("elsewhere", 3, desired=DesiredState.STANDBY),
        one("gone", 4, desired=DesiredState.DELETED, deleted_at=LONG_AGO),
        one("purged", 5, deleted_at=LONG_AGO, purged_at=LONG_AGO),
    ]
    async with await connect(database_url) as conn:
        await insert(conn, *rows)
        named = [UUID(int=1), UUID(int=4), UUID(int=5)]
        found = {
            (bool(ids), mismatched): [
                each.name for each in await read_active(conn, ids, mismatched=mismatched)
            ]
            for ids in ([], named)
            for mismatched in (False, True)
        }
    assert found == {
        (False, False): ["moves"],
        (False, True): ["moves", "elsewhere"],
        (True, False): ["rests", "moves", "gone"],
        (True, True): ["rests", "moves", "elsewhere", "gone"],
    }
