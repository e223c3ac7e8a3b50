"""The world at one moment: remembered, put back, and told apart from others.

Preparing a scenario takes as long as striking at it, and there are thousands of strikes; and most
of them leave the world in a situation that an earlier one left it in.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.runtime import ContainerSeen

TABLES = {
    "workspaces": "true",
    "archive_operations": "true",
    "gc_candidates": "true",
    "activity_sync": "true",
    "leader_requests": "true",
    "system_locks": "lock_name <> 'coordinator'",
}
"""What a leader writes to, and which rows of it; the epoch goes on from run to run."""
GENERATED = ("standby_due_at", "archive_due_at")

_ALL = "(SELECT COALESCE(jsonb_agg(to_jsonb(t)), '[]') FROM {table} t WHERE {rows})"
_EVENTS = """
(SELECT COALESCE(jsonb_agg(jsonb_build_array(old, new) ORDER BY id), '[]')
 FROM workspace_events WHERE id > %s AND kind = 'operation')
"""
_PUT = """
CREATE OR REPLACE FUNCTION pg_temp.put_back(kept jsonb) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN {statements} RETURN (SELECT COALESCE(max(id), 0) FROM workspace_events); END $$
"""
_PUT_ONE = """
DELETE FROM {table} WHERE {rows};
INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE
SELECT {columns} FROM jsonb_populate_recordset(NULL::{table}, kept -> '{table}');
"""
_CHANCE = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00"  # a time
    r"|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    r"|\b[0-9a-f]{16,64}\b"  # a hash, or the name of an attempt
)


@dataclass(frozen=True)
class Picture:
    """Everything that a run may change, as values."""

    rows: Mapping[str, Any]
    files: Mapping[str, bytes | None]
    """Below one directory, by path; None is a directory."""
    times: Mapping[str, float]
    """When each of them was last written."""
    containers: Mapping[UUID, ContainerSeen]
    sentinel: str | None
    """The mark in Redis."""
    operations: tuple[tuple[str, str], ...] = ()
    """What the audit says of operations since the run began: each from and to."""
    beside: tuple[ContainerSeen, ...] = ()
    """Containers that run beside those that have the names."""
    mounts: tuple[str, ...] = ()
    """The volumes that containers were launched on since the run began, in this order."""
    written: tuple[str, ...] = ()
    """The keys of the archive store that were written since then."""
    strangers: Mapping[str, str] = field(default_factory=dict)
    """Containers that are nobody's here, by the volume that they have."""
    sightings: Mapping[tuple[UUID, str], datetime] = field(default_factory=dict)
    """Who was seen working when, in Redis."""
    remote: bool = False
    """Whether homes are reached through copies alone."""
    expects_stranger: bool = False
    """Whether somebody takes the home when the engine has given a copy of it."""

    @property
    def row(self) -> Mapping[str, Any]:
        """The one workspace."""
        (found,) = self.rows["workspaces"]
        row: Mapping[str, Any] = found
        return row

    @property
    def crowd(self) -> tuple[ContainerSeen, ...]:
        """All containers there are, whatever their names."""
        return (*self.containers.values(), *self.beside)

    @property
    def situation(self) -> str:
        """What is the same in two runs in which the same has happened: all but times and names."""
        content = {
            name: text.decode() if text is not None and name.endswith(".txt") else ""
            for name, text in self.files.items()
        }
        running = [(each.volume, str(each.op_id), each.running) for each in self.crowd]
        rows = {name: [_telling(row) for row in rows] for name, rows in self.rows.items()}
        seen = [(str(each), source) for each, source in self.sightings]
        others = [self.sentinel, seen, dict(self.strangers), self.expects_stranger]
        told = json.dumps([rows, content, running, *others], sort_keys=True)
        names: dict[str, str] = {}
        return _CHANCE.sub(lambda found: _renamed(found[0], names), told)


