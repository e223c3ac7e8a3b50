"""What a request gets: every phase, operation, wish and hold, for a person, a script, a WebSocket.

The table itself is a snapshot. What it must not get wrong stands beside it in plain words.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from codehub.model.access import Scope
from codehub.model.states import DesiredState, IntentSource, Operation, Phase
from codehub.model.workspace import Intent, Override, Status
from codehub.proxy.frames import TRY_AGAIN_LATER
from codehub.proxy.seam import Answer, Forward
from codehub.service.limits import LimitDefaults
from codehub.store.users import upsert_users
from tests.integration.stored import live, versions
from tests.make import NOW, user, workspace
from tests.proxy.gate_world import UPSTREAM, asleep, awake, gate_world
from tests.proxy.heads_of import FETCH, RELOAD, SOCKET, VISIT, head
from tests.snapshots.conftest import TextFile
from tests.snapshots.tables import truth_table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from syrupy.assertion import SnapshotAssertion

    from codehub.model.workspace import Workspace
    from tests.proxy.gate_world import GateWorld

pytestmark = pytest.mark.anyio

OPERATIONS: dict[str, tuple[str, ...]] = {
    "PENDING": ("NONE", "PROVISIONING", "CREATE_EMPTY_ARCHIVE", "DELETING"),
    "ARCHIVED": ("NONE", "RESTORING", "DELETING"),
    "STANDBY": ("NONE", "STARTING", "STOPPING", "ARCHIVING"),
    "RUNNING": ("NONE", "STOPPING"),
    "ERROR": ("NONE",),
    "DELETING": ("DELETING",),
    "DELETED": ("NONE",),
}
WANTED = ("ARCHIVED", "STANDBY", "RUNNING", "DELETED")
HELD = ("free", "wakes from ARCHIVED", "suspended", "ceiling", "override", "limit")
LATER = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
def table_snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(TextFile)


@dataclass(frozen=True)
class Case:
    """One row of the table; its workspace is named by its number."""

    number: int
    phase: str
    operation: str
    wanted: str
    held: str

    @property
    def name(self) -> str:
        return f"ws{self.number:03}"

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.phase, self.operation, self.wanted, self.held

    def workspace(self) -> Workspace:
        deleted = {"deleted_at": NOW} if self.phase == "DELETED" else {}
        busy = {"op_id": UUID(int=7), "op_started_at": NOW} if self.operation != "NONE" else {}
        status: dict[str, Any] = {
            "operation": Operation(self.operation),
            "upstream": UPSTREAM if self.phase == "RUNNING" else None,
            **deleted,
            **busy,
        }
        return workspace(
            self.name,
            number=1000 + self.number,
            status=Status(Phase(self.phase), **status),
            intent=self._intent(),
            **self._declared(),
        )

    def _intent(self) -> Intent:
        override = None
        if self.held == "override":
            override = Override(DesiredState.STANDBY, LATER, "maintenance")
        return Intent(DesiredState(self.wanted), IntentSource.TTL, override=override)

    def _declared(self) -> dict[str, Any]:
        fields: dict[str, dict[str, Any]] = {
            "wakes from ARCHIVED": {"wake_from": DesiredState.ARCHIVED},
            "suspended": {"suspend": True},
            "ceiling": {"declared_state": DesiredState.STANDBY},
            "limit": {"owner": "full"},
        }
        return fields.get(self.held, {})


def cases() -> list[Case]:
    states = [(phase, each) for phase, known in OPERATIONS.items() for each in known]
    found = product(states, WANTED, HELD)
    return [Case(n, *state, wanted, held) for n, (state, wanted, held) in enumerate(found)]


def told(found: Answer | Forward, case: Case) -> str:
    """An answer in a few words."""
    if isinstance(found, Forward):
        return "forwarded"
    assert isinstance(found.body, bytes)
    if found.status == 101:
        assert int.from_bytes(found.body[2:4], "big") == TRY_AGAIN_LATER
        return f"close {TRY_AGAIN_LATER}"
    if found.body.startswith(b"{"):
        title = json.loads(found.body)["title"]
    else:
        title = re.search(r"<h1[^>]*>(.*?)</h1>", found.body.decode(), re.DOTALL)[1].strip()  # type: ignore[index]
    return f"{found.status:d} {title.replace(case.name, 'it')}"


@pytest.fixture
async def world(database_url: str, redis_url: str) -> AsyncIterator[GateWorld]:
    """Alice may run as many as she likes, `full` none at all."""
    async with gate_world(database_url, redis_url, run=False) as found:
        await upsert_users(found.conn, [user("full", max_running=0)])
        yield found


async def fill(world: GateWorld) -> list[Case]:
    listed = cases()
    await world.add(*(case.workspace() for case in listed))
    await upsert_users(world.conn, [user("full", max_running=0)])
    await world.table.refresh()
    return listed


async def ask(
    world: GateWorld, case: Case, headers: dict[str, str], cookies: dict[str, str]
) -> str:
    cookie = cookies["full" if case.held == "limit" else "alice"]
    return told(await world.ask(head(f"/w/{case.name}/", headers, cookie=cookie)), case)


async def test_what_a_request_gets(world: GateWorld, table_snapshot: SnapshotAssertion) -> None:
    listed = await fill(world)
    cookies = {name: await world.log_in(name) for name in ("alice", "full")}
    before = await versions(world.conn, "workspaces")
    others = {
        case.key: (
            await ask(world, case, FETCH, cookies),
            await ask(world, case, SOCKET, cookies),
            await ask(world, case, RELOAD, cookies),
        )
        for case in listed
    }
    assert await versions(world.conn, "workspaces") == before, "only a person's visit wakes"
    visits = {case.key: await ask(world, case, VISIT, cookies) for case in listed}
    rows = await (await world.conn.execute("SELECT name, desired_state FROM workspaces")).fetchall()
    now = {row["name"]: row["desired_state"] for row in rows}
    woken = {c.key for c in listed if c.wanted != "RUNNING" and now[c.name] == "RUNNING"}

    def rule(phase: str, operation: str, wanted: str, held: str) -> tuple[str, ...] | None:
        key = (phase, operation, wanted, held)
        if key not in visits:
            return None
        mark = "asks for it: " if key in woken else ""
        return mark + visits[key], *others[key][:2]

    operations = tuple(dict.fromkeys(each for known in OPERATIONS.values() for each in known))
    table = truth_table(
        {"phase": tuple(OPERATIONS), "operation": operations, "wanted": WANTED, "held": HELD},
        ("a person's visit", "a script", "a WebSocket"),
        rule,
        grouped=True,
    )
    assert table == table_snapshot
    assert all(key[0] not in ("ERROR", "DELETED") and key[2] != "DELETED" for key in woken)
    assert all(key[3] in ("free", "wakes from ARCHIVED") for key in woken), "no hold is passed"
    assert {key[:2] for key in woken if key[3] == "free"} == {
        ("PENDING", "PROVISIONING"),
        ("ARCHIVED", "RESTORING"),
        *(("STANDBY", each) for each in OPERATIONS["STANDBY"]),
        ("RUNNING", "STOPPING"),
    }
    assert {key[:2] for key in woken} - {key[:2] for key in woken if key[3] == "free"} == {
        ("PENDING", "CREATE_EMPTY_ARCHIVE"),
        ("ARCHIVED", "NONE"),
    }
    forwarded = {key for key, answer in visits.items() if answer == "forwarded"}
    assert {key[:2] for key in forwarded} == {("RUNNING", "NONE")}
    assert all(others[key][0] == "forwarded" for key in forwarded)


# The points of the table, one by one


async def test_a_visit_wakes_and_the_audit_says_who_came_from_where(world: GateWorld) -> None:
    await world.add(asleep())
    cookie = await world.log_in()
    answer = await world.ask(head(headers=VISIT, cookie=cookie))
    assert isinstance(answer, Answer)
    assert answer.status == 503
    assert (b"Retry-After", b"2") in answer.headers
    intent = (await live(world.conn, "api")).intent
    assert (intent.desired, intent.source) == (DesiredState.RUNNING, IntentSource.VISIT)
    row = await (
        await world.conn.execute("SELECT by, reason, source FROM workspace_events")
    ).fetchone()
    assert row == {"by": "alice", "reason": "visited from 192.0.2.1", "source": "visit"}


MAKING_READY = {
    Operation.PROVISIONING: Phase.PENDING,
    Operation.RESTORING: Phase.ARCHIVED,
    Operation.STARTING: Phase.STANDBY,
}


def made_ready(operation: Operation) -> Workspace:
    """Under way to STANDBY: `startOn: visit`, `codehub restore`, a stop during the start."""
    status = Status(
        MAKING_READY[operation], operation=operation, op_id=UUID(int=7), op_started_at=NOW
    )
    return workspace("api", status=status, intent=Intent(DesiredState.STANDBY))


@pytest.mark.parametrize("operation", MAKING_READY)
async def test_whoever_comes_while_it_is_made_ready_gets_into_it(
    world: GateWorld, operation: Operation
) -> None:
    """What the page promises must happen: nobody else asks for it to run."""
    await world.add(made_ready(operation))
    answer = await world.answer(head(headers=VISIT, cookie=await world.log_in()))
    assert answer.status == 503
    assert isinstance(answer.body, bytes)
    assert b"opens here" in answer.body
    intent = (await live(world.conn, "api")).intent
    assert (intent.desired, intent.source) == (DesiredState.RUNNING, IntentSource.VISIT)


@pytest.mark.parametrize("headers", [RELOAD, FETCH])
@pytest.mark.parametrize("operation", MAKING_READY)
async def test_whoever_asks_for_nothing_while_it_is_made_ready_is_promised_nothing(
    world: GateWorld, operation: Operation, headers: dict[str, str]
) -> None:
    await world.add(made_ready(operation))
    cookie, before = await world.log_in(), await versions(world.conn, "workspaces")
    answer = await world.answer(head(headers=headers, cookie=cookie))
    assert answer.status == 503
    assert isinstance(answer.body, bytes)
    assert b"opens here" not in answer.body
    assert await versions(world.conn, "workspaces") == before


@pytest.mark.parametrize(
    ("headers", "method"),
    [
        (RELOAD, "GET"),
        (FETCH, "GET"),
        (SOCKET, "GET"),
        (VISIT | {"Sec-Fetch-Dest": "iframe"}, "GET"),
        (VISIT, "HEAD"),
        (VISIT | {"Origin": "http://localhost:8080", "Sec-Fetch-Site": "same-origin"}, "POST"),
        (FETCH | {"X-CodeHub-Wake": "1"}, "GET"),
        ({}, "GET"),
    ],
)
async def test_a_forgotten_tab_wakes_nothing(
    world: GateWorld, headers: dict[str, str], method: str
) -> None:
    await world.add(asleep(), asleep("old", 2, Phase.ARCHIVED, wake_from=DesiredState.ARCHIVED))
    cookie, before = await world.log_in(), await versions(world.conn, "workspaces")
    for name in ("api", "old"):
        answer = await world.ask(head(f"/w/{name}/", headers, method=method, cookie=cookie))
        assert isinstance(answer, Answer)
        assert answer.status in (503, 101)
    assert await versions(world.conn, "workspaces") == before


async def test_a_tab_that_reloads_itself_is_told_that_it_sleeps(world: GateWorld) -> None:
    """Not that it wakes, which would not be true."""
    await world.add(asleep())
    cookie = await world.log_in()
    answer = await world.ask(head(headers=RELOAD, cookie=cookie))
    assert isinstance(answer, Answer)
    assert isinstance(answer.body, bytes)
    assert b"api is asleep" in answer.body
    assert b"Waking" not in answer.body


@pytest.mark.parametrize(
    ("scope", "headers", "status", "wakes"),
    [
        (Scope.WAKE, {"X-CodeHub-Wake": "1"}, 503, True),
        (Scope.WRITE, {"X-CodeHub-Wake": "1"}, 503, True),
        (Scope.WAKE, {"X-CodeHub-Wake": "0"}, 503, False),
        (Scope.WAKE, {}, 503, False),
        (Scope.WAKE, VISIT, 503, False),
        (Scope.READ, {"X-CodeHub-Wake": "1"}, 403, False),
        (Scope.PLAN, {"X-CodeHub-Wake": "1"}, 403, False),
    ],
)
async def test_a_program_wakes_when_it_says_so_and_may(
    world: GateWorld, scope: Scope, headers: dict[str, str], status: int, wakes: bool
) -> None:
    await world.add(asleep())
    answer = await world.answer(head(headers=headers, bearer=await world.token(scope)))
    assert answer.status == status
    woken = (await live(world.conn, "api")).intent.desired is DesiredState.RUNNING
    assert woken is wakes


async def test_one_too_many_is_told_with_those_that_run(database_url: str, redis_url: str) -> None:
    limits = LimitDefaults(1, 100)
    async with gate_world(database_url, redis_url, run=False, limits=limits) as world:
        await world.add(asleep(), awake("busy", 2))
        cookie, token = await world.log_in(), await world.token(Scope.WAKE)
        page = await world.ask(head(headers=VISIT, cookie=cookie))
        assert isinstance(page, Answer)
        assert page.status == 502
        assert isinstance(page.body, bytes)
        assert b"/_codehub/do/busy" in page.body
        program = await world.answer(head(headers={"X-CodeHub-Wake": "1"}, bearer=token))
        assert program.status == 429
        assert [key for key, _ in program.headers].count(b"Retry-After") == 1
        assert isinstance(program.body, bytes)
        assert json.loads(program.body)["running"] == ["busy"]
        socket = await world.answer(head(headers=SOCKET | {"X-CodeHub-Wake": "1"}, cookie=cookie))
        assert socket.status == 101
        assert (await live(world.conn, "api")).intent.desired is DesiredState.STANDBY


async def test_who_waits_behind_a_limit_is_told_the_place(
    database_url: str, redis_url: str
) -> None:
    limits = LimitDefaults(1, 100)
    async with gate_world(database_url, redis_url, run=False, limits=limits) as world:
        waiting = workspace(
            "api", number=1, status=Status(Phase.STANDBY), intent=Intent(DesiredState.RUNNING)
        )
        await world.add(waiting, awake("busy", 2))
        cookie = await world.log_in()
        page = await world.ask(head(headers=VISIT, cookie=cookie))
        assert isinstance(page, Answer)
        assert page.status == 502
        assert isinstance(page.body, bytes)
        assert b"number 1 in the queue" in page.body
        assert b"/_codehub/do/busy" in page.body
        assert (await world.answer(head(headers=FETCH, cookie=cookie))).status == 429


async def test_a_failed_start_is_not_tried_again_by_visits(world: GateWorld) -> None:
    status = Status(Phase.ERROR, error_message="it ended with code 1", error_count=4)
    await world.add(workspace("api", status=status))
    before = await versions(world.conn, "workspaces", "workspace_events")
    cookie = await world.log_in()
    for _ in range(3):
        page = await world.answer(head(headers=VISIT, cookie=cookie))
        assert page.status == 502
    assert await versions(world.conn, "workspaces", "workspace_events") == before


async def test_a_hold_that_has_ended_holds_nobody(world: GateWorld) -> None:
    ended = Override(DesiredState.STANDBY, NOW - timedelta(days=1), "over")
    intent = Intent(DesiredState.STANDBY, IntentSource.TTL, override=ended)
    await world.add(workspace("api", status=Status(Phase.STANDBY), intent=intent))
    answer = await world.answer(head(headers=VISIT, cookie=await world.log_in()))
    assert answer.status == 503
    assert (await live(world.conn, "api")).intent.desired is DesiredState.RUNNING
