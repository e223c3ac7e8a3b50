"""Writing a revision: everything a spec set declares, in one transaction, by one loader at a time.

What an apply writes was computed from what it read, so nothing may come between the two. Take the
lock first, then read, admit and write within it:

    async with loader_lock(conn, author="alice"):
        stored = await read_hub_state(conn)
        admissions = admit(stored, incoming)
        revision = await write_spec_set(conn, incoming, admissions, author="alice", source="cli")

The lock covers every writer of declarations. Desired states and the controller's columns may move
meanwhile; each statement that depends on them tests them once more. All rows go to Postgres as one
JSON parameter per statement, so a thousand workspaces cost a handful of statements.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from psycopg import errors
from psycopg.types.json import Jsonb

from codehub.core.digest import template_digest
from codehub.errors import Conflict
from codehub.model.states import IntentSource
from codehub.store.advisory import OURS, Lock, lock_transaction
from codehub.store.columns import declared_columns
from codehub.store.connect import transaction
from codehub.store.declared_events import audit
from codehub.store.events import append
from codehub.store.hubs import write_hub
from codehub.store.intent import Asked, move, undelete_rows
from codehub.store.revisions import latest_applied, record_applied
from codehub.store.rows import DECLARED
from codehub.store.sort import Writes, sort_admissions
from codehub.store.users import disable_removed, read_user_ids, upsert_users
from codehub.store.workspaces import fetch, lock_rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from datetime import datetime
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.admission import Admission
    from codehub.model.revision import Revision, SpecSet

# Local to the transaction. The name tells whoever waits too long who is at work.
PREPARE_TO_WAIT: Final = """
SELECT set_config('lock_timeout', %(wait)s, true),
       set_config('application_name', %(name)s, true)
"""
WAITED: Final = "SET LOCAL lock_timeout = 0"

_NAME: Final = "codehub apply by "

HOLDER: Final = """
SELECT a.application_name AS name, a.pid = pg_backend_pid() AS own
FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted
AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND (l.classid, l.objid, l.objsubid) = (%(ours)s::oid, %(lock)s::oid, 2)
"""

CLOCK: Final = "SELECT COALESCE(%(now)s, now()) AS at"

_LIST: Final = ", ".join(DECLARED)

CREATE: Final = f"""
INSERT INTO workspaces ({_LIST}, declared_at, desired_state, desired_source, desired_at,
                        desired_by, phase, phase_changed_at)
SELECT {_LIST}, %(at)s, desired_state, 'spec', %(at)s, %(by)s, 'PENDING', %(at)s
FROM jsonb_populate_recordset(NULL::workspaces, %(rows)s)
RETURNING id, name
"""

# declared_at is when the ceiling or the template moved: what follows from that waits for the people
# in the workspace, counted from then on.
UPDATE: Final = f"""
UPDATE workspaces w
SET ({_LIST}) = ({", ".join(f"d.{name}" for name in DECLARED)}),
    declared_at = CASE WHEN (w.declared_state, w.template_digest)
                          = (d.declared_state, d.template_digest)
                       THEN w.declared_at ELSE %(at)s END
