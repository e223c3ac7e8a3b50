"""Places under the limits: given out in order of asking, and nobody takes another one's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from codehub.model.people import Hub
from codehub.model.states import DesiredState, ErrorReason, Operation, Phase
from codehub.model.workspace import Intent, Override, Status
from codehub.store.connect import connect
from codehub.store.hubs import write_hub
from codehub.store.places import Place, read_places
from codehub.store.users import upsert_users
from tests.integration.stored import insert
from tests.make import NOW, user, workspace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codehub.model.people import User
    from codehub.model.workspace import Workspace

pytestmark = pytest.mark.anyio

RUNNING, STANDBY, DELETED = DesiredState.RUNNING, DesiredState.STANDBY, DesiredState.DELETED


def waiting(
    name: str, number: int, asked: int | None = 0, desired: DesiredState = RUNNING, **fields: Any
) -> Workspace:
    """Asleep and wanted RUNNING since so many minutes after NOW."""
    at = None if asked is None else NOW + timedelta(minutes=asked)
    override = fields.pop("override", None)
    status = fields.pop("status", Status(Phase.STANDBY))
    intent = Intent(desired, at=at, override=override)
    return workspace(name, number=number, intent=intent, status=status, **fields)


def running(name: str, number: int, asked: int = 0, **fields: Any) -> Workspace:
    return waiting(name, number, asked, status=Status(Phase.RUNNING), **fields)


def busy(name: str, number: int, operation: Operation, **fields: Any) -> Workspace:
    status = Status(
        Phase.STANDBY, operation=operation, op_id=UUID(int=number + 500), op_started_at=NOW
    )
    return waiting(name, number, status=status, **fields)


async def places(
    url: str,
    *rows: Workspace,
    per_user: int = 2,
    everybody: int = 100,
    users: Sequence[User] = (),
    hub: Hub | None = None,
) -> dict[str, Place]:
    """The place of each that has one, by name."""
    async with await connect(url) as conn:
        await insert(conn, *rows)
        await upsert_users(conn, list(users))
        if hub is not None:
            await write_hub(conn, hub)
        ids = [row.id for row in rows]
        found = await read_places(conn, ids, per_user=per_user, everybody=everybody)
    return {row.name: found[row.id] for row in rows if row.id in found}


def fitting(found: dict[str, Place]) -> list[str]:
    return sorted(name for name, place in found.items() if place.fits)


async def test_who_asked_first_comes_first(database_url: str) -> None:
    found = await places(
        database_url,
        waiting("third", 1, asked=3),
        waiting("first", 2, asked=1),
        waiting("second", 3, asked=2),
    )
    assert {name: place.own for name, place in found.items()} == {
        "first": 1,
        "second": 2,
        "third": 3,
    }
    assert fitting(found) == ["first", "second"]


async def test_those_that_asked_together_stand_in_one_order(database_url: str) -> None:
    found = await places(database_url, waiting("b", 2), waiting("a", 3), waiting("c", 1))
    assert [found[name].own for name in ("c", "b", "a")] == [1, 2, 3]


async def test_who_is_desired_without_a_time_was_always(database_url: str) -> None:
    found = await places(database_url, waiting("new", 1, asked=1), waiting("old", 2, asked=None))
    assert (found["old"].own, found["new"].own) == (1, 2)


async def test_what_runs_keeps_its_place_before_who_asked_earlier(database_url: str) -> None:
    found = await places(
        database_url, waiting("early", 1, asked=0), running("runs", 2, asked=9), per_user=1
    )
    assert (found["runs"].own, found["early"].own) == (1, 2)
    assert fitting(found) == ["runs"]


@pytest.mark.parametrize("operation", [Operation.STARTING, Operation.STOPPING])
async def test_what_starts_or_stops_has_a_place(database_url: str, operation: Operation) -> None:
    """One that stops is there until it is gone."""
    desired = RUNNING if operation is Operation.STARTING else STANDBY
    found = await places(
        database_url,
        waiting("early", 1, asked=0),
        busy("moves", 2, operation, desired=desired, asked=9),
        per_user=1,
    )
    assert fitting(found) == ["moves"]


@pytest.mark.parametrize("operation", [Operation.RESTORING, Operation.PROVISIONING])
async def test_what_is_on_its_way_stands_where_it_asked(
    database_url: str, operation: Operation
) -> None:
    found = await places(
        database_url,
        waiting("later", 1, asked=5),
        busy("comes", 2, operation, asked=1),
        per_user=1,
    )
    assert fitting(found) == ["comes"]


async def test_each_has_a_limit_of_their_own(database_url: str) -> None:
    rows = [waiting(f"a{n}", n, asked=n) for n in range(1, 4)]
    rows += [waiting(f"b{n}", n + 10, asked=n + 10, owner="bob") for n in range(1, 4)]
    found = await places(database_url, *rows, users=[user("bob", max_running=3)])
    assert fitting(found) == ["a1", "a2", "b1", "b2", "b3"]


async def test_the_nearest_limit_counts(database_url: str) -> None:
    rows = [waiting(f"a{n}", n, asked=n) for n in range(1, 4)]
    rows += [waiting(f"b{n}", n + 10, asked=n, owner="bob") for n in range(1, 4)]
    found = await places(
        database_url,
        *rows,
        users=[user("bob", max_running=2)],
        hub=Hub(max_running_per_user=1, max_running_global=50),
        per_user=3,
        everybody=2,
    )
    assert fitting(found) == ["a1", "b1", "b2"]
    assert {place.overall_limit for place in found.values()} == {50}


async def test_the_limit_of_the_hub_is_for_all_together(database_url: str) -> None:
    rows = [
        waiting("a1", 1, asked=1),
        waiting("a2", 2, asked=4),
        waiting("b1", 3, asked=2, owner="bob"),
        waiting("c1", 4, asked=3, owner="carol"),
    ]
    found = await places(database_url, *rows, everybody=3)
    assert fitting(found) == ["a1", "b1", "c1"]
    assert found["a2"] == Place(own=2, own_limit=2, overall=4, overall_limit=3)


async def test_who_is_over_their_own_limit_takes_nobody_elses_place(database_url: str) -> None:
    rows = [waiting(f"a{n}", n, asked=n) for n in range(1, 10)]
    rows.append(waiting("b1", 20, asked=60, owner="bob"))
    found = await places(database_url, *rows, per_user=2, everybody=3)
    assert fitting(found) == ["a1", "a2", "b1"]
    assert found["b1"].overall == 3


async def test_a_limit_of_none_lets_nobody_start(database_url: str) -> None:
    found = await places(database_url, waiting("a", 1), users=[user("alice", max_running=0)])
    assert not found["a"].fits


LATER = datetime.now(UTC) + timedelta(days=1)
BEFORE = datetime.now(UTC) - timedelta(days=1)


WANTS: dict[str, dict[str, Any]] = {
    "as declared": {},
    "an override that is over": {"override": Override(STANDBY, BEFORE, "x")},
    "raised by an override": {
        "declared_state": STANDBY,
        "override": Override(RUNNING, LATER, "x"),
    },
    "pinned": {"desired": STANDBY, "pinned": True},
    "pinned, whatever overrides": {"pinned": True, "override": Override(STANDBY, LATER, "x")},
    "new": {"status": Status(Phase.PENDING)},
    "in the archive": {"status": Status(Phase.ARCHIVED, archive_key="k")},
}
DOES_NOT: dict[str, dict[str, Any]] = {
    "asleep": {"desired": STANDBY},
    "to be deleted": {"desired": DELETED},
    "pinned, to be deleted": {"desired": DELETED, "pinned": True},
    "suspended": {"suspend": True},
    "declared lower": {"declared_state": STANDBY},
    "overridden": {"override": Override(STANDBY, LATER, "x")},
    "no longer raised": {"declared_state": STANDBY, "override": Override(RUNNING, BEFORE, "x")},
    "in ERROR": {"status": Status(Phase.ERROR, error_reason=ErrorReason.TIMEOUT)},
    "deleted": {"status": Status(Phase.DELETED, deleted_at=NOW)},
}


async def test_who_wants_to_run_and_may_takes_a_place_before_the_next(database_url: str) -> None:
    """Each has an owner of its own, who may run one and has another that waits."""
    cases = list((WANTS | DOES_NOT).items())
    rows = []
    for number, (_, fields) in enumerate(cases, 1):
        owner = f"user{number}"
        rows.append(waiting(f"one{number}", number, asked=0, owner=owner, **fields))
        rows.append(waiting(f"next{number}", number + 100, asked=1, owner=owner))
    found = await places(database_url, *rows, per_user=1)
    for number, (case, _) in enumerate(cases, 1):
        wants = case in WANTS
        assert (f"one{number}" in found, found[f"next{number}"].fits) == (wants, not wants), case


async def test_only_those_asked_for_are_answered_and_all_are_counted(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, waiting("a", 1, asked=1), waiting("b", 2, asked=2))
        found = await read_places(conn, [UUID(int=2)], per_user=2, everybody=100)
    assert found == {UUID(int=2): Place(2, 2, 2, 100)}
