"""The verbs that move workspaces: what they write, what they say, and what they refuse."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from codehub.model.states import DesiredState
from tests.integration.command_line import run_codehub
from tests.integration.moving_hub import (
    ASLEEP,
    AWAKE,
    BUSY,
    FAILED,
    LOST,
    NOBODY,
    STORED,
    Hub,
    leading,
)
from tests.integration.spec_files import write_specs
from tests.make import workspace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from codehub.model.workspace import Status, Workspace

RUNNING, STANDBY, ARCHIVED, DELETED = DesiredState


@pytest.fixture
def hub(database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Hub:
    return Hub(database_url, tmp_path, capsys)


@pytest.fixture
def led(database_url: str) -> Iterator[None]:
    yield from leading(database_url)


@pytest.mark.parametrize(
    ("words", "before", "desired", "line"),
    [
        (("start",), (STANDBY, ASLEEP), "RUNNING", "api: STANDBY → RUNNING asked for"),
        (("stop",), (RUNNING, AWAKE), "STANDBY", "api: RUNNING → STANDBY asked for"),
        (("archive",), (STANDBY, ASLEEP), "ARCHIVED", "api: STANDBY → ARCHIVED asked for"),
        (("restore",), (ARCHIVED, STORED), "STANDBY", "api: ARCHIVED → STANDBY asked for"),
        (("restore", "--start"), (ARCHIVED, STORED), "RUNNING", "ARCHIVED → RUNNING asked for"),
        (("start",), (RUNNING, AWAKE), "RUNNING", "api: already RUNNING"),
        (("start",), (RUNNING, ASLEEP), "RUNNING", "RUNNING was asked for already"),
        (("start",), (STANDBY, AWAKE), "RUNNING", "api: stays RUNNING"),
        (("stop",), (ARCHIVED, STORED), "ARCHIVED", "ARCHIVED is asked for already"),
        (("restore",), (RUNNING, AWAKE), "RUNNING", "RUNNING is asked for already"),
    ],
)
def test_each_verb_asks_for_its_state(
    hub: Hub, words: tuple[str, ...], before: tuple[DesiredState, Status], desired: str, line: str
) -> None:
    hub.fill(workspace("api", desired=before[0], status=before[1]))
    code, out, _ = hub.run(words[0], "api", *words[1:])
    assert code == 0
    assert line in out
    assert hub.row("desired_state") == (desired,)


def test_the_audit_says_who_and_why(hub: Hub) -> None:
    hub.fill(workspace("api", status=AWAKE))
    assert hub.run("stop", "api", "--reason", "no demo")[0] == 0
    assert hub.events() == [("desired", "RUNNING", "STANDBY", "cli", "no demo")]
    by, source = hub.row("desired_by, desired_source")
    assert by
    assert source == "cli"


def test_without_a_coordinator_it_says_that_nothing_moves(hub: Hub) -> None:
    hub.fill(workspace("api", status=AWAKE))
    code, _, err = hub.run("stop", "api")
    assert code == 0
    assert NOBODY in err


@pytest.mark.usefixtures("led")
def test_with_a_coordinator_it_says_how_to_follow(hub: Hub) -> None:
    hub.fill(workspace("api", status=AWAKE))
    code, out, err = hub.run("stop", "api")
    assert (code, err) == (0, "")
    assert "'codehub status --watch' follows it" in out


def test_one_refusal_does_not_keep_the_others(hub: Hub) -> None:
    hub.fill(
        workspace("api", status=AWAKE),
        workspace("busy", number=2, status=BUSY),
        workspace("web", number=3, status=AWAKE),
    )
    code, out, err = hub.run("stop", "api", "busy", "nowhere", "web", "api")
    assert code == 1
    assert out.count("STANDBY asked for") == 2
    assert "busy is busy: ARCHIVING is under way" in err
    assert 'there is no workspace "nowhere"' in err
    assert hub.row("desired_state", "web") == ("STANDBY",)


@pytest.mark.parametrize(
    ("words", "fields", "said"),
    [
        (("start", "api"), {"status": FAILED}, "codehub recover api"),
        (("start", "api"), {"status": ASLEEP, "suspend": True}, "suspended at specs/api.yaml:1"),
        (("start", "api"), {"desired": STANDBY, "declared_state": STANDBY}, "specs/api.yaml"),
        (("start", "api"), {"desired": RUNNING, "declared_state": STANDBY}, "specs/api.yaml"),
        (("stop", "api"), {"status": AWAKE, "pinned": True}, "pinned to RUNNING"),
        (("delete", "api"), {"status": AWAKE}, "declared at specs/api.yaml:1"),
        (("undelete", "api"), {"status": AWAKE}, "no spec declares api"),
        (("recover", "api"), {"status": AWAKE}, "not in ERROR"),
        (("recover", "api"), {"status": LOST}, "'codehub recover api --accept-empty'"),
        (("recover", "api", "--accept-empty"), {"status": FAILED}, "would throw it away"),
        (("delete", "api", "--discard-data", "--yes"), {"orphaned": True}, "not in ERROR"),
        (("override", "api", "RUNNING", "--for", "8h"), {}, "needs a reason"),
        (("touch", "apj"), {}, 'did you mean "api"'),
    ],
)
def test_a_refusal_says_what_to_do_and_changes_nothing(
    hub: Hub, words: tuple[str, ...], fields: dict[str, Any], said: str
) -> None:
    hub.fill(workspace("api", **fields))
    before = hub.row("xmin::text, ctid::text")
    code, _, err = hub.run(*words)
    assert code == 1
    assert said in err
    assert "Traceback" not in err
    assert hub.row("xmin::text, ctid::text") == before
    assert hub.events() == []


@pytest.mark.parametrize(
    "words",
    [
        ("start",),
        ("start", "api", "--timeout", "soon"),
        ("start", "api", "--timeout", "0s"),
        ("recover", "api", "--from-archive", "--accept-empty"),
        ("override", "api"),
        ("override", "api", "RUNNING"),
        ("override", "api", "DELETED", "--for", "8h"),
        ("override", "api", "RUNNING", "--for", "long"),
        ("override", "api", "RUNNING", "--clear"),
        ("status", "--watch", "--format", "yaml"),
        ("apply", "--timeout", "x"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(hub: Hub, words: tuple[str, ...]) -> None:
    hub.fill(workspace("api", status=FAILED))
    code, out, err = hub.run(*words)
    assert code == 64, (out, err)
    assert err.startswith("codehub: ")


def test_the_limit_of_the_settings_counts(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIMITS_MAX_RUNNING_PER_USER", "1")
    hub.fill(workspace("api", status=AWAKE), workspace("web", number=2, desired=STANDBY))
    code, _, err = hub.run("start", "web")
    assert code == 1
    assert "alice may run 1 at once" in err


def test_deleting_again_what_is_suspended_is_fine(hub: Hub) -> None:
    hub.fill(workspace("api", desired=DELETED, status=ASLEEP, suspend=True, orphaned=True))
    code, out, _ = hub.run("delete", "api")
    assert code == 0
    assert "DELETED was asked for already" in out


def test_an_orphan_is_deleted_and_says_so(hub: Hub) -> None:
    hub.fill(workspace("api", status=ASLEEP, desired=STANDBY, orphaned=True))
    code, out, _ = hub.run("delete", "api")
    assert code == 0
    assert "api: STANDBY → DELETED asked for" in out
    assert hub.row("desired_state") == ("DELETED",)


def stuck() -> Workspace:
    return workspace("api", desired=DELETED, status=FAILED, orphaned=True)


def test_discarding_a_home_asks_unless_told_not_to(hub: Hub) -> None:
    hub.fill(stuck())
    asked = run_codehub(
        "delete",
        "api",
        "--discard-data",
        cwd=hub.root,
        env={"DATABASE_URL": hub.url},
        stdin="api\n",
    )
    assert asked.code == 1
    assert "--yes" in asked.err
    assert hub.row("recover_requested") == (None,)
    assert hub.run("delete", "api", "--discard-data", "--yes")[0] == 0
    assert hub.row("recover_requested") == ("discard-data",)


@pytest.mark.parametrize(("typed", "code"), [("api", 0), ("web", 1)])
def test_discarding_a_home_wants_its_name_typed(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    hub.fill(stuck())
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.prompt", lambda text: typed)
    assert hub.run("delete", "api", "--discard-data")[0] == code
    assert hub.row("recover_requested") == (("discard-data" if code == 0 else None),)


@pytest.mark.parametrize(
    ("option", "mode"),
    [("--from-archive", "from-archive"), ("--accept-empty", "accept-empty")],
)
def test_after_a_loss_a_person_chooses(hub: Hub, option: str, mode: str) -> None:
    hub.fill(workspace("api", status=LOST))
    code, out, _ = hub.run("recover", "api", option)
    assert code == 0
    assert "recovery" in out
    assert hub.row("recover_requested") == (mode,)


def test_an_override_is_set_and_ended(hub: Hub) -> None:
    hub.fill(workspace("api", desired=RUNNING, declared_state=STANDBY, status=ASLEEP))
    code, out, _ = hub.run("override", "api", "running", "--for", "8h", "--reason", "demo")
    assert code == 0
    assert "api: may go up to RUNNING until " in out
    assert "it goes from STANDBY to RUNNING" in out
    assert hub.row("override_state, override_reason") == ("RUNNING", "demo")
    assert hub.row("override_until > now() + interval '7 hours 50 minutes'") == (True,)
    code, out, _ = hub.run("override", "api", "--clear")
    assert (code, out) == (0, "api: the override is over; it stays STANDBY\n")
    assert "no override to end" in hub.run("override", "api", "--clear")[1]


def test_touching_counts_as_activity(hub: Hub) -> None:
    hub.fill(workspace("api", status=AWAKE), workspace("web", number=2, status=AWAKE))
    code, out, err = hub.run("touch", "api", "web")
    assert (code, err) == (0, "")
    assert "api: idle time counts from now" in out
    assert hub.row("last_access_source", "web") == ("touch",)
    assert hub.events() == [("touch", "", "active", "cli", "")] * 2


def test_undelete_brings_back_what_the_specs_declare(hub: Hub) -> None:
    write_specs(hub.root, "api")
    env = {"DATABASE_URL": hub.url}
    assert run_codehub("apply", "--yes", cwd=hub.root, env=env).code == 0
    hub.change(
        "phase = 'DELETED', deleted_at = now(), desired_state = 'DELETED', archive_key = 'k'"
    )
    code, out, _ = hub.run("undelete", "api")
    assert (code, out) == (0, "api: is deleted no more; RUNNING asked for\n")
    assert hub.row("phase, desired_state") == ("ARCHIVED", "RUNNING")


def test_help_of_these_verbs_is_light() -> None:
    """They must not pay for the database or for drawing before they run."""
    code = (
        "import sys; from codehub.cli.main import run; run(['start', '--help']);"
        "print([m for m in ('psycopg', 'rich', 'pydantic_settings') if m in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=110, check=True
    )
    assert ran.stdout.splitlines()[-1] == "[]"
