"""The election: one leads, loses it for many reasons, and nothing hangs."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from codehub.coordinator import leader as leader_module
from codehub.coordinator import term
from codehub.errors import DatabaseProblem, FenceLost, Unreachable
from codehub.model.people import Hub
from codehub.store import session
from codehub.store.advisory import Lock
from codehub.store.connect import connect, transaction
from codehub.store.fence import require_fence, take_epoch
from codehub.store.hubs import read_hub_state
from tests.integration.elections import (
    PATIENCE,
    Candidate,
    Part,
    end_session,
    holders,
    one_value,
    rest,
    standing,
    until,
    until_free,
    until_true,
)
from tests.integration.relay import Relay, TransactionPooler

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Generator, Sequence

    from codehub.coordinator.lead import Lead
    from codehub.coordinator.pace import Component
    from tests.integration.elections import Act

pytestmark = pytest.mark.anyio

TRIED_IN_VAIN = """
SELECT count(*) FROM pg_stat_activity AS a
WHERE datname = current_database() AND state = 'idle' AND query LIKE '%pg_try_advisory_lock%'
  AND NOT EXISTS (SELECT FROM pg_locks AS l WHERE l.pid = a.pid AND l.locktype = 'advisory')
"""


@pytest.fixture
def plenty_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left behind only because the machine is slow."""
    monkeypatch.setattr(term, "GRACE", PATIENCE)
    monkeypatch.setattr(term, "CLOSING", PATIENCE)
    monkeypatch.setattr(term, "LAST_WORD", PATIENCE)


async def lose(lead: Lead) -> None:
    raise FenceLost("somebody else leads")


async def fail(lead: Lead) -> None:
    raise RuntimeError("the loop itself is broken")


async def stop(lead: Lead) -> None:
    """A component that ends by itself, which none should."""


async def cancel_itself(lead: Lead) -> None:
    raise asyncio.CancelledError


async def tidy_up(lead: Lead) -> None:
    """A component that needs the database once more when it is cancelled."""
    try:
        await rest(lead)
    finally:
        async with lead.pool.connection() as conn:
            await conn.execute("SELECT pg_sleep(0.02)")


async def test_the_only_one_leads_with_an_epoch_and_the_hubs_id(database_url: str) -> None:
    candidate = Candidate(database_url, rest)
    async with await connect(database_url) as conn, standing(candidate):
        await until(lambda: candidate.leader.leads)
        (lead,) = candidate.leads
        state = await read_hub_state(conn)
        assert (state.hub_id, state.hub) == (str(lead.hub_id), Hub())
        assert candidate.leader.epoch == lead.fence.epoch == 1
        assert await one_value(conn, "SELECT holder_id FROM system_locks") == "one"
        assert len(await holders(conn)) == 1
        await lead.confirm()
    assert candidate.changes == [True, False]
    assert not candidate.leader.leads
    assert candidate.leader.epoch is None


async def test_a_hub_that_is_there_keeps_its_id(database_url: str) -> None:
    candidate = Candidate(database_url, rest)
    async with await connect(database_url) as conn:
        before = await one_value(conn, "INSERT INTO hub (name) VALUES ('ours') RETURNING id")
        async with standing(candidate):
            await until(lambda: candidate.leader.leads)
        assert candidate.leads[0].hub_id == before
        assert await one_value(conn, "SELECT name FROM hub") == "ours"


async def test_one_leads_the_other_stands_by_and_takes_over(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "codehub.coordinator")
    one, two = Candidate(database_url, rest, "one"), Candidate(database_url, rest, "two")
    async with await connect(database_url) as conn, AsyncExitStack() as later:
        async with standing(one):
            await until(lambda: one.leader.leads)
            await later.enter_async_context(standing(two))
            await until(lambda: "stands by: one leads" in caplog.messages)
            await until_true(conn, TRIED_IN_VAIN)
            assert not two.leader.leads
            assert one.leader.leads
            assert caplog.messages.count("stands by: one leads") == 1
        await until(lambda: two.leader.leads)
    assert (one.epochs, two.epochs) == ([1], [2])
    assert two.failures.counts["leader"] == 0


