"""One rule for all who count what runs, and who is offered to be stopped can be."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from codehub.core.target import aim
from codehub.errors import Refused
from codehub.model.states import DesiredState, ErrorReason, Operation, Phase
from codehub.model.workspace import Intent, Override, Status
from codehub.service.asking import Only, ask_for
from codehub.service.limits import LimitDefaults
from codehub.store.connect import connect
from codehub.store.intent import count_running
from codehub.store.overview import read_in_use, read_people
from codehub.store.places import read_places
from codehub.store.tally import read_tally
from codehub.store.users import read_user_ids
from codehub.store.workspaces import find_live
from tests.integration.stored import insert
from tests.make import NOW, workspace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.workspace import Workspace

pytestmark = pytest.mark.anyio

RUNNING, STANDBY, ARCHIVED = DesiredState.RUNNING, DesiredState.STANDBY, DesiredState.ARCHIVED
PROBE = UUID(int=100_000)
LIMITS = LimitDefaults()
LOWERED = Override(STANDBY, NOW.replace(year=2999), "maintenance")
BROKEN = Status(Phase.ERROR, error_reason=ErrorReason.TIMEOUT)
CLAIMED: dict[str, Any] = {"op_id": UUID(int=1), "op_started_at": NOW}
CEILINGS = ((RUNNING, None), (STANDBY, None), (ARCHIVED, None), (RUNNING, LOWERED))


def statuses() -> Iterator[Status]:
    """Every phase that lives, at rest and busy; an ERROR has no operation."""
    yield BROKEN
    yield Status(Phase.ERROR)
    operations = (Operation.NONE, Operation.STARTING, Operation.STOPPING, Operation.RESTORING)
    phases = (Phase.PENDING, Phase.ARCHIVED, Phase.STANDBY, Phase.RUNNING)
    for phase, operation in product(phases, operations):
        yield Status(phase, operation=operation, **CLAIMED)
    for operation, reason in product(Operation, (ErrorReason.UNREACHABLE, None)):
        kept = {"retry_at": NOW, "home_store_key": "v", "error_reason": reason, **CLAIMED}
        yield Status(Phase.STANDBY, operation=operation, **kept)


def fleet() -> list[Workspace]:
    """All of alice's, one for each combination of what matters here."""
    wanted = (RUNNING, STANDBY, DesiredState.DELETED)
    cases = product(statuses(), wanted, CEILINGS, (False, True), (False, True))
    return [
        workspace(
            f"w{number}",
            number=number,
            intent=Intent(desired, override=override),
            status=status,
            declared_state=declared,
            pinned=pinned,
            suspend=suspend,
        )
        for number, (status, desired, (declared, override), pinned, suspend) in enumerate(cases, 1)
    ]


async def filled(conn: AsyncConnection[DictRow]) -> list[Workspace]:
    rows = fleet()
    probe = Status(Phase.STANDBY)
    await insert(conn, *rows, workspace("probe", number=PROBE.int, desired=STANDBY, status=probe))
    return rows


async def test_all_count_alike(database_url: str) -> None:
    """The leader, whoever asks for RUNNING, the dashboard and the API."""
    async with await connect(database_url) as conn:
        rows = await filled(conn)
        places = await read_places(conn, [row.id for row in rows], per_user=2, everybody=100)
        by_leader = {row.name for row in rows if row.id in places}
        by_asking = await count_running(conn, PROBE)
        (alice,) = await read_people(conn)
        in_use = await read_in_use(conn, "alice")
        tally = await read_tally(conn, (await read_user_ids(conn))["alice"], everybody=True)

    assert set(by_asking.own) == by_leader
    assert set(alice.running_names) == by_leader
    counts = (by_asking.everybody, alice.running, in_use.own, in_use.everybody, tally.running)
    assert counts == (len(by_leader),) * 5
    assert {row.name for row in rows if row.status.phase is Phase.RUNNING} < by_leader
    assert by_leader.isdisjoint(row.name for row in rows if row.status == BROKEN)


async def test_who_is_offered_to_be_stopped_can_be(database_url: str) -> None:
    async with await connect(database_url) as conn:
        declared = {row.name: row.declaration.declared_state for row in await filled(conn)}
        running = await count_running(conn, PROBE)
        stops = {name for name in running.own if await would_stop(conn, name)}

    offered = set(running.stoppable)
    assert offered <= stops
    assert 0 < len(offered) < len(running.own)
    assert {declared[name] for name in stops - offered} == {ARCHIVED}, "they go by themselves"


async def would_stop(conn: AsyncConnection[DictRow], name: str) -> bool:
    """Whether the button does what stands on it: nothing refuses, and it goes down."""
    found = await find_live(conn, name)
    assert found is not None
    try:
        await ask_for(conn, found, STANDBY, by="alice", reason="", limits=LIMITS, only=Only.DOWN)
    except Refused:
        return False
    found = await find_live(conn, name)
    assert found is not None
    return aim(found.workspace, found.read_at) not in (None, RUNNING)
