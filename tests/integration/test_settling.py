"""Following workspaces on a real database, with this test in the controller's part."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from codehub.errors import NotFound, Unreachable
from codehub.model.outcome import Failed, Held, Moving, Settled
from codehub.model.people import Hub
from codehub.model.states import DesiredState, Operation, Phase
from codehub.model.workspace import Intent, Status
from codehub.service.limits import LimitDefaults
from codehub.service.settling import Customs, follow
from codehub.store.advisory import Lock, somebody_leads, try_lock_session
from codehub.store.connect import connect
from codehub.store.hubs import write_hub
from tests.integration.stored import change, insert, number
from tests.make import NOW, workspace

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.outcome import Outcome, Snapshot
    from codehub.service.settling import ConnectionSource

    Conn = AsyncConnection[DictRow]

Kind = TypeVar("Kind", Settled, Held, Failed, Moving)

pytestmark = pytest.mark.anyio

RUNNING, STANDBY, ARCHIVED, DELETED = DesiredState
PATIENCE = 60
STARTS = Moving(Operation.STARTING, NOW, steps=("STARTING", "RUNNING"))
AWAKE = Status(Phase.RUNNING, phase_changed_at=NOW)
ASLEEP = Status(Phase.STANDBY, phase_changed_at=NOW)


def opens(url: str) -> ConnectionSource:
    @asynccontextmanager
    async def source() -> AsyncIterator[Conn]:
        async with await connect(url) as conn:
            yield conn

    return source


async def first(
    snapshots: AsyncGenerator[Snapshot, None], wanted: Callable[[Snapshot], bool]
) -> Snapshot:
    """The first snapshot that is as wanted; it must come within a bound."""
    async with asyncio.timeout(PATIENCE):
        async for snapshot in snapshots:
            if wanted(snapshot):
                return snapshot
    raise AssertionError("it ended before")


async def until(
    snapshots: AsyncGenerator[Snapshot, None], kind: type[Kind], name: str = "api"
) -> Kind:
    """The first outcome of this kind."""
    found = await first(snapshots, lambda each: isinstance(outcomes(each).get(name), kind))
    outcome = outcomes(found)[name]
    assert isinstance(outcome, kind)
    return outcome


def outcomes(snapshot: Snapshot) -> dict[str, Outcome]:
    return {each.workspace.name: each.outcome for each in snapshot.followed}


def phases(snapshot: Snapshot) -> dict[str, str]:
    return {each.workspace.name: each.workspace.status.phase.value for each in snapshot.followed}


async def last(snapshots: AsyncGenerator[Snapshot, None]) -> Snapshot:
    """The last snapshot of a following that ends by itself."""
    async with asyncio.timeout(PATIENCE), aclosing(snapshots):
        seen = [each async for each in snapshots]
    return seen[-1]


async def begin(conn: Conn, operation: str, **columns: object) -> None:
    await change(conn, "api", operation=operation, op_id=number(7), op_started_at=NOW, **columns)


async def test_it_is_followed_from_asking_to_running(database_url: str) -> None:
    async with (
        await connect(database_url) as conn,
        aclosing(follow(opens(database_url), ["api"])) as snapshots,
    ):
        await insert(conn, workspace("api", desired=RUNNING, status=ASLEEP))
        assert (await until(snapshots, Moving)).operation is Operation.NONE
        await begin(conn, "STARTING")
        await first(snapshots, lambda each: outcomes(each)["api"] == STARTS)
        await change(conn, "api", operation="NONE", phase="RUNNING")
        assert await until(snapshots, Settled) == Settled()
        assert [each async for each in snapshots] == []


async def test_what_is_settled_ends_at_once(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, workspace("api", status=AWAKE))
    seen = await last(follow(opens(database_url), ["api"]))
    assert seen.over
    assert outcomes(seen) == {"api": Settled()}


async def test_a_failure_ends_it_too(database_url: str) -> None:
    status = replace(ASLEEP, phase=Phase.ERROR)
    async with await connect(database_url) as conn:
        await insert(
            conn, workspace("api", status=status), workspace("web", number=2, status=AWAKE)
        )
    seen = await last(follow(opens(database_url), ["api", "web"]))
    assert isinstance(outcomes(seen)["api"], Failed)
    assert seen.over


async def test_patience_ends_and_what_is_not_done_is_there_to_be_named(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, workspace("api", desired=RUNNING, status=ASLEEP))
    seen = await last(follow(opens(database_url), ["api"], patience=0.01))
    assert not seen.over
    assert [each.workspace.name for each in seen.moving] == ["api"]


async def test_a_name_that_never_was(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, workspace("payments"))
    with pytest.raises(NotFound, match='did you mean "payments"'):
        await last(follow(opens(database_url), ["paymens"]))


async def test_a_deletion_is_followed_past_the_name(database_url: str) -> None:
    async with (
        await connect(database_url) as conn,
        aclosing(follow(opens(database_url), ["api"])) as snapshots,
    ):
        await insert(
            conn, workspace("api", desired=DELETED, status=replace(ASLEEP, archive_key="k"))
        )
        await until(snapshots, Moving)
        await change(conn, "api", phase="DELETED", deleted_at=NOW)
        await insert(conn, workspace("api", number=2, desired=RUNNING, status=ASLEEP))
        assert await until(snapshots, Settled) == Settled()


async def test_what_was_deleted_meanwhile_is_found_by_its_name(database_url: str) -> None:
    gone = Status(Phase.DELETED, deleted_at=NOW)
    older = replace(gone, deleted_at=NOW - timedelta(days=1))
    async with await connect(database_url) as conn:
        await insert(
            conn,
            workspace("api", desired=DELETED, status=older),
            workspace("api", number=2, desired=DELETED, status=gone),
        )
    seen = await last(follow(opens(database_url), ["api"]))
    assert [each.workspace.id for each in seen.followed] == [number(2)]


async def test_watching_everything_sees_what_comes_and_goes(database_url: str) -> None:
    async with (
        await connect(database_url) as conn,
        aclosing(follow(opens(database_url), endless=True)) as snapshots,
    ):
        # Long ago by any machine's clock.
        gone = Status(Phase.DELETED, deleted_at=NOW - timedelta(days=3650))
        await insert(
            conn,
            workspace("api", status=AWAKE),
            workspace("past", number=2, desired=DELETED, status=gone),
        )
        await until(snapshots, Settled, "api")
        await insert(conn, workspace("new", number=3, status=AWAKE))
        await until(snapshots, Settled, "new")
        await conn.execute(
            "UPDATE workspaces SET phase = 'DELETED', deleted_at = now(),"
            " desired_state = 'DELETED' WHERE name = 'new'"
        )
        end = await first(snapshots, lambda each: "DELETED" in phases(each).values())
        assert phases(end) == {"api": "RUNNING", "new": "DELETED"}


async def test_a_limit_holds_what_finds_no_place(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, *crowd())
    seen = outcomes(await last(follow(opens(database_url))))
    assert seen["one"] == seen["two"] == Settled()
    assert isinstance(seen["three"], Held)
    assert seen["three"].why == "held by a limit: alice may run 2 at once, and this is number 3"


async def test_the_hubs_limit_holds_too(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, *crowd())
        await write_hub(conn, Hub(max_running_per_user=9, max_running_global=2))
    seen = outcomes(await last(follow(opens(database_url))))
    assert isinstance(seen["three"], Held)
    assert "this hub runs 2 at once" in seen["three"].why


async def test_settings_count_where_no_spec_says(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, *crowd())
    customs = Customs(limits=LimitDefaults(max_running_per_user=3))
    seen = await last(follow(opens(database_url), ["three"], customs=customs, patience=0.01))
    assert isinstance(outcomes(seen)["three"], Moving)


async def test_somebody_who_makes_room_keeps_a_wait_going(database_url: str) -> None:
    """A stop and a start at once: the place is taken still, and free soon."""
    async with (
        await connect(database_url) as conn,
        aclosing(follow(opens(database_url), ["three"])) as snapshots,
    ):
        await insert(conn, *crowd())
        await change(conn, "one", desired_state="STANDBY", desired_source="cli")
        assert (await until(snapshots, Moving, "three")).steps == ("STARTING", "RUNNING")
        await change(conn, "one", phase="STANDBY")
        await change(conn, "three", phase="RUNNING")
        assert await until(snapshots, Settled, "three") == Settled()


def crowd() -> list[Any]:
    """Two of alice's run, and a third was asked for last."""
    asked = [Intent(RUNNING, at=NOW + timedelta(minutes=each)) for each in range(3)]
    states = [AWAKE, AWAKE, ASLEEP]
    return [
        workspace(name, number=place + 1, intent=asked[place], status=states[place])
        for place, name in enumerate(("one", "two", "three"))
    ]


