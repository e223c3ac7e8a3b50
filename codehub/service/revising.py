"""Going back and looking back: the specs of recorded revisions.

Called by `rollback`, `diff` and the admins' plan. Documents were kept as they were written, so an
old revision is read by the rules of today: what they no longer allow is told like any other problem
of specs.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codehub.errors import NotFound
from codehub.specs.load import load_documents
from codehub.store.revisions import (
    latest_applied,
    list_revisions,
    read_documents,
    read_revision,
)

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.revision import Revision, SpecSet

LISTED: Final = 10
"""How many revisions an error names."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A revision and what its documents declare."""

    revision: Revision
    specs: SpecSet


async def read_recorded(conn: AsyncConnection[DictRow], number: int | None) -> Recorded:
    """A revision's specs, with the origin they were read from; None for the one in force."""
    found = await _in_force(conn) if number is None else await _numbered(conn, number)
    documents = await read_documents(conn, found.id)
    # Ten thousand documents take seconds: others on this loop go on meanwhile.
    return Recorded(found, await asyncio.to_thread(load_documents, documents, found.origin))


async def _in_force(conn: AsyncConnection[DictRow]) -> Revision:
    revision = await latest_applied(conn)
    if revision is None:
        raise NotFound("nothing has been applied yet", hint="'codehub apply' loads the first specs")
    return revision


async def _numbered(conn: AsyncConnection[DictRow], number: int) -> Revision:
    try:
        revision = await read_revision(conn, number)
    except NotFound as unknown:
        raise NotFound(unknown.message, hint=await _choices(conn)) from None
    if not revision.applied:
        raise NotFound(
            f"revision {number} failed and was never in force, so it has no specs to use",
            hint=await _choices(conn),
        )
    return revision


async def _choices(conn: AsyncConnection[DictRow]) -> str:
    newest = await list_revisions(conn, 10 * LISTED)
    applied = [str(each.id) for each in newest if each.applied]
    if not applied:
        return "nothing has been applied yet: 'codehub apply' loads the first specs"
    more = " and older ones" if len(applied) > LISTED else ""
    return f"there are {', '.join(applied[:LISTED])}{more}; 'codehub history' says what they are"
