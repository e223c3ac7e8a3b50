"""Revisions as recorded: applied ones with their documents, failed ones with their problems.

Ids are plain integers that grow by one: people read them, and one that is missing would look like a
revision that was lost.
Documents are large, so they are read only when somebody asks for one revision's.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from psycopg.types.json import Jsonb

from codehub.errors import NotFound
from codehub.model.revision import UNREADABLE, Origin, Revision
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.revision import SpecSet

_COLUMNS: Final = """
id, digest, directory, git_commit, git_dirty, git_ref, author, created_at, applied, problems,
summary
"""

# The next number by the rows, since a sequence leaves numbers out with every crash and every load
# that is rolled back. Only whoever holds the loader's lock gets here. The sequence follows, for
# whatever takes the column's default.
INSERT: Final = f"""
INSERT INTO spec_revisions (id, digest, directory, git_commit, git_dirty, git_ref, source, author,
                            created_at, applied, problems, summary, documents)
VALUES ((SELECT setval(pg_get_serial_sequence('spec_revisions', 'id'), COALESCE(max(id), 0) + 1)
         FROM spec_revisions),
        %(digest)s, %(directory)s, %(commit)s, %(dirty)s, %(ref)s, %(source)s, %(author)s,
        COALESCE(%(at)s, now()), %(applied)s, %(problems)s, %(summary)s, %(documents)s)
RETURNING {_COLUMNS}
"""

LATEST: Final = f"SELECT {_COLUMNS} FROM spec_revisions ORDER BY id DESC LIMIT 1"

# What the hub runs. Failed ones in between change nothing.
LATEST_APPLIED: Final = f"""
SELECT {_COLUMNS} FROM spec_revisions WHERE applied ORDER BY id DESC LIMIT 1
"""

# What came after it and could not be loaded.
LATEST_FAILED: Final = f"""
SELECT {_COLUMNS} FROM spec_revisions
WHERE id > COALESCE((SELECT max(id) FROM spec_revisions WHERE applied), 0)
ORDER BY id DESC LIMIT 1
"""

LIST: Final = f"""
SELECT {_COLUMNS} FROM spec_revisions
WHERE %(before)s::bigint IS NULL OR id < %(before)s
ORDER BY id DESC LIMIT %(limit)s
"""

# What was last read from one place through one way. Specs that could not be read say nothing about
# what is to be loaded, so they can be left out.
LATEST_FROM: Final = f"""
SELECT {_COLUMNS} FROM spec_revisions
WHERE source = %(source)s AND directory = %(directory)s AND git_ref IS NOT DISTINCT FROM %(ref)s
AND NOT (%(readable)s AND starts_with(digest, '{UNREADABLE}'))
ORDER BY id DESC LIMIT 1
"""

READ_ONE: Final = f"SELECT {_COLUMNS} FROM spec_revisions WHERE id = %(id)s"

READ_DOCUMENTS: Final = "SELECT documents FROM spec_revisions WHERE id = %(id)s AND applied"

# Whether the specs that the hub runs declare a workspace; asked for one name, so in the database.
DECLARES: Final = """
SELECT EXISTS (
    SELECT 1 FROM jsonb_array_elements((
        SELECT documents FROM spec_revisions WHERE applied ORDER BY id DESC LIMIT 1
    )) AS document
    WHERE document ->> 'kind' = 'Workspace'
    AND document #>> '{metadata,name}' = %(name)s AND document #>> '{spec,owner}' = %(owner)s
) AS declared
"""


async def record_applied(
    conn: AsyncConnection[DictRow],
    specs: SpecSet,
    *,
    author: str,
    source: str,
    summary: Mapping[str, int],
    at: datetime | None = None,
) -> Revision:
    """Record a load, within the loader's transaction."""
    values = _values(specs.digest, specs.origin, author=author, source=source) | {
        "at": at,
        "applied": True,
        "problems": Jsonb([]),
        "summary": Jsonb(dict(summary)),
        "documents": Jsonb([dict(document) for document in specs.documents]),
    }
    return _revision((await fetch(conn, INSERT, values))[0])