async def test_a_lost_connection_is_opened_again(database_url: str) -> None:
    async with (
        await connect(database_url) as conn,
        aclosing(follow(opens(database_url), ["api"])) as snapshots,
    ):
        await insert(conn, workspace("api", desired=RUNNING, status=ASLEEP))
        await until(snapshots, Moving)
        await conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        lost = await first(snapshots, lambda each: bool(each.lost))
        assert "connection to the database was lost" in lost.lost
        assert outcomes(lost).keys() == {"api"}
        await change(conn, "api", phase="RUNNING")
        assert await until(snapshots, Settled) == Settled()


async def test_a_database_that_never_answered_is_not_waited_for() -> None:
    with pytest.raises(Unreachable):
        await last(follow(opens("postgresql://127.0.0.1:1/none"), ["api"]))


async def test_who_leads_is_seen(database_url: str) -> None:
    async with await connect(database_url) as conn, await connect(database_url) as other:
        assert not await somebody_leads(conn)
        assert await try_lock_session(other, Lock.LOADER)
        assert not await somebody_leads(conn)
        assert await try_lock_session(other, Lock.LEADER)
        assert await somebody_leads(conn)
        await insert(conn, workspace("api", status=AWAKE))
        assert (await last(follow(opens(database_url), ["api"]))).led
    assert not (await last(follow(opens(database_url), ["api"]))).led


async def test_a_leader_elsewhere_on_the_server_is_not_ours(
    database_url: str, empty_database_url: str
) -> None:
    async with await connect(database_url) as conn, await connect(empty_database_url) as other:
        assert await try_lock_session(other, Lock.LEADER)
        assert not await somebody_leads(conn)
