"""Reading specs is quick to start: it takes no database, no tables, no templates along."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("psycopg", "sqlalchemy", "sqlmodel", "alembic", "rich", "jinja2", "typer", "ruamel")
PROGRAM = f"""
import sys
import codehub.specs.load
print(*sorted(set(m.split(".")[0] for m in sys.modules) & set({HEAVY!r})))
"""


def test_loading_specs_imports_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == ""
