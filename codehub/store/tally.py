"""The hub in a few figures, for whoever looks at it: two small queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from codehub.model.states import Phase
from codehub.store.connect import transaction
from codehub.store.places import COUNTED
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

READ_HUB: Final = """
SELECT h.id, h.name, u.max_running, (h.spec ->> 'max_running_per_user')::integer AS per_user,
       (h.spec ->> 'max_running_global')::integer AS everybody,
       r.id AS revision, r.git_commit, r.created_at
FROM (SELECT 1) AS one
LEFT JOIN hub h ON true
LEFT JOIN users u ON u.id = %(user_id)s
LEFT JOIN LATERAL (
    SELECT id, git_commit, created_at FROM spec_revisions
    WHERE applied ORDER BY id DESC LIMIT 1) AS r ON true
"""

COUNT: Final = f"""
SELECT w.phase, count(*) AS number, count(*) FILTER (WHERE {COUNTED}) AS running
FROM workspaces w
WHERE w.deleted_at IS NULL AND (%(everybody)s OR w.owner_user_id = %(user_id)s)
GROUP BY w.phase
"""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The revision in force."""

    id: int
    commit: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Tally:
    """The figures. Limits are None where no spec says; `phases` has all but DELETED.

    `running` is as limits count it.
    """

    name: str
    id: str | None
    revision: Loaded | None
    limit_per_user: int | None
    limit_of_all: int | None
    running: int
    phases: Mapping[Phase, int]


async def read_tally(conn: AsyncConnection[DictRow], user_id: UUID, *, everybody: bool) -> Tally:
    """What this user may know: of their own workspaces, or of everybody's."""
    async with transaction(conn, snapshot=True):
        row = (await fetch(conn, READ_HUB, {"user_id": user_id}))[0]
        counted = await fetch(conn, COUNT, {"user_id": user_id, "everybody": everybody})
    own, usual = row["max_running"], row["per_user"]
    found = {Phase(each["phase"]): each["number"] for each in counted}
    return Tally(
        name=row["name"] or "hub",
        id=None if row["id"] is None else str(row["id"]),
        revision=_loaded(row),
        limit_per_user=usual if own is None else own,
        limit_of_all=row["everybody"],
        running=sum(each["running"] for each in counted),
        phases={phase: found.get(phase, 0) for phase in Phase if phase is not Phase.DELETED},
    )


def _loaded(row: Mapping[str, Any]) -> Loaded | None:
    if row["revision"] is None:
        return None
    return Loaded(row["revision"], row["git_commit"], row["created_at"])
