"""I6 is looked for in `picture.TABLES`; a leader's write to another table must not go unnoticed.

Whatever statement a leader has fenced lies in a module that comes with the coordinator: nothing
else reaches its connection (`test_ways_out.py`). So every table that is written to there is one of
those, or says here where a stale epoch is kept from it.
"""

from __future__ import annotations

import ast
import re
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from codehub.store.fence import HOLDS
from tests.chaos.picture import TABLES
from tests.chaos.test_ways_out import modules_of
from tests.touches import reached, source_of

if TYPE_CHECKING:
    from collections.abc import Iterator

WRITTEN = re.compile(
    r"(?:INSERT\s+INTO|DELETE\s+FROM|(?<!FOR\s)(?<!DO\s)UPDATE|MERGE\s+INTO|TRUNCATE|COPY)"
    r"\s+(?:ONLY\s+)?([a-z_]+)"
)
ELSEWHERE = {
    # The audit, with every change of a row: `picture.versions` counts it as well.
    "workspace_events",
    # Webhooks have a world of their own: `test_webhook_crashes.py`.
    *("webhook_deliveries", "webhook_events", "webhooks"),
}
"""Where else a leader's single statements write."""
LOADED = {
    # What the loader writes goes in one fenced transaction or not at all: `test_watch.py`.
    *("spec_revisions", "users", "sessions", "api_tokens"),
    # The hub's own row, made where there is none, by whoever comes first.
    "hub",
}
"""What no single fenced statement writes to."""
BY_TRIGGERS = {"archive_operations"}
"""Written to with a workspace, by the database itself."""


def written(text: str) -> set[str]:
    """The tables that the statements in a source write to."""
    return {table for each in _texts(text) for table in WRITTEN.findall(each)}


def _texts(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_i6_is_looked_for_in_every_table_that_a_leader_writes() -> None:
    modules = reached(modules_of("codehub.coordinator"))
    found = {table for each in modules for table in written(source_of(each))}
    assert found == (TABLES.keys() - BY_TRIGGERS) | ELSEWHERE | LOADED


def test_a_fenced_statement_writes_where_i6_is_looked_for() -> None:
    stored = [vars(import_module(each)) for each in modules_of("codehub.store")]
    texts = {each for names in stored for each in names.values() if isinstance(each, str)}
    fenced = [each for each in texts if HOLDS in each and each != HOLDS]
    assert len(fenced) > 20
    for each in fenced:
        tables = {*WRITTEN.findall(each)}
        assert tables, each
        assert tables <= TABLES.keys() | ELSEWHERE, each


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ('X = "UPDATE users SET name = %s"', "users"),
        ('X = f"UPDATE users SET name = %s WHERE {HOLDS}"', "users"),
        ('X = """\nWITH a AS (DELETE\n  FROM sessions)"""', "sessions"),
        ('conn.execute("INSERT INTO ghosts VALUES (1)")', "ghosts"),
        ('conn.execute("TRUNCATE ghosts")', "ghosts"),
    ],
)
def test_what_is_planted_is_found(text: str, table: str) -> None:
    assert written(text) == {table}


@pytest.mark.parametrize(
    "text", ["SELECT 1 FROM hub FOR UPDATE", "ON CONFLICT DO UPDATE SET x = 1", "FOR NO KEY UPDATE"]
)
def test_what_writes_nothing_is_not_found(text: str) -> None:
    assert written(f"X = {text!r}") == set()
