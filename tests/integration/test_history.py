"""What the audit tells of a window: read by one bounded query, the same wherever it is cut."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from codehub.config import Settings
from codehub.core.recount import recount
from codehub.model.history import Opening
from codehub.model.states import DesiredState, IntentSource, Phase
from codehub.model.workspace import Intent, Status
from codehub.service.reporting import fleet_page, own_page, read_report
from codehub.store import history
from codehub.store.clock import read_now
from codehub.store.connect import connect
from codehub.store.history import read_past
from codehub.store.workspaces import read_workspaces
from tests.integration.command_line import run_codehub
from tests.integration.stored import apply, change, insert
from tests.make import declaration, spec_set, workspace

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.history import History, Past
    from codehub.model.workspace import Workspace

    Conn = AsyncConnection[DictRow]

pytestmark = pytest.mark.anyio

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
WRITE = """
INSERT INTO workspace_events (at, workspace_id, workspace_name, kind, old, new, source)
VALUES (%s, %s, 'api', %s, %s, %s, %s)
"""


async def tell(
    conn: Conn, ago: timedelta, kind: str, old: str, new: str, source: str, number: int = 1
) -> None:
    """A line of the audit, as old as that."""
    at = await read_now(conn) - ago
    await conn.execute(WRITE, (at, UUID(int=number), kind, old, new, source))


async def word(conn: Conn, ago: timedelta, new: str, source: str, number: int = 1) -> None:
    await tell(conn, ago, "desired", "RUNNING", new, source, number)


async def step(conn: Conn, ago: timedelta, old: str, new: str, number: int = 1) -> None:
    await tell(conn, ago, "phase", old, new, "controller", number)


def resting(
    name: str = "api", number: int = 1, phase: Phase = Phase.STANDBY, **fields: Any
) -> Workspace:
    intent = Intent(DesiredState(phase.value), IntentSource.TTL)
    return workspace(name, number=number, intent=intent, status=Status(phase), **fields)


async def there_for_long(conn: Conn, *workspaces: Workspace) -> None:
    await insert(conn, *workspaces)
    await conn.execute("UPDATE workspaces SET created_at = now() - interval '400 days'")


async def look_back(conn: Conn, days: float, **options: Any) -> Past:
    now = await read_now(conn)
    return await read_past(conn, now - days * DAY, now, **options)


async def counted(conn: Conn, days: float, **options: Any) -> History:
    return recount(await look_back(conn, days, **options), await read_workspaces(conn))


async def slept(conn: Conn, ago: timedelta, number: int = 1) -> None:
    """A TTL put it to sleep."""
    await word(conn, ago, "STANDBY", "ttl", number)
    await step(conn, ago, "RUNNING", "STANDBY", number)


# What is read


async def test_only_the_window_is_read_in_the_order_of_ids(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await there_for_long(conn, resting())
        await step(conn, 9 * DAY, "STANDBY", "RUNNING")
        await step(conn, 3 * DAY, "RUNNING", "STANDBY")
        await tell(conn, 2 * DAY, "operation", "NONE", "STARTING", "controller")
        await word(conn, DAY, "RUNNING", "visit")
        past = await look_back(conn, 7)
    assert [(each.kind.value, each.new) for each in past.moves] == [
        ("phase", "STANDBY"),
        ("desired", "RUNNING"),
    ]
    assert not past.cut


async def test_an_empty_audit_is_an_empty_past(database_url: str) -> None:
    async with await connect(database_url) as conn:
        past = await look_back(conn, 7)
    assert (past.moves, past.openings, past.cut) == ((), {}, False)


async def test_the_window_is_found_whatever_gaps_the_ids_have(database_url: str) -> None:
    chance, number, lines = Random(7), 1, []
    async with await connect(database_url) as conn:
        now = await read_now(conn)
        for hour in range(40 * 24, 0, -1):
            number += chance.choice((1, 1, 2, 50, 100_000))
            lines.append((number, now - (hour - 0.5) * HOUR, UUID(int=1)))
        async with conn.cursor() as cursor:
            await cursor.executemany(
                "INSERT INTO workspace_events (id, at, workspace_id, kind, old, new)"
                " VALUES (%s, %s, %s, 'phase', 'STANDBY', 'RUNNING')",
                lines,
            )
        for days in (0.5, 1, 3, 17, 39.5, 45):
            past = await read_past(conn, now - days * DAY, now)
            assert len(past.moves) == min(40 * 24, int(days * 24)), days


async def test_ids_need_not_be_in_the_order_of_times(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await step(conn, DAY - timedelta(minutes=20), "STANDBY", "RUNNING", 1)
        await step(conn, DAY + timedelta(minutes=20), "STANDBY", "RUNNING", 2)
        await step(conn, DAY - timedelta(minutes=10), "STANDBY", "RUNNING", 3)
        past = await look_back(conn, 1)
    assert [each.workspace_id.int for each in past.moves] == [1, 3]


async def test_with_too_many_moves_the_window_begins_later(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await there_for_long(conn, resting())
        for hours in range(60, 0, -2):
            await word(conn, hours * HOUR, "RUNNING", "visit")
            await step(conn, (hours - 0.5) * HOUR, "STANDBY", "RUNNING")
            await slept(conn, (hours - 1) * HOUR)
        past = await look_back(conn, 7, most=40)
        found = recount(past, await read_workspaces(conn))
    assert past.cut
    assert len(past.moves) == 40
    assert past.since == past.moves[0].at == found.since
    assert found.cut
    # Ten times: half an hour on the way, half an hour of running, an hour asleep.
    assert found.run == pytest.approx(5, abs=0.01)
    assert found.saved == pytest.approx(10, abs=0.01)


async def test_those_of_others_are_not_read(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await there_for_long(conn, resting(), resting("other", 2, owner="bob"))
        for number in (1, 2):
            await slept(conn, DAY, number)
            await slept(conn, 10 * DAY, number)
        past = await look_back(conn, 7, ids=[UUID(int=2)])
    assert {each.workspace_id for each in past.moves} == {UUID(int=2)}
    assert set(past.openings) <= {UUID(int=2)}


async def test_what_is_read_grows_with_the_window_and_not_with_the_audit(
    database_url: str,
) -> None:
    async with await connect(database_url) as conn:
        await there_for_long(conn, *(resting(f"w{each}", each) for each in range(1, 51)))
        await conn.execute(
            "INSERT INTO workspace_events (at, workspace_id, kind, old, new, source)"
            " SELECT now() - interval '300 days' + i * interval '10 minutes',"
            " lpad(to_hex(i % 50 + 1), 32, '0')::uuid, 'desired', 'RUNNING', 'STANDBY',"
            " CASE i / 50 % 2 WHEN 0 THEN 'ttl' ELSE 'cli' END FROM generate_series(1, 43000) AS i"
        )
        await conn.execute("ANALYZE workspace_events, workspaces")
        now = await read_now(conn)
        values = {
            "since": now - DAY,
            "aim": now - DAY - HOUR,
            "limit": 1000,
            "never": 2**63 - 1,
        }
        query = history.READ.format(mine="true", own="true")
        answer = await conn.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}", values)
        row = await answer.fetchone() or {}
    (plan,) = row["QUERY PLAN"]
    scans = [
        each for each in nodes(plan["Plan"]) if each.get("Relation Name") == "workspace_events"
    ]
    assert len(scans) >= 4
    for each in scans:
        assert each["Node Type"] != "Seq Scan", each
        read = (each["Actual Rows"] + each.get("Rows Removed by Filter", 0)) * each["Actual Loops"]
        assert read < 2000, each


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(each for child in plan.get("Plans", ()) for each in nodes(child))]


# How things stood when the window began


async def opening(conn: Conn, days: float = 7) -> Opening:
    found = (await look_back(conn, days)).openings
    return found.get(UUID(int=1), Opening(told=False, asleep=False))


async def test_one_that_a_ttl_put_to_sleep_long_ago_is_asleep(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await there_for_long(conn, resting(phase=Phase.ARCHIVED))
        await slept(conn, 90 * DAY)
        await word(conn, 80 * DAY, "ARCHIVED", "ttl")
        await step(conn, 80 * DAY, "STANDBY", "ARCHIVED")
        assert await opening(conn) == Opening(told=True, asleep=True)
        assert (await counted(conn, 7)).saved == pytest.approx(168)


async def test_one_that_a_person_stopped_and_a_ttl_archived_is_not(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await there_for_long(conn, resting(phase=Phase.ARCHIVED))
        await word(conn, 90 * DAY, "STANDBY", "cli")
        await step(conn, 90 * DAY, "RUNNING", "STANDBY")
        await word(conn, 80 * DAY, "ARCHIVED", "ttl")
        await step(conn, 80 * DAY, "STANDBY", "ARCHIVED")
        assert await opening(conn) == Opening(told=True, asleep=False)
        assert (await counted(conn, 7)).saved == 0


async def test_what_woke_it_within_the_window_does_not_hide_that_it_slept(
    database_url: str,
) -> None:
    async with await connect(database_url) as conn:
        await there_for_long(conn, workspace(status=Status(Phase.RUNNING)))
        await slept(conn, 10 * DAY)
        await word(conn, 2 * DAY, "RUNNING", "visit")
        await step(conn, 2 * DAY, "STANDBY", "RUNNING")
        found = await counted(conn, 7)
    assert found.saved == pytest.approx(5 * 24, abs=0.01)
    assert found.run == pytest.approx(2 * 24, abs=0.01)


async def test_one_that_was_about_to_sleep_when_the_window_began(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await there_for_long(conn, resting())
        await word(conn, 7 * DAY + timedelta(seconds=5), "STANDBY", "ttl")
        await step(conn, 6 * DAY, "RUNNING", "STANDBY")
        await word(conn, 5 * DAY, "ARCHIVED", "cli")
        assert await opening(conn) == Opening(told=True, asleep=False)
        assert (await counted(conn, 7)).saved == pytest.approx(24, abs=0.01)


async def test_what_was_purged_is_counted_to_its_end(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await there_for_long(conn, resting(phase=Phase.DELETED))
        await change(conn, "api", deleted_at=await read_now(conn), purged_at=await read_now(conn))
        await slept(conn, 30 * DAY)
        await step(conn, 3 * DAY, "STANDBY", "DELETED")
        found = await counted(conn, 7)
    assert found.saved == pytest.approx(4 * 24, abs=0.01)
    assert found.timelines == ()


# Wherever it is cut


def lives(chance: Random) -> list[tuple[float, str, str, str, str, int]]:
    """What may happen to a few workspaces in thirty days, hour by hour."""
    told = []
    phases = dict.fromkeys(range(1, 6), "RUNNING")
    for hour in range(30 * 24, 0, -1):
        number = chance.randint(1, 5)
        ago = hour - chance.random() * 0.9
        if chance.random() < 0.5:
            source = chance.choice(("ttl", "ttl", "visit", "cli"))
            new = "RUNNING" if source == "visit" else chance.choice(("STANDBY", "ARCHIVED"))
            told.append((ago, "desired", "RUNNING", new, source, number))
        else:
            others = {"RUNNING", "STANDBY", "ARCHIVED", "ERROR"} - {phases[number]}
            new = chance.choice(sorted(others))
            told.append((ago, "phase", phases[number], new, "controller", number))
            phases[number] = new
    return told


@pytest.mark.parametrize("seed", range(4))
async def test_two_windows_in_a_row_say_what_one_says(database_url: str, seed: int) -> None:
    told = lives(Random(seed))
    ends = dict.fromkeys(range(1, 6), "RUNNING")
    sources = dict.fromkeys(range(1, 6), "spec")
    for _, kind, _, new, source, number in told:
        if kind == "phase":
            ends[number] = new
        else:
            sources[number] = source
    fleet = [workspace(f"w{each}", number=each, status=Status(Phase(ends[each]))) for each in ends]
    async with await connect(database_url) as conn:
        await there_for_long(conn, *fleet)
        for number, source in sources.items():
            await change(conn, f"w{number}", desired_source=source)
        now = await read_now(conn)
        async with conn.cursor() as cursor:
            await cursor.executemany(
                WRITE,
                [(now - ago * HOUR, UUID(int=number), *rest) for ago, *rest, number in told],
            )
        rows = await read_workspaces(conn)

        async def between(since: float, until: float) -> History:
            """As a report would have said it then: nothing later had happened."""
            start, end = now - since * DAY, now - until * DAY
            past = await read_past(conn, start, end)
            kept = tuple(each for each in past.moves if each.at < end)
            return recount(replace(past, moves=kept), _then(rows, past, end))

        for middle in (29.3, 17.0, 9.77, 3.1, 0.2):
            whole, first, second = (
                await between(30.5, 0),
                await between(30.5, middle),
                await between(middle, 0),
            )
            assert first.run + second.run == pytest.approx(whole.run, abs=1e-6)
            assert first.saved + second.saved == pytest.approx(whole.saved, abs=1e-6)


def _then(rows: tuple[Workspace, ...], past: Past, end: datetime) -> tuple[Workspace, ...]:
    """The rows with the phase of that moment, which the first later move names."""
    later = {
        each.workspace_id: each.old
        for each in reversed(past.moves)
        if each.at >= end and each.kind.value == "phase"
    }
    return tuple(
        replace(each, status=Status(Phase(later.get(each.id, each.status.phase.value))))
        for each in rows
    )


# Reports


async def test_a_report_has_the_history_of_its_window(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await there_for_long(conn, resting(), resting("web", 2))
        await slept(conn, 20 * DAY)
        await slept(conn, 2 * DAY, 2)
        report = await read_report(conn, Settings())
        longer = await read_report(conn, Settings(), days=30)
    assert report.history is not None
    assert longer.history is not None
    assert report.history.saved == pytest.approx(9 * 24, abs=0.01)
    assert longer.history.saved == pytest.approx(22 * 24, abs=0.01)
    assert [line.usage.run for line in report.lines] == pytest.approx([0, 120], abs=0.01)
    assert report.history.until == report.generated_at


async def test_a_persons_report_knows_nothing_of_others(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await there_for_long(conn, resting(), resting("secret-plan", 2, owner="bob"))
        await slept(conn, DAY)
        await slept(conn, 2 * DAY, 2)
        report = await read_report(conn, Settings(), owner="alice")
        page = await own_page(conn, Settings(), "alice", refresh=None)
        kept = await own_page(conn, Settings(), "alice", opens=False)
        whole = await fleet_page(conn, Settings(), days=3)
    assert report.history is not None
    assert report.history.saved == pytest.approx(24, abs=0.01)
    assert [each.owner for each in report.owners] == ["alice"]
    assert "secret-plan" not in page + kept
    assert 'http-equiv="refresh"' not in page
    assert 'href="/w/api"' in page, "while there is no dashboard, this is how it is opened"
    assert 'href="/w/' not in kept
    assert "secret-plan" in whole
    assert "The last 3 days" in whole


async def test_somebody_without_workspaces_has_an_empty_report(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await there_for_long(conn, resting())
        await slept(conn, DAY)
        report = await read_report(conn, Settings(), owner="nobody")
    assert report.lines == ()
    assert report.history is not None
    assert (report.history.saved, report.history.lowered) == (0, 0)


async def test_a_hub_that_was_just_made_has_a_short_history(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(declaration("api")))
        report = await read_report(conn, Settings())
    assert report.history is not None
    assert report.history.until - report.history.since == HOUR


async def test_how_far_the_command_looks_back(database_url: str, tmp_path: Any) -> None:
    async with await connect(database_url) as conn:
        await there_for_long(conn, resting())
        await slept(conn, 20 * DAY)
    common = ("report", "--hub", database_url, "--format", "json")
    month = json.loads(run_codehub(*common, "--days", "30", cwd=tmp_path).out)
    assert month["history"]["hoursSaved"] == pytest.approx(480, abs=0.01)
    assert month["history"]["hoursRun"] == pytest.approx(240, abs=0.01)
    for wrong in ("0", "367"):
        done = run_codehub(*common, "--days", wrong, cwd=tmp_path)
        assert (done.code, done.out) == (64, "")
        assert "--days" in done.err