def _telling(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without what depends on how long something took, or on how well it packed."""
    kept = {name: value for name, value in row.items() if name != "archive_bytes"}
    if "op_progress" in kept:
        progress = {k: v for k, v in row["op_progress"].items() if not isinstance(v, float)}
        kept["op_progress"] = progress
    return kept


def _renamed(found: str, names: dict[str, str]) -> str:
    """Times are all the same; ids are told apart by the order in which they appear."""
    return "time" if "T" in found else names.setdefault(found, f"id{len(names)}")


async def prepare(conn: AsyncConnection[DictRow]) -> None:
    """Teach this connection to put rows back in one exchange."""
    statements = ""
    for table, rows in TABLES.items():
        found = await conn.execute(
            "SELECT string_agg(column_name, ', ') AS columns FROM information_schema.columns"
            " WHERE table_name = %s AND column_name <> ALL(%s)",
            (table, list(GENERATED)),
        )
        row = await found.fetchone()
        assert row is not None
        statements += _PUT_ONE.format(table=table, rows=rows, columns=row["columns"])
    await conn.execute(_PUT.format(statements=statements))


async def take_rows(
    conn: AsyncConnection[DictRow], since: int
) -> tuple[Mapping[str, Any], tuple[tuple[str, str], ...]]:
    parts = ", ".join(
        f"'{table}', {_ALL.format(table=table, rows=rows)}" for table, rows in TABLES.items()
    )
    query = f"SELECT jsonb_build_object({parts}) AS rows, {_EVENTS} AS told"
    row = await (await conn.execute(query, (since,))).fetchone()
    assert row is not None
    return row["rows"], tuple((old, new) for old, new in row["told"])


async def versions(conn: AsyncConnection[DictRow]) -> object:
    """Equal if no row was written in between, in any of the tables that a leader writes."""
    parts = [
        f"(SELECT string_agg(ctid::text || xmin::text, ' ' ORDER BY ctid) FROM {table})"
        for table in TABLES
    ]
    parts.append("(SELECT max(id)::text FROM workspace_events)")
    query = f"SELECT ARRAY[{', '.join(parts)}] AS versions"
    row = await (await conn.execute(query)).fetchone()
    assert row is not None
    return row["versions"]


async def put_rows(conn: AsyncConnection[DictRow], rows: Mapping[str, Any]) -> int:
    """The number of the last event so far."""
    row = await (
        await conn.execute("SELECT pg_temp.put_back(%s) AS last", (Jsonb(rows),))
    ).fetchone()
    assert row is not None
    last: int = row["last"]
    return last


def take_files(root: Path) -> tuple[dict[str, bytes | None], dict[str, float]]:
    """What is below a directory, and of when."""
    found: dict[str, bytes | None] = {}
    times: dict[str, float] = {}
    left = [(str(root), "")]
    while left:
        folder, base = left.pop()
        with os.scandir(folder) as entries:
            for each in entries:
                name = base + each.name
                found[name] = None if each.is_dir() else Path(each.path).read_bytes()
                times[name] = each.stat().st_mtime
                if found[name] is None:
                    left.append((each.path, f"{name}/"))
    return dict(sorted(found.items())), times


def put_files(root: Path, kept: Picture, *, keep_uploads: bool) -> None:
    """Change what differs. An upload that somebody still writes to is theirs, if asked for."""
    found, _ = take_files(root)
    for name in sorted(found.keys() - kept.files.keys(), reverse=True):
        if not (keep_uploads and _is_upload(name, found)):
            _remove(root / name)
    for name, content in kept.files.items():
        if content is None:
            (root / name).mkdir(exist_ok=True)
        elif found.get(name) != content:
            (root / name).write_bytes(content)
            os.utime(root / name, (kept.times[name], kept.times[name]))


def _is_upload(name: str, found: Mapping[str, bytes | None]) -> bool:
    """Whether it is one, or a directory on the way to one."""
    return any(each.startswith(name) and ".partial" in each for each in found)


def _remove(path: Path) -> None:
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink()
