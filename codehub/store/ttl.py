"""The TTL checks in SQL: test and set in one fenced statement, with the audit row that says why.

A workspace falls one level when the latest of its base, a person's last word and the end of the
last blindness lies more than its TTL before the horizon (`core/horizon.py`). The audit has the
shape of `intent.MOVE`. The conditions repeat those of the partial indexes word for word, and the
two ranges (a TTL of its own, the hub's) are one index each: with nothing due, nothing is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from codehub.store.fence import HOLDS, fenced
from codehub.store.rows import BACKENDS
from codehub.store.spans import exact, short
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime, timedelta
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.workspace import Runtime
    from codehub.store.fence import Fence

_RUNTIMES: Final = {instance: runtime for runtime, (instance, _) in BACKENDS.items()}


@dataclass(frozen=True, slots=True)
class _Fall:
    """One of the two TTLs: what it looks at, what it counts from, what it sets.

    `ceilings` are those under which the target is what is desired: below them a TTL is moot.
    `spent` is what the time since the base is called.
    """

    word: str
    old: str
    new: str
    base: str
    ceilings: str
    spent: str

    def due_before(self, moment: str) -> str:
        """FROM and WHERE of those that fall before a moment; they fall at `t.since + t.ttl`.

        First what the indexes are partial on, and their two ranges; then the whole truth. Whoever
        asked for this state was there then, even if no sighting tells of it.
        """
        own, hub = f"w.{self.word}_ttl_seconds", f"%(hub_{self.word}_ttl)s::integer"
        due = f"w.{self.word}_due_at"
        return f"""FROM workspaces w CROSS JOIN LATERAL (SELECT
        GREATEST({self.base}, %(blind_until)s::timestamptz,
            CASE WHEN w.desired_source IN ('visit', 'api', 'cli') THEN w.desired_at END) AS since,
        make_interval(secs => COALESCE({own}, {hub})) AS ttl) AS t
    WHERE w.phase = '{self.old}' AND w.operation = 'NONE' AND w.desired_state = '{self.old}'
        AND w.deleted_at IS NULL
        AND ({own} IS NOT NULL AND {due} < {moment}
            OR {own} IS NULL AND {due} < {moment} - make_interval(secs => {hub}))
        AND t.since + t.ttl < {moment}
        AND NOT w.pinned AND NOT w.suspend
        AND CASE WHEN w.override_until > now() THEN w.override_state ELSE w.declared_state END
            IN ({self.ceilings})"""

    @property
    def reason(self) -> str:
        """In the words of `core/hold.py`: `idle 3h2m, ttl interactive.standby=3h`."""
        own = f"w.{self.word}_ttl_seconds"
        return f"""concat('{self.spent} ', {short("now() - t.since")}, ', ttl ',
        CASE WHEN {own} IS NOT NULL THEN w.ttl_policy || '.' END, '{self.word}=', {exact("t.ttl")},
        CASE WHEN {own} IS NULL THEN ' (the hub''s setting)' END)"""


_STANDBY: Final = _Fall(
    word="standby",
    old="RUNNING",
    new="STANDBY",
    base="w.last_access_at, w.phase_changed_at",
    ceilings="'RUNNING'",
    spent="idle",
)
_ARCHIVE: Final = _Fall(
    word="archive",
    old="STANDBY",
    new="ARCHIVED",
    base="w.phase_changed_at",
    ceilings="'RUNNING', 'STANDBY'",
    spent="asleep",
)
_HORIZON: Final = "%(horizon)s::timestamptz"


def _move(found: str, old: str, new: str) -> str:
    """A fenced statement that sets desired_state of what it finds (id, name, reason), audited."""
    return f"""
