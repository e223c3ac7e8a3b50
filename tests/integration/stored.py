"""Short ways to fill and to look at a database, for tests that are about something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from psycopg.types.json import Jsonb

from codehub.core.admit import admit
from codehub.store.columns import row_of
from codehub.store.declare import loader_lock, write_spec_set
from codehub.store.hubs import read_hub_state
from codehub.store.users import read_user_ids, upsert_users
from codehub.store.workspaces import find_live
from tests.make import user

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.revision import Revision, SpecSet
    from codehub.model.workspace import Workspace

    Conn = AsyncConnection[DictRow]


async def apply(conn: Conn, incoming: SpecSet, **options: Any) -> Revision | None:
    """Load a spec set as `codehub apply` does."""
    options = {"author": "alice", "source": "cli"} | options
    async with loader_lock(conn, author=options["author"]):
        admissions = admit(await read_hub_state(conn), incoming)
        return await write_spec_set(conn, incoming, admissions, **options)


async def insert(conn: Conn, *workspaces: Workspace) -> None:
    """Write whole rows as they are, with the owners and revisions they refer to."""
    await upsert_users(conn, [user(name) for name in {one.declaration.owner for one in workspaces}])
    for number in sorted({one.spec_revision for one in workspaces if one.spec_revision}):
        await conn.execute(
            "INSERT INTO spec_revisions (id, digest) OVERRIDING SYSTEM VALUE VALUES (%s, 'd0')"
            " ON CONFLICT DO NOTHING",
            (number,),
        )
    await conn.execute(
        "SELECT setval('spec_revisions_id_seq', max(id)) FROM spec_revisions HAVING max(id) > 0"
    )
    owners = await read_user_ids(conn)
    rows = [row_of(one, owners[one.declaration.owner]) for one in workspaces]
    if rows:
        columns = ", ".join(rows[0])
        await conn.execute(
            f"INSERT INTO workspaces ({columns}) SELECT {columns}"
            " FROM jsonb_populate_recordset(NULL::workspaces, %s)",
            (Jsonb(rows),),
        )


async def change(conn: Conn, name: str, **columns: object) -> None:
    """Set columns of one workspace, as their writer would."""
    assignments = ", ".join(f"{column} = %({column})s" for column in columns)
    done = await conn.execute(
        f"UPDATE workspaces SET {assignments} WHERE name = %(old_name)s",
        {**columns, "old_name": name},
    )
    assert done.rowcount == 1


async def live(conn: Conn, name: str) -> Workspace:
    """The workspace of this name; it must be there."""
    found = await find_live(conn, name)
    assert found is not None, f"no workspace {name}"
    return found.workspace


async def versions(conn: Conn, *tables: str) -> list[tuple[str, str, str]]:
    """Table, place and writing transaction of every row: equal if none was written."""
    found = []
    for table in tables:
        rows = await (await conn.execute(f"SELECT ctid::text, xmin::text FROM {table}")).fetchall()
        found += [(table, row["ctid"], row["xmin"]) for row in rows]
    return sorted(found)


async def count(conn: Conn, table: str) -> int:
    row = await (await conn.execute(f"SELECT count(*) AS n FROM {table}")).fetchone()
    return int(row["n"]) if row else 0


def number(value: int) -> UUID:
    return UUID(int=value)