async def test_components_that_do_not_open_are_told_of(
    database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(term, "OPENING", 0.0)
    opening = asyncio.Event()

    class Slow(Candidate):
        @asynccontextmanager
        async def components(self, lead: Lead) -> AsyncIterator[Sequence[Component]]:
            await opening.wait()
            yield [Part(lead, rest)]

    candidate = Slow(database_url, rest)
    async with standing(candidate):
        await until(lambda: "the components have not opened" in caplog.text)
        assert not candidate.leader.leads
        opening.set()
        await until(lambda: candidate.leader.leads)


async def test_a_lost_fence_ends_the_term_and_the_next_has_a_new_epoch(database_url: str) -> None:
    candidate = Candidate(database_url, lose)
    async with standing(candidate):
        await until(lambda: len(candidate.epochs) >= 3)
    assert candidate.epochs[:3] == [1, 2, 3]
    assert candidate.changes[:4] == [True, False, True, False]


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (fail, "the loop itself is broken"),
        (stop, "part just ended"),
        (cancel_itself, "part just ended"),
    ],
)
async def test_a_component_that_ends_takes_the_term_with_it(
    database_url: str, act: Act, said: str
) -> None:
    candidate = Candidate(database_url, act)
    async with standing(candidate):
        await until(lambda: len(candidate.epochs) >= 2 and candidate.leader.problem is not None)
        assert str(candidate.leader.problem) == said
    assert candidate.failures.counts["leader"] >= 1


async def test_components_that_cannot_be_built_end_the_term(database_url: str) -> None:
    class Broken(Candidate):
        def components(self, lead: Lead) -> NoReturn:
            raise Unreachable("there is no Redis")

    candidate = Broken(database_url, rest)
    async with standing(candidate):
        await until(lambda: candidate.failures.counts["leader"] >= 2)
        assert str(candidate.leader.problem) == "there is no Redis"
    assert candidate.changes == []


async def test_a_session_that_dies_ends_the_term(database_url: str) -> None:
    candidate = Candidate(database_url, rest)
    async with await connect(database_url) as conn, standing(candidate):
        await until(lambda: candidate.leader.leads)
        await end_session(conn)
        await until(lambda: candidate.leader.epoch == 2)
        with pytest.raises(FenceLost):
            await require_fence(conn, candidate.leads[0].fence)


async def test_a_lock_that_left_the_session_ends_the_term(database_url: str) -> None:
    """The session answers, but holds nothing: then somebody else may lead."""
    async with await connect(database_url) as conn:
        assert not await session.holds_lock(conn, Lock.LEADER)
        candidate = Candidate(database_url, rest)
        with pytest.raises(FenceLost, match="lock is gone"):
            await candidate.leader._watch(conn)