, found AS (
    {found}
    ORDER BY w.id FOR NO KEY UPDATE OF w
), moved AS (
    UPDATE workspaces w
    SET desired_state = '{new}', desired_source = 'ttl', desired_by = 'ttl', desired_at = now()
    FROM found WHERE w.id = found.id
    RETURNING w.id, w.name, found.reason
)
INSERT INTO workspace_events (workspace_id, workspace_name, kind, old, new, source, by, reason)
SELECT id, name, 'desired', '{old}', '{new}', 'ttl', 'ttl', reason FROM moved ORDER BY id
RETURNING workspace_id AS id, workspace_name AS name, new, reason
"""


def _lower(fall: _Fall, condition: str) -> str:
    found = f"""SELECT w.id, w.name, {fall.reason} AS reason
    {fall.due_before(_HORIZON)}
        AND {condition} AND {HOLDS}"""
    return _move(found, fall.old, fall.new)


# Those that count work as activity fall only when somebody has looked and seen none.
LOWER_TO_STANDBY: Final = _lower(_STANDBY, "(w.busy_cpu = 0 OR w.id = ANY(%(quiet)s))")

LOWER_TO_ARCHIVED: Final = _lower(_ARCHIVE, "true")

# Whose work is to be looked at: those that fall soon.
WATCHED: Final = f"""
SELECT w.id, w.instance_backend, w.busy_cpu
{_STANDBY.due_before("%(soon)s::timestamptz")}
    AND w.busy_cpu > 0
ORDER BY w.id
"""

STILL_IDLE: Final = """(w.desired_state <> 'STANDBY'
    OR COALESCE(w.phase_changed_at > w.desired_at, false)
    OR EXISTS (
    SELECT FROM activity_sync s
    WHERE s.sentinel <> ''
        AND s.drained_at >= (
            SELECT l.acquired_at FROM system_locks l WHERE l.lock_name = %(fence_name)s)
        AND w.standby_ttl_seconds IS DISTINCT FROM 0
        AND GREATEST(w.last_access_at, w.phase_changed_at, s.blind_until)
            + make_interval(secs => COALESCE(w.standby_ttl_seconds, %(hub_standby_ttl)s::integer))
            < s.drained_at - make_interval(secs => %(flush)s::double precision)
                - make_interval(secs => %(slack)s::double precision)))
"""
"""Whether `w`, RUNNING and last moved by its TTL, may be stopped by what is known now.

It is the check once more, on the rows as they are: new activity, a blindness, a longer TTL or
`never` since then make it false. So do a Redis that gave no answer and a leader that has not read
activity itself yet: what it would rest on is then older than the one who acts on it. What came up
after it was told to sleep, or is to stop though no TTL asks for it, is no matter of idleness.

It stands in fenced statements, which give it `fence_name`, and needs `hub_standby_ttl`, `flush` and
`slack` in seconds. Who came back within flush + slack before now is not known to anybody yet and
is stopped like one who comes a moment later.
"""

# What the controller will not stop any more must not stay asked for. The first line is the index's.
BRING_BACK: Final = _move(
    f"""SELECT w.id, w.name, CASE
        WHEN w.last_access_at > w.desired_at - make_interval(secs => %(flush)s::double precision)
            - make_interval(secs => %(slack)s::double precision) THEN 'active again'
        ELSE 'not surely idle any more' END AS reason
    FROM workspaces w
    WHERE (w.phase <> w.desired_state OR w.operation <> 'NONE') AND w.deleted_at IS NULL
        AND w.phase = 'RUNNING' AND w.desired_state = 'STANDBY' AND w.operation = 'NONE'
        AND w.desired_source = 'ttl' AND NOT w.suspend
        AND NOT {STILL_IDLE} AND {HOLDS}""",
    "STANDBY",
    "RUNNING",
)


def _soon(fall: _Fall) -> str:
    """Those to be reminded. Not earlier than half the TTL before, or it would be told all day."""
    told_from = "t.since + t.ttl - LEAST(t.ttl / 2, %(reminder)s::interval)"
    return f"""SELECT w.id, w.name, w.owner_user_id, '{fall.old}' AS old, '{fall.new}' AS new,
        {told_from} AS told_from,
        {fall.reason} || ', {fall.new} in ' || {short(f"t.since + t.ttl - {_HORIZON}")} AS reason
    {fall.due_before(f"{_HORIZON} + %(reminder)s::interval")}
        AND {told_from} < {_HORIZON} AND {HOLDS}"""


# Once for each idle time: a reminder that was told since it could be is this one's.
REMIND: Final = f"""
, soon AS (
    {_soon(_STANDBY)}
    UNION ALL
    {_soon(_ARCHIVE)}
), untold AS (
    SELECT * FROM soon WHERE NOT EXISTS (
        SELECT FROM workspace_events e
        WHERE e.workspace_id = soon.id AND e.kind = 'expiring' AND e.at > soon.told_from)
), told AS (
    INSERT INTO workspace_events (workspace_id, workspace_name, kind, old, new, source, by, reason)
    SELECT id, name, 'expiring', old, new, 'ttl', 'ttl', reason FROM untold ORDER BY id
    RETURNING workspace_id
)
SELECT untold.id, untold.name, untold.new, untold.reason, pg_notify('ws_expiring',
    json_build_object('id', untold.id, 'user_id', untold.owner_user_id)::text)
