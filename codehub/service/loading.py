"""Loading what is watched: one look at the specs, and at most one revision from it.

Called by the coordinator's watcher. The last good revision stays whatever is wrong; what failed is
recorded with its problems, once. What was read before is left alone, so that a rollback or an apply
by hand stands until the specs themselves change. That memory is the revisions that came through
here (`SOURCE`), so it survives a restart and a change of leader.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from codehub.errors import Conflict, PlanUnsafe, SpecsInvalid
from codehub.model.revision import UNSAFE
from codehub.service.applying import Order, write_order
from codehub.specs.cache import SpecCache
from codehub.specs.settle import Unsettled, read_settled
from codehub.store.clock import read_now
from codehub.store.declare import loader_lock
from codehub.store.fence import fenced_transaction
from codehub.store.hubs import read_hub_state
from codehub.store.revisions import latest_applied, latest_from, record_applied, record_failed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.plan import PlanOptions
    from codehub.model.revision import Revision, SpecSet
    from codehub.specs.settle import Reading
    from codehub.store.fence import Fence
    from codehub.store.pool import Pool

SOURCE: Final = "watch"
AUTHOR: Final = "watcher"

SHOWN: Final = 200
"""Problems kept with a failed revision; whoever has more needs `codehub validate`."""


class Result(StrEnum):
    """What came of a look."""

    LOADED = "loaded"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a look: the revision it made or met, and why there is none while it waits.

    `again` says that the hub, not the specs, stood in the way: the next look may succeed.
    """

    result: Result
    revision: Revision | None = None
    reason: str = ""
    again: bool = False


@dataclass(frozen=True, slots=True)
class LoadRules:
    """How specs are loaded on this hub, and the leader's right to do it."""

    fence: Fence
    options: PlanOptions
    quiet: float = 0.5
    wait_seconds: int = 30


@dataclass(slots=True)
class Known:
    """What one watcher remembers between looks; it may be forgotten at any time."""

    digest: str | None = None
    again: bool = False
    cache: SpecCache = field(default_factory=SpecCache)


@dataclass(frozen=True, slots=True)
class _Past:
    """What the revisions tell: the newest of this source, the newest of it that could be read,
    and the one in force."""

    newest: Revision | None
    readable: Revision | None
    in_force: Revision | None


async def load_once(
    pool: Pool, root: Path, ref: str | None, known: Known, rules: LoadRules
) -> Outcome:
    """Look once and load what is new. Raises FenceLost, and Unreachable for the database."""
    try:
        reading = await read_settled(
            root, ref, quiet=rules.quiet, cache=known.cache, known=known.digest
        )
    except Unsettled as unsettled:
        return Outcome(Result.WAITING, reason=str(unsettled))
    if reading.digest == known.digest and not known.again:
        return Outcome(Result.UNCHANGED)
    try:
        async with pool.connection() as conn:
            outcome = await _enter(conn, reading, rules)
    except Conflict as conflict:
        return Outcome(Result.WAITING, reason=conflict.message)
    known.digest, known.again = reading.digest, outcome.again
    return outcome


async def _enter(conn: AsyncConnection[DictRow], reading: Reading, rules: LoadRules) -> Outcome:
    """The lock comes first: waiting for it with the fence in hand would hold up a new leader."""
    async with (
        loader_lock(conn, author=AUTHOR, wait_seconds=rules.wait_seconds),
        fenced_transaction(conn, rules.fence),
    ):
        past = await _read_past(conn, reading)
        if reading.specs is None:
            return await _fail(conn, reading, past, reading.problems)
        if is_settled(past, reading.digest):
            return Outcome(Result.UNCHANGED, past.readable)
        try:
            return await _load(conn, reading.specs, rules)
        except SpecsInvalid as refused:
            problems = [str(each) for each in refused.problems]
            return await _fail(conn, reading, past, problems, again=True)
        except PlanUnsafe as unsafe:
            reasons = [UNSAFE + each for each in unsafe.reasons]
            return await _fail(conn, reading, past, reasons)


async def _read_past(conn: AsyncConnection[DictRow], reading: Reading) -> _Past:
    return _Past(
        newest=await latest_from(conn, SOURCE, reading.origin),
        readable=await latest_from(conn, SOURCE, reading.origin, readable=True),
        in_force=await latest_applied(conn),
    )


def is_settled(past: _Past, digest: str) -> bool:
    """Whether these specs were read before and nothing is left to do about them."""
    last, in_force = past.readable, past.in_force
    if last is None or last.digest != digest:
        return False
    interrupted = past.newest is not None and past.newest.id > last.id
    if in_force is not None and in_force.digest == digest:
        # Recorded once more after a failure, which is then seen to be over.
        return not interrupted
    if in_force is not None and in_force.id > last.id:
        # Somebody chose other specs since. Only a change of ours outweighs that.
        return True
    # It failed. What the hub refused may fit by now; what was unsafe must not be loaded unasked
    # because by chance nobody is at work.
    return any(each.startswith(UNSAFE) for each in last.problems) and not interrupted


async def _load(conn: AsyncConnection[DictRow], specs: SpecSet, rules: LoadRules) -> Outcome:
    order = Order(specs, AUTHOR, rules.options, source=SOURCE)
    now = await read_now(conn)
    revision = await write_order(conn, order, await read_hub_state(conn), now=now)
    if revision is not None:
        return Outcome(Result.LOADED, revision)
    # The hub holds these specs already, by somebody else's hand: that they were read is recorded.
    revision = await record_applied(conn, specs, author=AUTHOR, source=SOURCE, summary={})
    return Outcome(Result.UNCHANGED, revision)


async def _fail(
    conn: AsyncConnection[DictRow],
    reading: Reading,
    past: _Past,
    found: Iterable[str],
    *,
    again: bool = False,
) -> Outcome:
    """Record a failure, unless it is the one that was recorded last."""
    problems, newest = _capped(tuple(found)), past.newest
    same = newest is not None and (newest.digest, newest.problems) == (reading.digest, problems)
    revision = newest if same else None
    if revision is None:
        revision = await record_failed(
            conn,
            digest=reading.digest,
            origin=reading.origin,
            problems=problems,
            author=AUTHOR,
            source=SOURCE,
        )
    return Outcome(Result.FAILED, revision, again=again)


def _capped(problems: tuple[str, ...]) -> tuple[str, ...]:
    if len(problems) <= SHOWN:
        return problems
    return (*problems[:SHOWN], f"and {len(problems) - SHOWN} more; 'codehub validate' lists all")
