"""Secrets are planted wherever a hub takes one, and then everything that it says is searched.

What a workspace itself writes is its own, and so is what its owner declares: neither is searched.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.hub import DEMO, Hub, a_hub, until
from tests.end_to_end.moments import NEVER
from tests.end_to_end.visits import cookie, request, visit
from tests.integration.command_line import run_codehub

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(300, func_only=True)

ENV, SECRET = "canary-env-5b21c7", "canary-secret-90d3aa"
TYPED, PASSWORD = "canary-typed-1f6e02", "canary-dsn-77ab14"
SPECS = """\
apiVersion: codehub.dev/v1
kind: Hub
metadata: {name: hub}
spec: {maxRunningPerUser: 20, defaultRuntime: process}
---
apiVersion: codehub.dev/v1
kind: User
metadata: {name: alice}
spec: {role: admin}
"""
WORKSPACE = """\
---
apiVersion: codehub.dev/v1
kind: Workspace
metadata: {name: %s}
spec: {owner: alice, %s, env: {API_KEY: %s}, secretEnv: {DB: %s}}
"""
TELLS = "command: [sh, -c, 'echo it was $API_KEY and $DB; exit 3']"
COMMANDS = (
    *(("plan", "next"), ("plan", "next", "--format", "json"), ("plan", "next", "--format", "md")),
    *(("plan", "next", "--format", "html"), ("status", "--format", "json"), ("explain", "good")),
    *(("explain", "tells"), ("explain", "lacks"), ("events", "--format", "json")),
    *(("events", "--access"), ("history",), ("diff", "1", "2"), ("report", "--format", "json")),
    *(
        ("report", "--format", "html"),
        ("token", "list"),
        ("doctor",),
        ("apply", "next", "--dry-run"),
    ),
)
PAGES = (
    *("/", "/workspaces/good", "/workspaces/tells", "/workspaces/lacks", "/admin", "/report"),
    *("/admin/plan", "/w/tells/", "/w/lacks/", "/logout"),
)
API = ("workspaces", "workspaces/tells", "workspaces/tells/explain", "audit", "hub", "me")
TABLES = "SELECT relname FROM pg_stat_user_tables WHERE relname <> ALL(%s)"
DECLARED = ["workspaces", "spec_revisions"]
"""Here the specs themselves are kept."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """One workspace that runs, one that ends by telling all it knows, one that lacks its secret."""
    secrets = tmp_path_factory.mktemp("secrets")
    (secrets / "db").write_text(SECRET)
    with a_hub(SECRETS_DIR=str(secrets), OPERATION_RETRIES="0", LOG_LEVEL="debug") as made:
        made.specs.mkdir()
        declare(made, ENV)
        made.start()
        settled = {"good": "RUNNING", "tells": "ERROR", "lacks": "ERROR"}
        until(lambda: phases(made) == settled, f"{settled}")
        declare(made, f"{ENV}-2")
        until(lambda: made.ask("SELECT count(*) FROM spec_revisions")[0][0] == 2, "a change")
        (made.directory / "next").mkdir()
        (made.directory / "next" / "all.yaml").write_text(specs(f"{ENV}-3"))
        yield made


def specs(value: str) -> str:
    text = SPECS + WORKSPACE % ("good", f"{DEMO}, {NEVER}", value, "db")
    text += WORKSPACE % ("tells", TELLS, value, "db")
    return text + WORKSPACE % ("lacks", DEMO, value, "missing")


def declare(hub: Hub, value: str) -> None:
    draft = hub.directory / "draft"
    draft.write_text(specs(value))
    draft.rename(hub.specs / "all.yaml")


def phases(hub: Hub) -> dict[str, str]:
    return {name: row.phase for name, row in hub.rows().items() if row.operation == "NONE"}


def searched(said: dict[str, str], *canaries: str) -> None:
    assert all(said.values()), [where for where, text in said.items() if not text]
    found = {where: each for where, text in said.items() for each in canaries if each in text}
    assert found == {}


def log_in_wrongly(hub: Hub) -> None:
    form = f"name={TYPED}&password={TYPED}".encode()
    kind = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
    assert request(hub.port, "POST", "/login", form, headers=kind).status == 403


def test_nothing_that_the_hub_says_has_a_secret_in_it(hub: Hub, tmp_path: Path) -> None:
    token = hub.tell("token", "create", "ci", "--scope", "write", "--user", "alice").out.strip()
    bearer = {"Authorization": f"Bearer {token}"}
    log_in_wrongly(hub)
    said = {f"codehub {' '.join(words)}": _said(hub, words) for words in COMMANDS}
    said |= {path: visit(hub.port, path).body.decode() for path in PAGES}
    for path in API:
        answer = request(hub.port, "GET", f"/api/v1/{path}", headers=bearer)
        assert answer.status == 200, path
        said[f"/api/v1/{path}"] = answer.body.decode()
    hub.tell("render-pages", str(tmp_path / "pages"))
    said |= {f"page {each.name}": each.read_text() for each in (tmp_path / "pages").iterdir()}
    said["the log"] = hub.said(hub.up)
    said |= {table: _rows(hub, table) for (table,) in hub.ask(TABLES, DECLARED)}
    said["errors"] = _errors(hub)

    session = cookie(hub.port).partition("=")[2]
    searched(said, ENV, SECRET, TYPED, token, session)
    assert "exit code 3" in said["/w/tells/"], "it was there to be told"
    assert "***" in said["errors"]
    assert "API_KEY" in said["codehub plan next"]
    assert "alice" in said["access_events"]


def _said(hub: Hub, words: tuple[str, ...]) -> str:
    ran = hub.run(*words)
    assert ran.code == 0 or words == ("doctor",), ran
    return f"{ran.code} {ran.out}{ran.err}"


def _rows(hub: Hub, table: str) -> str:
    return f"{table}: {hub.ask(f'SELECT t::text FROM {table} t')}"


def _errors(hub: Hub) -> str:
    columns = "name, error_message, conditions::text, op_progress::text"
    return json.dumps(hub.ask(f"SELECT {columns} FROM workspaces"))


@pytest.mark.parametrize(
    "words",
    [
        *(("status",), ("doctor",), ("db", "current"), ("plan",), ("events", "--access")),
        *(("serve", "proxy", "--port", "0"), ("serve", "coordinator"), ("--debug", "status")),
    ],
    ids=" ".join,
)
def test_an_address_is_never_repeated_with_its_password(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "all.yaml").write_text(SPECS)
    env = {
        "DATABASE_URL": f"postgresql://codehub:{PASSWORD}@127.0.0.1:1/codehub",
        "REDIS_URL": f"redis://:{PASSWORD}@127.0.0.1:1/0",
        "S3_SECRET_KEY": PASSWORD,
    }
    ran = run_codehub(*words, cwd=tmp_path, env=env)
    assert ran.code != 0
    searched({"what it says": ran.out + ran.err}, PASSWORD)