FROM untold JOIN told ON told.workspace_id = untold.id ORDER BY untold.id
"""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a check goes by: how far activity is known, and the hub's own TTLs in seconds."""

    horizon: datetime
    blind_until: datetime
    standby: int
    archive: int

    @property
    def values(self) -> dict[str, Any]:
        return {
            "horizon": self.horizon,
            "blind_until": self.blind_until,
            "hub_standby_ttl": self.standby,
            "hub_archive_ttl": self.archive,
        }


@dataclass(frozen=True, slots=True)
class Fallen:
    """A workspace whose desired state a TTL has moved, or is about to."""

    id: UUID
    name: str
    new: str
    reason: str


@dataclass(frozen=True, slots=True)
class Watched:
    """A running workspace that falls soon unless it works: above `busy_cpu` percent of a core."""

    id: UUID
    runtime: Runtime
    busy_cpu: int


async def lower_to_standby(
    conn: AsyncConnection[DictRow], fence: Fence, bounds: Bounds, quiet: Collection[UUID]
) -> tuple[Fallen, ...]:
    """Ask STANDBY of what has idled; of those that count work as activity, `quiet` ones only."""
    return await _moved(conn, fence, LOWER_TO_STANDBY, {**bounds.values, "quiet": list(quiet)})


async def lower_to_archived(
    conn: AsyncConnection[DictRow], fence: Fence, bounds: Bounds
) -> tuple[Fallen, ...]:
    """Ask ARCHIVED of what has slept long enough."""
    return await _moved(conn, fence, LOWER_TO_ARCHIVED, bounds.values)


async def bring_back(
    conn: AsyncConnection[DictRow], fence: Fence, *, standby: int, flush: float, slack: float
) -> tuple[Fallen, ...]:
    """Ask RUNNING again of what a TTL has lowered, is not being stopped yet and not idle now."""
    values = {"hub_standby_ttl": standby, "flush": flush, "slack": slack}
    return await _moved(conn, fence, BRING_BACK, values)


async def remind(
    conn: AsyncConnection[DictRow], fence: Fence, bounds: Bounds, reminder: timedelta
) -> tuple[Fallen, ...]:
    """Tell, once, of those that will fall within `reminder`; NOTIFY ws_expiring for each."""
    return await _moved(conn, fence, REMIND, {**bounds.values, "reminder": reminder})


async def read_watched(
    conn: AsyncConnection[DictRow], bounds: Bounds, soon: datetime
) -> tuple[Watched, ...]:
    """Those that count work as activity and would fall if the horizon were at `soon`."""
    rows = await fetch(conn, WATCHED, {**bounds.values, "soon": soon})
    return tuple(
        Watched(row["id"], _RUNTIMES[row["instance_backend"]], row["busy_cpu"]) for row in rows
    )


async def _moved(
    conn: AsyncConnection[DictRow], fence: Fence, statement: str, values: dict[str, Any]
) -> tuple[Fallen, ...]:
    rows = await (await fenced(conn, fence, statement, values)).fetchall()
    return tuple(Fallen(row["id"], row["name"], row["new"], row["reason"]) for row in rows)