async def record_failed(
    conn: AsyncConnection[DictRow],
    *,
    digest: str,
    origin: Origin,
    problems: Sequence[str],
    author: str,
    source: str,
) -> Revision:
    """Record a load that failed, with its problems; the last applied one stays in force.

    The same failure again is not recorded again: a watcher that polls broken specs would fill the
    history with copies.
    """
    latest = await _one(conn, LATEST, {})
    same = (digest, origin, False, tuple(problems))
    if latest and (latest.digest, latest.origin, latest.applied, latest.problems) == same:
        return latest
    values = _values(digest, origin, author=author, source=source) | {
        "at": None,
        "applied": False,
        "problems": Jsonb(list(problems)),
        "summary": Jsonb({}),
        "documents": Jsonb([]),
    }
    return _revision((await fetch(conn, INSERT, values))[0])


async def latest_applied(conn: AsyncConnection[DictRow]) -> Revision | None:
    """The revision that is in force; None before the first apply."""
    return await _one(conn, LATEST_APPLIED, {})


async def latest_failed(conn: AsyncConnection[DictRow]) -> Revision | None:
    """The newest load that failed; None where the newest one is in force."""
    return await _one(conn, LATEST_FAILED, {})


async def latest_from(
    conn: AsyncConnection[DictRow], source: str, origin: Origin, *, readable: bool = False
) -> Revision | None:
    """The newest revision of a directory (at a ref, if any) that came through `source`.

    Applied or failed; with `readable`, the newest whose specs could be read at all.
    """
    values = {"source": source, "directory": origin.directory, "ref": origin.ref}
    return await _one(conn, LATEST_FROM, values | {"readable": readable})


async def list_revisions(
    conn: AsyncConnection[DictRow], limit: int = 50, before: int | None = None
) -> tuple[Revision, ...]:
    """The revisions, applied and failed, newest first; `before` an id to page on."""
    rows = await fetch(conn, LIST, {"limit": limit, "before": before})
    return tuple(_revision(row) for row in rows)


async def read_revision(conn: AsyncConnection[DictRow], number: int) -> Revision:
    found = await _one(conn, READ_ONE, {"id": number})
    if found is None:
        raise _unknown(number)
    return found


async def read_documents(
    conn: AsyncConnection[DictRow], number: int
) -> tuple[Mapping[str, object], ...]:
    """The documents of an applied revision, for rollback and diff."""
    rows = await fetch(conn, READ_DOCUMENTS, {"id": number})
    if not rows:
        await read_revision(conn, number)
        raise NotFound(
            f"revision {number} failed, so its documents were not kept",
            hint="choose an applied one: 'codehub history' lists them",
        )
    return tuple(json.loads(rows[0]["documents"]))


async def declares(conn: AsyncConnection[DictRow], name: str, owner: str) -> bool:
    """Whether the revision in force declares this workspace with this owner."""
    rows = await fetch(conn, DECLARES, {"name": name, "owner": owner})
    return bool(rows[0]["declared"])


def _values(digest: str, origin: Origin, *, author: str, source: str) -> dict[str, object]:
    return {
        "digest": digest,
        "directory": origin.directory,
        "commit": origin.commit,
        "dirty": origin.dirty,
        "ref": origin.ref,
        "author": author,
        "source": source,
    }


async def _one(
    conn: AsyncConnection[DictRow], query: str, params: Mapping[str, object]
) -> Revision | None:
    rows = await fetch(conn, query, params)
    return _revision(rows[0]) if rows else None


def _revision(row: Mapping[str, Any]) -> Revision:
    return Revision(
        id=row["id"],
        digest=row["digest"],
        origin=Origin(row["directory"], row["git_commit"], row["git_dirty"], row["git_ref"]),
        created_at=row["created_at"],
        author=row["author"],
        applied=row["applied"],
        problems=tuple(json.loads(row["problems"])),
        summary=json.loads(row["summary"]),
    )


def _unknown(number: int) -> NotFound:
    return NotFound(
        f"there is no revision {number}", hint="'codehub history' lists the revisions there are"
    )
