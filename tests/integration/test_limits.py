"""How many may run: hard under concurrency, and the nearest limit counts."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from codehub.errors import LimitReached
from codehub.model.people import Hub
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.workspace import Intent, Override, Status
from codehub.service.intent import set_desired
from codehub.service.limits import LimitDefaults
from codehub.store.connect import connect
from codehub.store.hubs import write_hub
from codehub.store.users import upsert_users
from codehub.store.workspaces import read_workspaces
from tests.integration.stored import change, insert, live
from tests.make import NOW, user, workspace

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    from codehub.model.workspace import Workspace

pytestmark = pytest.mark.anyio

RUNNING, STANDBY = DesiredState.RUNNING, DesiredState.STANDBY
ASLEEP = Status(phase=Phase.STANDBY)
BROKEN = Status(phase=Phase.ERROR, error_reason=ErrorReason.TIMEOUT)
BUSY = Status(
    phase=Phase.STANDBY, operation=Operation.STARTING, op_id=UUID(int=9), op_started_at=NOW
)
CLI = IntentSource.CLI


def asleep(name: str, number: int, **fields: Any) -> Workspace:
    return workspace(name, number=number, desired=STANDBY, status=ASLEEP, **fields)


def awake(name: str, number: int, **fields: Any) -> Workspace:
    return workspace(name, number=number, status=Status(phase=Phase.RUNNING), **fields)


async def start(
    conn: AsyncConnection[Any],
    name: str,
    source: IntentSource = CLI,
    *,
    per_user: int = 2,
    everybody: int = 100,
) -> bool:
    limits = LimitDefaults(per_user, everybody)
    moved = await set_desired(conn, name, RUNNING, source=source, by="alice", limits=limits)
    return moved.changed


async def test_of_twenty_at_once_exactly_two_start(database_url: str) -> None:
    names = [f"w{n}" for n in range(20)]
    async with AsyncExitStack() as stack:
        conns = [await stack.enter_async_context(await connect(database_url)) for _ in names]
        await insert(conns[0], *(asleep(name, n) for n, name in enumerate(names, 1)))

        answers = await asyncio.gather(
            *(start(conn, name) for conn, name in zip(conns, names, strict=True)),
            return_exceptions=True,
        )
        refused = [one for one in answers if isinstance(one, LimitReached)]
        assert answers.count(True) == 2
        assert len(refused) == 18

        desired = [one.intent.desired for one in await read_workspaces(conns[0])]
        assert desired.count(RUNNING) == 2
        started = {name for name, one in zip(names, answers, strict=True) if one is True}
        for one in refused:
            assert (one.limit, one.position, set(one.running)) == (2, 3, started)
            assert "alice may run 2 at once" in str(one)
            assert "would be number 3" in str(one)
            assert one.hint is not None
            assert "codehub stop" in one.hint


@pytest.mark.parametrize("source", [IntentSource.API, IntentSource.CLI, IntentSource.VISIT])
async def test_people_and_visits_are_limited(database_url: str, source: IntentSource) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, awake("a", 1), awake("b", 2), asleep("c", 3))

        with pytest.raises(LimitReached, match="running or waiting: a, b"):
            await start(conn, "c", source)
        assert (await live(conn, "c")).intent.desired is STANDBY


async def test_the_loader_is_not(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, awake("a", 1), awake("b", 2), asleep("c", 3))

        assert await start(conn, "c", IntentSource.SPEC)


async def test_lowering_is_never_limited(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, awake("a", 1), awake("b", 2), awake("c", 3))

        moved = await set_desired(conn, "a", STANDBY, source=CLI, by="alice")
        assert moved.changed


COUNTED: dict[str, dict[str, Any]] = {
    "running though not desired": {"desired": STANDBY, "status": Status(phase=Phase.RUNNING)},
    "desired though not running": {"status": ASLEEP},
    "pinned though not desired": {"desired": STANDBY, "status": ASLEEP, "pinned": True},
    "suspended while it runs": {"status": Status(phase=Phase.RUNNING), "suspend": True},
    "starting though held by git": {"status": BUSY, "declared_state": STANDBY},
    "recovered and not looked at since": {"status": Status(phase=Phase.ERROR)},
}
NOT_COUNTED: dict[str, dict[str, Any]] = {
    "asleep": {"desired": STANDBY, "status": ASLEEP},
    "deleted": {"status": Status(phase=Phase.DELETED, deleted_at=NOW)},
    "in ERROR": {"status": BROKEN},
    "suspended": {"status": ASLEEP, "suspend": True},
    "suspended before it was made": {"status": Status(phase=Phase.PENDING), "suspend": True},
    "held by git": {"status": ASLEEP, "declared_state": STANDBY},
    "held by an override": {
        "status": ASLEEP,
        "intent": Intent(RUNNING, override=Override(STANDBY, NOW.replace(year=2999), "")),
    },
    "somebody else's": {"owner": "bob", "status": Status(phase=Phase.RUNNING)},
}


@pytest.mark.parametrize("case", COUNTED)
async def test_what_runs_or_will_is_counted(database_url: str, case: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, workspace("a", number=1, **COUNTED[case]), asleep("b", 2))

        with pytest.raises(LimitReached):
            await start(conn, "b", per_user=1)


@pytest.mark.parametrize("case", NOT_COUNTED)
async def test_what_cannot_run_is_not(database_url: str, case: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, workspace("a", number=1, **NOT_COUNTED[case]), asleep("b", 2))

        assert await start(conn, "b", per_user=1)


async def test_the_hub_is_not_full_of_what_is_suspended(database_url: str) -> None:
    """As after an import, which brings everything back suspended."""
    pending = Status(phase=Phase.PENDING)
    async with await connect(database_url) as conn:
        rows = [
            workspace(f"w{n}", number=n, owner=f"user{n % 60}", status=pending, suspend=True)
            for n in range(1, 111)
        ]
        await insert(conn, *rows, asleep("mine", 111))

        assert await start(conn, "mine", per_user=1, everybody=1)


async def test_what_waits_for_a_person_keeps_nobody_from_starting(database_url: str) -> None:
    async with await connect(database_url) as conn:
        broken = workspace("broken", number=2, status=BROKEN)
        await insert(conn, awake("a", 1), broken, asleep("c", 3), asleep("d", 4))

        assert await start(conn, "c")
        with pytest.raises(LimitReached, match="running or waiting: a, c") as refused:
            await start(conn, "d")
        assert refused.value.stoppable == ("a", "c")


async def test_only_what_can_be_stopped_is_offered_for_it(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, awake("a", 1, suspend=True), awake("b", 2), asleep("c", 3))
        with pytest.raises(LimitReached) as refused:
            await start(conn, "c")
        error = refused.value
        assert (error.running, error.stoppable) == (("a", "b"), ("b",))
        assert error.hint == "stop one first, for example 'codehub stop b'"

        await change(conn, "b", pinned=True)
        with pytest.raises(LimitReached) as refused:
            await start(conn, "c")
        assert refused.value.stoppable == ()
        assert refused.value.hint is not None
        assert refused.value.hint.startswith("none of them can be stopped now")


async def test_one_that_is_being_stopped_may_go_on(database_url: str) -> None:
    """It runs, so it is counted; but not against itself."""
    stopping = workspace("a", desired=STANDBY, status=Status(phase=Phase.RUNNING))
    async with await connect(database_url) as conn:
        await insert(conn, stopping)

        assert await start(conn, "a", per_user=1)


@pytest.mark.parametrize(
    ("of_user", "of_hub", "of_settings", "fits"),
    [
        (3, 1, 1, True),
        (1, 3, 3, False),
        (None, 3, 1, True),
        (None, 1, 3, False),
        (None, None, 3, True),
        (None, None, 2, False),
        (0, 3, 3, False),
    ],
)
async def test_the_users_limit_goes_before_the_hubs_before_the_settings(
    database_url: str, of_user: int | None, of_hub: int | None, of_settings: int, fits: bool
) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, awake("a", 1), awake("b", 2), asleep("c", 3))
        await upsert_users(conn, [user("alice", max_running=of_user)])
        await write_hub(conn, Hub(max_running_per_user=of_hub))

        if fits:
            assert await start(conn, "c", per_user=of_settings)
        else:
            with pytest.raises(LimitReached):
                await start(conn, "c", per_user=of_settings)


async def test_a_limit_of_none_at_all_says_whom_to_ask(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, asleep("a", 1))
        with pytest.raises(LimitReached) as refused:
            await start(conn, "a", per_user=0)

        assert refused.value.hint == "ask an admin to raise maxRunning in the specs"


@pytest.mark.parametrize(("of_hub", "of_settings"), [(2, 100), (None, 2)])
async def test_the_hubs_limit_counts_everybody_and_names_nobody(
    database_url: str, of_hub: int | None, of_settings: int
) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, awake("a", 1, owner="bob"), awake("b", 2, owner="carol"), asleep("c", 3))
        await write_hub(conn, Hub(max_running_global=of_hub))

        with pytest.raises(LimitReached) as refused:
            await start(conn, "c", everybody=of_settings)
        error = refused.value
        assert str(error) == "this hub runs 2 at once, and c would be number 3"
        assert (error.limit, error.position, error.running) == (2, 3, ())