async def test_a_silent_network_ends_the_term(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Relay(database_url) as relay:
        candidate = Candidate(relay.url, rest)
        async with standing(candidate):
            await until(lambda: candidate.leader.leads)
            monkeypatch.setattr(leader_module, "CHECK", 0.2)
            monkeypatch.setattr(session, "ABORT", 0.1)
            relay.silence()
            await until(lambda: not candidate.leader.leads)
            await until(lambda: isinstance(candidate.leader.problem, Unreachable))
    assert candidate.changes == [True, False]


async def test_an_absent_server_is_told_once_and_waited_for(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Relay(database_url) as relay:
        await relay.stop()
        candidate = Candidate(relay.url, rest)
        async with standing(candidate):
            await until(lambda: candidate.failures.counts["leader"] >= 5)
            said = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
            assert len(said) == 1
            assert "no database server answers" in said[0]
            await relay.start()
            await until(lambda: candidate.leader.leads)
            await until(lambda: candidate.leader.problem is None)


async def test_a_database_without_tables_is_told_once(
    empty_database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    candidate = Candidate(empty_database_url, rest)
    async with standing(candidate):
        await until(lambda: candidate.failures.counts["leader"] >= 3)
        assert isinstance(candidate.leader.problem, DatabaseProblem)
    assert caplog.text.count("tables are not those of this codehub") == 1
    assert candidate.changes == []


async def test_a_transaction_pooler_is_refused_and_keeps_no_lock(database_url: str) -> None:
    async with await connect(database_url) as conn, TransactionPooler(database_url) as pooler:
        candidate = Candidate(pooler.url, rest)
        async with standing(candidate):
            await until(lambda: candidate.failures.counts["leader"] >= 2)
            assert isinstance(candidate.leader.problem, DatabaseProblem)
            assert "transaction pooler" in candidate.leader.problem.message
        assert candidate.changes == []
        await until_free(conn)


async def test_a_new_epoch_waits_for_writes_and_can_be_cancelled_meanwhile(
    database_url: str,
) -> None:
    async with await connect(database_url) as conn, await connect(database_url) as writer:
        await take_epoch(conn, leader_module.LOCK_NAME, "former")
        candidate = Candidate(database_url, rest)
        async with transaction(writer), standing(candidate):
            await writer.execute("SELECT FROM system_locks FOR SHARE")
            await until_true(conn, "SELECT count(*) FROM pg_locks WHERE NOT granted")
            assert await holders(conn)
        await until_free(conn)
        assert await one_value(conn, "SELECT epoch FROM system_locks") == 1
    assert candidate.changes == []


class CancelledAt:
    """Awaits something, and cancels the task at the given one of its points of suspension."""

    def __init__(self, work: Awaitable[None], point: int, turns: int) -> None:
        self.work = work
        self.left = point
        self.turns = turns

    def __await__(self) -> Generator[Any, Any, None]:
        inner = self.work.__await__()
        step = partial(next, inner)
        while True:
            try:
                waited = step()
            except StopIteration:
                return
            self.left -= 1
            if self.left == 0:
                _cancel_after(self.turns, asyncio.current_task())
            try:
                yield waited
            except BaseException as error:
                step = partial(inner.throw, error)
            else:
                step = partial(next, inner)


def _cancel_after(turns: int, task: asyncio.Task[Any] | None) -> None:
    """Cancel a task when the loop has turned so many times."""
    loop = asyncio.get_running_loop()
    if task and turns:
        loop.call_soon(_cancel_after, turns - 1, task)
    elif task:
        task.cancel()


async def cancel_everywhere(url: str, act: Act, points: int) -> int:
    """Cancel a leader at each of its first points; how many of them there were."""
    before = asyncio.all_tasks()
    for point in range(1, points + 1):
        for turns in (0, 3):
            candidate = Candidate(url, act)
            driven = CancelledAt(candidate.leader.run(), point, turns)

            async def drive(driven: CancelledAt = driven) -> None:
                await driven

            task = asyncio.create_task(drive())
            rested = partial(_rests, candidate, act)
            await until(lambda task=task, rested=rested: task.done() or rested())  # type: ignore[misc]
            if not task.done() and driven.left > 0:
                task.cancel()
                await asyncio.wait({task}, timeout=PATIENCE)
                return point
            await asyncio.wait({task}, timeout=PATIENCE)
            assert task.cancelled(), f"not ended by a cancellation at point {point}"
            assert not candidate.leader.leads
            await until(lambda: asyncio.all_tasks() == before)
    return points


def _rests(candidate: Candidate, act: Act) -> bool:
    """Whether it leads and nothing more will happen by itself."""
    return candidate.leader.leads and act in (rest, tidy_up)


@pytest.mark.parametrize("act", [rest, tidy_up, lose])
@pytest.mark.usefixtures("plenty_of_time")
async def test_it_ends_wherever_it_is_cancelled(database_url: str, act: Act) -> None:
    async with await connect(database_url) as conn:
        assert await cancel_everywhere(database_url, act, 18) > 5
        await until_free(conn)


async def test_a_cancellation_that_meets_a_lost_fence_is_not_lost(database_url: str) -> None:
    for turns in range(12):
        lost = asyncio.Event()

        async def lose_later(lead: Lead, lost: asyncio.Event = lost) -> None:
            await lost.wait()
            await lose(lead)

        candidate = Candidate(database_url, lose_later)
        task = asyncio.create_task(candidate.leader.run())
        await until(lambda candidate=candidate: candidate.leader.leads)  # type: ignore[misc]
        lost.set()
        _cancel_after(turns, task)
        await asyncio.wait({task}, timeout=PATIENCE)
        assert task.cancelled(), turns
        assert candidate.epochs == [turns + 1]


@pytest.mark.usefixtures("plenty_of_time")
async def test_components_may_clean_up_before_the_lock_goes(database_url: str) -> None:
    done: list[int] = []
    begun = asyncio.Event()

    async def sweep(lead: Lead) -> None:
        begun.set()
        try:
            await rest(lead)
        finally:
            async with lead.pool.connection() as conn:
                await conn.execute("SELECT pg_sleep(0.05)")
                await require_fence(conn, lead.fence)
                done.extend(await holders(conn))

    candidate = Candidate(database_url, sweep)
    async with standing(candidate):
        await begun.wait()
    assert len(done) == 1


@pytest.mark.usefixtures("plenty_of_time")
async def test_a_question_under_way_does_not_let_the_lock_go_before_that(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[int] = []
    asked = asyncio.Event()

    holds_lock = vars(leader_module)["holds_lock"]

    async def ask_for_long(conn: Any, lock: Lock) -> bool:
        if not candidate.leader.leads:
            return bool(await holds_lock(conn, lock))
        asked.set()
        await conn.execute("SELECT pg_sleep(60)")
        return True

    async def sweep(lead: Lead) -> None:
        try:
            await rest(lead)
        finally:
            async with lead.pool.connection() as conn:
                # Long enough for a session that was cut to be gone.
                await conn.execute("SELECT pg_sleep(0.5)")
                done.extend(await holders(conn))

    monkeypatch.setattr(leader_module, "CHECK", PATIENCE)
    monkeypatch.setattr(leader_module, "holds_lock", ask_for_long)
    candidate = Candidate(database_url, sweep)
    async with standing(candidate):
        await until(lambda: candidate.leader.leads and asked.is_set())
        await asyncio.sleep(0)
    assert len(done) == 1


async def test_a_second_cancellation_does_not_cut_the_cleaning_short(database_url: str) -> None:
    swept: list[str] = []
    begun, sweeping, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def sweep(lead: Lead) -> None:
        begun.set()
        try:
            await rest(lead)
        finally:
            sweeping.set()
            await go_on.wait()
            swept.append("clean")

    candidate = Candidate(database_url, sweep)
    async with standing(candidate) as task:
        await begun.wait()
        task.cancel()
        await sweeping.wait()
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
    assert swept == ["clean"]


async def test_a_component_that_clings_is_left_behind(
    database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(term, "GRACE", 0.05)
    monkeypatch.setattr(term, "LAST_WORD", 0.05)
    before = asyncio.all_tasks()
    begun, released = asyncio.Event(), asyncio.Event()

    async def cling(lead: Lead) -> None:
        begun.set()
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    candidate = Candidate(database_url, cling)
    async with await connect(database_url) as conn:
        async with standing(candidate):
            await begun.wait()
        await until_free(conn)
    assert "part does not end; it is left behind" in caplog.text
    released.set()
    await until(lambda: asyncio.all_tasks() == before)
