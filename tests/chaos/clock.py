"""Time passes by moving all that is stored into the past: the clock is Postgres's and stays."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.chaos.picture import GENERATED, TABLES

if TYPE_CHECKING:
    from datetime import timedelta
    from pathlib import Path

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

# The audit is append-only, and triggers tell of changes, for everybody but time.
_MOVE = """
CREATE OR REPLACE FUNCTION pg_temp.pass_time(lasts interval, since bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('session_replication_role', 'replica', true);
    {statements}
    UPDATE workspace_events SET at = at - lasts WHERE id > since;
END $$
"""
_PROGRESS = """op_progress = op_progress || (
    SELECT COALESCE(jsonb_object_agg(key, (value #>> '{}')::timestamptz - lasts), '{}')
    FROM jsonb_each(op_progress) WHERE key IN ('at', 'blind_since'))"""
_COLUMNS = """
SELECT column_name FROM information_schema.columns
WHERE table_name = %s AND data_type = 'timestamp with time zone' AND column_name <> ALL(%s)
"""


async def prepare(conn: AsyncConnection[DictRow]) -> None:
    """Teach this connection to let time pass: every time in every table that a leader writes."""
    statements = ""
    for table in TABLES:
        rows = await (await conn.execute(_COLUMNS, (table, list(GENERATED)))).fetchall()
        moved = [f"{each} = {each} - lasts" for row in rows for each in row.values()]
        moved += [_PROGRESS] if table == "workspaces" else []
        statements += f"UPDATE {table} SET {', '.join(moved)};\n"
    await conn.execute(_MOVE.format(statements=statements))


async def move_rows(conn: AsyncConnection[DictRow], by: timedelta, since: int) -> None:
    """The audit moves from the event `since` on: earlier ones are of other stories."""
    await conn.execute("SELECT pg_temp.pass_time(%s, %s)", (by, since))


def move_files(root: Path, by: timedelta) -> None:
    for each in root.rglob("*"):
        if each.is_file():
            moment = each.stat().st_mtime - by.total_seconds()
            os.utime(each, (moment, moment))
