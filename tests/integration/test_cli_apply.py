"""`codehub plan`, `apply`, `status` and `history` on a real database, as separate processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from codehub.store.advisory import OURS, Lock
from tests.integration.command_line import run_codehub
from tests.integration.spec_files import document, write_specs, write_workspace

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.command_line import Ran

PIPES: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


class Place:
    """A directory with specs and the hub it is applied to."""

    def __init__(self, root: Path, url: str) -> None:
        self.root = root
        self.url = url

    def run(self, *words: str, stdin: str | None = None) -> Ran:
        return run_codehub(*words, cwd=self.root, env={"DATABASE_URL": self.url}, stdin=stdin)

    def names(self) -> dict[str, str]:
        """Name and desired state of every workspace."""
        return {row[0]: row[1] for row in self.rows("SELECT name, desired_state FROM workspaces")}

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url) as conn:
            return [tuple(row) for row in conn.execute(query.encode()).fetchall()]


@pytest.fixture
def place(tmp_path: Path, database_url: str) -> Place:
    write_specs(tmp_path, "api", "web")
    return Place(tmp_path, database_url)


def test_apply_writes_what_plan_showed(place: Place) -> None:
    planned = place.run("plan")
    assert planned.code == 0
    assert "4 to create" in planned.out
    assert place.names() == {}
    applied = place.run("apply", "--yes")
    assert applied.code == 0, applied.err
    assert "Revision 1 applied: workspaces 2 created" in applied.out
    assert place.names() == {"api": "RUNNING", "web": "RUNNING"}


def test_a_second_apply_writes_no_row(place: Place) -> None:
    place.run("apply", "--yes")
    before = place.rows("SELECT name, xmin::text, ctid::text FROM workspaces ORDER BY name")
    again = place.run("apply", "--yes")
    assert again.code == 0
    assert "Nothing to apply" in again.out
    after = place.rows("SELECT name, xmin::text, ctid::text FROM workspaces ORDER BY name")
    assert before == after
    assert place.rows("SELECT count(*) FROM spec_revisions") == [(1,)]


@pytest.mark.parametrize(
    ("change", "code"),
    [("nothing", 0), ("update", 2), ("everything removed", 4)],
)
def test_exit_code_tells_scripts_what_a_plan_holds(place: Place, change: str, code: int) -> None:
    place.run("apply", "--yes")
    if change == "update":
        write_workspace(place.root / "specs", "api", "{owner: alice, image: other}")
    if change == "everything removed":
        for name in ("api", "web"):
            (place.root / "specs" / f"{name}.yaml").unlink()
    assert place.run("plan", "--exit-code").code == code
    assert place.run("plan").code == 0


def test_nobody_to_ask_applies_nothing(place: Place) -> None:
    asked = place.run("apply", stdin="y\n")
    assert asked.code == 1
    assert "--yes" in asked.err
    assert place.names() == {}


def test_dry_run_applies_nothing(place: Place) -> None:
    dry = place.run("apply", "--dry-run")
    assert dry.code == 0
    assert "4 to create" in dry.out
    assert place.names() == {}


def test_an_unsafe_plan_needs_force(place: Place) -> None:
    place.run("apply", "--yes")
    (place.root / "specs" / "web.yaml").unlink()
    (place.root / "specs" / "api.yaml").unlink()
    refused = place.run("apply", "--yes")
    assert refused.code == 1
    assert "--force" in refused.err
    assert place.names() == {"api": "RUNNING", "web": "RUNNING"}
    forced = place.run("apply", "--yes", "--force")
    assert forced.code == 0, forced.err
    assert place.names() == {"api": "DELETED", "web": "DELETED"}


def test_a_bad_spec_changes_nothing_and_names_its_place(place: Place) -> None:
    place.run("apply", "--yes")
    write_workspace(place.root / "specs", "api", "{owner: alice, image: new}")
    write_workspace(place.root / "specs", "bad", "{owner: alcie, image: i}")
    refused = place.run("apply", "--yes")
    assert refused.code == 1
    assert "specs/bad.yaml:4:" in refused.err
    assert 'did you mean "alice"' in refused.err
    assert place.rows("SELECT image_ref FROM workspaces WHERE name = 'api'") == [("i",)]


def test_a_saved_plan_is_applied_as_it_was_made(place: Place) -> None:
    saved = place.run("plan", "--save", "p.json")
    assert saved.code == 0, saved.err
    shown = place.run("show", "p.json")
    assert "4 to create" in shown.out
    assert place.run("apply", "p.json", "--yes").code == 0
    assert sorted(place.names()) == ["api", "web"]


def test_a_stale_plan_is_refused_and_says_why(place: Place) -> None:
    place.run("apply", "--yes")
    write_workspace(place.root / "specs", "api", "{owner: alice, image: second}")
    place.run("plan", "--save", "p.json")
    place.run("apply", "--yes")
    stale = place.run("apply", "p.json", "--yes")
    assert stale.code == 1
    assert "stale" in stale.err
    assert place.run("show", "p.json").code == 0
    write_workspace(place.root / "specs", "api", "{owner: alice, image: third}")
    edited = place.run("apply", "p.json", "--yes")
    assert "specs" in edited.err
    assert place.rows("SELECT image_ref FROM workspaces WHERE name = 'api'") == [("second",)]


def test_a_targeted_plan_cannot_be_applied(place: Place) -> None:
    targeted = place.run("plan", "--target", "api", "--save", "p.json")
    assert targeted.code == 0, targeted.err
    assert "web" not in targeted.out
    refused = place.run("apply", "p.json", "--yes")
    assert refused.code == 1
    assert "--target api" in refused.err
    assert place.names() == {}


def test_plans_go_to_files_in_every_format(place: Place) -> None:
    for output, opening in (("json", "{"), ("md", "#"), ("html", "<!"), ("text", "")):
        ran = place.run("plan", "--format", output, "--out", f"plan.{output}")
        assert ran.code == 0, ran.err
        assert ran.out == ""
        assert (place.root / f"plan.{output}").read_text().lstrip().startswith(opening)
    assert json.loads((place.root / "plan.json").read_text())["summary"]["create"] == 4


def test_a_plan_without_a_hub_says_so(tmp_path: Path) -> None:
    write_specs(tmp_path, "api")
    ran = run_codehub("plan", cwd=tmp_path)
    assert ran.code == 0, ran.err
    assert "empty hub" in ran.out
    assert not (tmp_path / ".codehub").exists()


def test_status_and_history_tell_what_was_applied(place: Place) -> None:
    place.run("apply", "--yes")
    status = place.run("status")
    assert status.code == 0, status.err
    assert "specs/api.yaml:1" in status.out
    data = json.loads(place.run("status", "--format", "json").out)
    assert [each["name"] for each in data["workspaces"]] == ["api", "web"]
    assert place.run("status", "--format", "yaml").out.startswith("formatVersion: 1")
    missing = place.run("status", "apj")
    assert missing.code == 1
    assert 'did you mean "api"' in missing.err
    assert "2 created" in place.run("history").out
    history = json.loads(place.run("history", "--format", "json").out)
    assert [each["id"] for each in history["revisions"]] == [1]


def test_two_applies_at_once_never_mix(place: Place, tmp_path: Path) -> None:
    """Two directories that disagree on every workspace: one of them wins all of them."""
    names = [f"ws-{number}" for number in range(40)]
    for side in ("left", "right"):
        specs = write_specs(tmp_path / side)
        for name in names:
            write_workspace(specs, name, f"{{owner: alice, image: {side}}}")
    with ThreadPoolExecutor(2) as both:
        words = ("apply", "--yes", "--force")
        sides = [Place(tmp_path / side, place.url) for side in ("left", "right")]
        ran = list(both.map(lambda one: one.run(*words), sides))
    images = {row[0] for row in place.rows("SELECT image_ref FROM workspaces")}
    assert len(images) == 1
    for one in ran:
        assert one.code == 0 or "stale" in one.err or "another apply" in one.err, one.err


def test_an_interrupted_apply_writes_nothing_and_says_so(place: Place) -> None:
    """Interrupted while it waits for another loader: the one moment that can be held still."""
    env = {**os.environ, "DATABASE_URL": place.url}
    command = [sys.executable, "-m", "codehub", "apply", "--yes"]
    with psycopg.connect(place.url) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s, %s)", (OURS, int(Lock.LOADER)))
        with subprocess.Popen(command, cwd=place.root, env=env, **PIPES) as apply:
            wait_for_a_waiter(place)
            apply.send_signal(signal.SIGINT)
            _, said = apply.communicate(timeout=60)
    assert apply.returncode == 130
    assert "interrupted" in said
    assert "Traceback" not in said
    assert place.names() == {}


def wait_for_a_waiter(place: Place) -> None:
    query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    deadline = time.monotonic() + 60
    while place.rows(query) == [(0,)]:
        assert time.monotonic() < deadline, "nobody came to wait"
        time.sleep(0.05)


@pytest.mark.parametrize("words", [("plan",), ("apply", "--yes"), ("status",), ("history",)])
def test_a_database_that_is_down_is_told_clearly(tmp_path: Path, words: tuple[str, ...]) -> None:
    write_specs(tmp_path, "api")
    url = "postgresql://someone:s3cret@127.0.0.1:1/none"
    ran = run_codehub(*words, cwd=tmp_path, env={"DATABASE_URL": url})
    assert ran.code == 1
    assert "127.0.0.1" in ran.err
    assert "s3cret" not in ran.err + ran.out
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("words", [("plan",), ("apply", "--yes"), ("status",)])
def test_an_empty_database_says_what_to_run(
    tmp_path: Path, empty_database_url: str, words: tuple[str, ...]
) -> None:
    write_specs(tmp_path, "api")
    ran = run_codehub(*words, cwd=tmp_path, env={"DATABASE_URL": empty_database_url})
    assert ran.code == 1
    assert "codehub db upgrade" in ran.err


def test_db_upgrade_makes_an_empty_database_usable(tmp_path: Path, empty_database_url: str) -> None:
    write_specs(tmp_path, "api")
    hub = Place(tmp_path, empty_database_url)
    assert hub.run("db", "current").code == 1
    assert hub.run("db", "upgrade").code == 0
    assert "up to date" in hub.run("db", "upgrade").out
    assert hub.run("db", "current").code == 0
    assert hub.run("apply", "--yes").code == 0


def test_a_newer_database_is_left_alone(place: Place) -> None:
    with psycopg.connect(place.url) as conn:
        conn.execute("UPDATE alembic_version SET version_num = '9999'")
    for words in (("plan",), ("apply", "--yes"), ("db", "upgrade")):
        ran = place.run(*words)
        assert ran.code == 1, words
        assert "newer" in ran.err
    assert place.names() == {}


def test_secrets_stay_out_of_everything_printed(place: Place) -> None:
    canary = "canary-7f3a"
    spec = f"{{owner: alice, image: i, env: {{KEY: {canary}}}}}"
    write_workspace(place.root / "specs", "api", spec)
    hashed = f"{{passwordHash: '$argon2id$v=19$m=65536,t=3,p=4${canary}'}}"
    (place.root / "specs" / "carol.yaml").write_text(document("User", "carol", hashed))
    every = [
        place.run("plan", "--save", "p.json"),
        *(place.run("plan", "--format", each) for each in ("json", "md", "html")),
        place.run("apply", "--yes"),
        place.run("status", "--format", "json"),
        place.run("history", "--format", "json"),
    ]
    assert [one.err for one in every if one.code] == []
    printed = "".join(one.out + one.err for one in every) + (place.root / "p.json").read_text()
    assert canary not in printed


def test_an_embedded_hub_is_made_shared_and_stopped(open_path: Path) -> None:
    """Three commands at once on one embedded server; it is gone when the last one ends."""
    write_specs(open_path, "api")
    applied = run_codehub("apply", "--yes", cwd=open_path)
    assert applied.code == 0, applied.err
    with ThreadPoolExecutor(3) as several:
        ran = list(several.map(lambda _: run_codehub("status", cwd=open_path), range(3)))
    assert [one.code for one in ran] == [0, 0, 0], ran
    assert all("api" in one.out for one in ran)
    left = subprocess.run(
        ["pgrep", "-f", str(open_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert left.stdout.split() == []


def test_an_unknown_command_is_a_usage_error(tmp_path: Path) -> None:
    ran = run_codehub("aply", cwd=tmp_path)
    assert ran.code == 64
    assert 'did you mean "apply"' in ran.err
    assert run_codehub("plan", "--format", "xml", cwd=tmp_path).code == 64
    assert run_codehub("plan", "--as-of", "soon", cwd=tmp_path).code == 64


@pytest.mark.parametrize("words", [("--help",), ("validate", "--help"), ("plan", "--help")])
def test_help_is_light(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Help must not pay for the database, templates or tables."""
    heavy = ["sqlmodel", "sqlalchemy", "alembic", "psycopg", "jinja2", "ruamel", "docker", "boto3"]
    code = (
        "import sys; from codehub.cli.main import run; "
        f"run({list(words)!r}); print([m for m in {heavy!r} if m in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "Usage" in ran.stdout
    assert ran.stderr.strip() == "[]"