FROM jsonb_populate_recordset(NULL::workspaces, %(rows)s) d
WHERE w.id = d.id
"""

# A revision may pass names on (a becomes b, b becomes c); uniqueness is tested row by row, so all
# that change theirs step aside first.
FREE_NAMES: Final = "UPDATE workspaces SET name = id::text WHERE id = ANY(%(ids)s)"

# `apply --now`: what waits for people waits no longer. A lowering and an update count from the time
# of their declaration, which becomes long ago; a deletion waits only while the specs alone ask.
HURRY_DECLARED: Final = """
UPDATE workspaces SET declared_at = to_timestamp(0)
WHERE phase = 'RUNNING' AND deleted_at IS NULL AND declared_at > to_timestamp(0)
AND (declared_state <> 'RUNNING' OR update_policy = 'immediate')
"""
HURRY_DELETED: Final = """
UPDATE workspaces SET desired_source = 'cli', desired_by = %(by)s
WHERE phase = 'RUNNING' AND deleted_at IS NULL
AND desired_state = 'DELETED' AND desired_source = 'spec'
"""

MARK_ORPHANS: Final = "UPDATE workspaces SET orphaned = true WHERE id = ANY(%(ids)s)"


@asynccontextmanager
async def loader_lock(
    conn: AsyncConnection[DictRow], *, author: str = "", wait_seconds: float = 30
) -> AsyncIterator[None]:
    """One transaction in which nobody else loads specs; Conflict when the wait is too long.

    It reads what is committed, statement by statement: a snapshot taken before the wait would
    show what the other loader has just replaced.
    """
    async with transaction(conn):
        await _take(conn, author, wait_seconds)
        yield


async def write_spec_set(
    conn: AsyncConnection[DictRow],
    incoming: SpecSet,
    admissions: Iterable[Admission],
    *,
    author: str,
    source: str,
    now: datetime | None = None,
    immediately: bool = False,
) -> Revision | None:
    """Write what was admitted, and the revision; None, and nothing written, when nothing changes.

    Must run within `loader_lock`, where the admissions were computed. `source` says through what
    (cli, rollback, watch), `now` replaces the server's time. `immediately` is `apply --now`: it
    also hurries what an earlier load left waiting for people, even where nothing else changes.
    """
    await _require_lock(conn)
    writes = sort_admissions(admissions)
    latest = await latest_applied(conn)
    if writes.empty and latest is not None and latest.digest == incoming.digest:
        if immediately:
            await _hurry(conn, author)
        return None
    at = (await fetch(conn, CLOCK, {"now": now}))[0]["at"]
    revision = await record_applied(
        conn, incoming, author=author, source=source, summary=writes.summary, at=at
    )
    await write_hub(conn, incoming.hub)
    await upsert_users(conn, incoming.users.values())
    try:
        await _write_workspaces(conn, writes, revision.id, author, at)
    except errors.UniqueViolation as clash:
        raise _name_taken(clash) from clash
    await disable_removed(conn, incoming.users, at)
    if immediately:
        await _hurry(conn, author)
    return revision


async def _hurry(conn: AsyncConnection[DictRow], by: str) -> None:
    await conn.execute(HURRY_DECLARED)
    await conn.execute(HURRY_DELETED, {"by": by})


async def _write_workspaces(
    conn: AsyncConnection[DictRow], writes: Writes, revision: int, by: str, at: datetime
) -> None:
    owners = await read_user_ids(conn)
    await lock_rows(conn, writes.ids)
    phases = await _undelete(conn, writes, at)
    if writes.renamed:
        await conn.execute(FREE_NAMES, {"ids": writes.renamed})
    await _update(conn, writes, owners, revision, at)
    created = await _create(conn, writes, owners, revision, by, at)
    if writes.orphaned:
        await conn.execute(MARK_ORPHANS, {"ids": [_id(one) for one in writes.orphaned]})
    await append(conn, audit(writes, created, phases, by))
    # Pruning comes last: by now everything that the specs keep has been written.
    for group in (writes.moved, writes.pruned):
        asked = [Asked(_id(one), one.desired, one.reason) for one in group if one.desired]
        if asked:
            await move(conn, asked, source=IntentSource.SPEC, by=by, at=at)


async def _undelete(
    conn: AsyncConnection[DictRow], writes: Writes, at: datetime
) -> Mapping[UUID, str]:
    ids = [_id(one) for one in writes.undeleted]
    phases = await undelete_rows(conn, ids, at) if ids else {}
    late = [one.name for one in writes.undeleted if _id(one) not in phases]
    if late:
        raise Conflict(
            f"the archive of {', '.join(late)} was being purged just now",
            hint="apply again: it will be a new, empty workspace",
        )
    return phases


async def _update(
    conn: AsyncConnection[DictRow],
    writes: Writes,
    owners: Mapping[str, UUID],
    revision: int,
    at: datetime,
) -> None:
    rows = [_columns(one, owners, revision) for one in writes.updated]
    if rows:
        await conn.execute(UPDATE, {"rows": Jsonb(rows), "at": at})


async def _create(
    conn: AsyncConnection[DictRow],
    writes: Writes,
    owners: Mapping[str, UUID],
    revision: int,
    by: str,
    at: datetime,
) -> Mapping[str, UUID]:
    rows = [
        _columns(one, owners, revision) | {"desired_state": one.desired} for one in writes.created
    ]
    if not rows:
        return {}
    written = await fetch(conn, CREATE, {"rows": Jsonb(rows), "by": by, "at": at})
    return {row["name"]: row["id"] for row in written}


def _columns(one: Admission, owners: Mapping[str, UUID], revision: int) -> dict[str, Any]:
    """The loader's columns of one row; the generation moves only with the meaning."""
    assert one.declaration is not None
    old = one.existing
    generation = 1 if old is None else old.generation + one.changed
    same_template = old is not None and not one.changed
    digest = old.template_digest if same_template and old else template_digest(one.declaration)
    return {
        "id": None if old is None else str(old.id),
        **declared_columns(one.declaration, owners[one.declaration.owner]),
        "template_digest": digest,
        "generation": generation,
        "spec_revision": revision,
        "orphaned": one.orphaned,
    }


def _id(one: Admission) -> UUID:
    assert one.existing is not None
    return one.existing.id


async def _take(conn: AsyncConnection[DictRow], author: str, wait_seconds: float) -> None:
    wait = f"{max(1, round(wait_seconds * 1000))}ms"
    try:
        # A savepoint, so that the transaction can still ask who has the lock.
        async with conn.transaction():
            await conn.execute(PREPARE_TO_WAIT, {"wait": wait, "name": f"{_NAME}{author}"[:63]})
            await lock_transaction(conn, Lock.LOADER)
            await conn.execute(WAITED)
    except errors.LockNotAvailable:
        holder = await _holder(conn)
        name = str(holder["name"]).removeprefix(_NAME) if holder else ""
        raise Conflict(
            "another apply is under way" + (f" (by {name})" if name else ""),
            hint="wait until it is done, then apply again",
        ) from None


async def _require_lock(conn: AsyncConnection[DictRow]) -> None:
    holder = await _holder(conn)
    if holder is None or not holder["own"]:
        raise RuntimeError("write_spec_set must run within loader_lock on the same connection")


async def _holder(conn: AsyncConnection[DictRow]) -> DictRow | None:
    rows = await fetch(conn, HOLDER, {"ours": OURS, "lock": int(Lock.LOADER)})
    return rows[0] if rows else None


def _name_taken(clash: errors.UniqueViolation) -> Conflict:
    return Conflict(
        "a workspace of this name is still being deleted: " + (clash.diag.message_detail or ""),
        hint="apply again once it is gone",
    )
