"""`--wait` and `status --watch`: every change is shown, and the end is told by the exit code."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from codehub.model.states import DesiredState, IntentSource
from codehub.model.workspace import Intent
from tests.integration.command_line import run_codehub
from tests.integration.moving_hub import ASLEEP, AWAKE, NOBODY, STORED, Hub, leading
from tests.integration.spec_files import write_specs, write_workspace
from tests.integration.stored import number
from tests.make import NOW, workspace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUNNING, STANDBY = DesiredState.RUNNING, DesiredState.STANDBY


@pytest.fixture
def hub(database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Hub:
    return Hub(database_url, tmp_path, capsys)


@pytest.fixture
def led(database_url: str) -> Iterator[None]:
    yield from leading(database_url)


@pytest.mark.usefixtures("led")
def test_waiting_tells_every_change_and_ends_well(hub: Hub) -> None:
    hub.fill(workspace("api", desired=STANDBY, status=STORED))
    with hub.live("start", "api", "--wait") as command:
        command.until("api ARCHIVED, next RESTORING\n")
        begin = f"op_id = '{number(7)}', op_started_at = now()"
        hub.change(f"operation = 'RESTORING', {begin}")
        command.until("api RESTORING\n")
        for done in (100, 150, 500):
            hub.change(f"""op_progress = '{{"stage": "unpack", "bytes": {done}, "total": 1000}}'""")
        command.until("api RESTORING unpack 50%\n")
        hub.change("phase = 'STANDBY', operation = 'STARTING', op_progress = '{}'")
        command.until("api STARTING\n")
        hub.change("phase = 'RUNNING', operation = 'NONE'")
        assert command.end() == 0
    assert re.search(r"^\d\d:\d\d:\d\d api RUNNING$", command.text, re.MULTILINE)
    assert command.text.endswith("1 workspace settled.\n")
    assert command.err == ""


@pytest.mark.usefixtures("led")
def test_waiting_for_what_fails_exits_with_1_and_says_why(hub: Hub) -> None:
    hub.fill(
        workspace("api", desired=STANDBY, status=ASLEEP), workspace("web", number=2, status=AWAKE)
    )
    with hub.live("start", "api", "web", "--wait") as command:
        command.until("api STANDBY, next STARTING\n")
        hub.change("phase = 'ERROR', error_reason = 'Timeout', error_message = 'no answer'")
        assert command.end() == 1
    assert "api ERROR Timeout: no answer" in command.text
    assert "web RUNNING" in command.text
    assert "codehub: api is in ERROR: Timeout: no answer" in command.err
    assert "codehub recover api" in command.err


def test_a_wait_that_takes_too_long_names_what_is_not_done(hub: Hub) -> None:
    hub.fill(workspace("api", desired=STANDBY, status=ASLEEP))
    code, out, err = hub.run("start", "api", "--wait", "--timeout", "1s")
    assert code == 1
    assert "0 workspaces settled." in out
    assert NOBODY in err
    assert "codehub: not done after 1s: api (STANDBY)" in err
    assert "what was asked for is kept" in err
    assert hub.row("desired_state") == ("RUNNING",)


@pytest.mark.usefixtures("led")
def test_a_wait_that_somebody_leads_says_that_the_hub_goes_on(hub: Hub) -> None:
    hub.fill(workspace("api", desired=STANDBY, status=ASLEEP))
    code, _, err = hub.run("start", "api", "--wait", "--timeout", "1s")
    assert code == 1
    assert NOBODY not in err
    assert "the hub goes on" in err


def test_nothing_counts_as_settled_while_nobody_leads(hub: Hub) -> None:
    """The row says RUNNING; whether it does, nobody has looked."""
    hub.fill(workspace("api", status=AWAKE))
    code, out, err = hub.run("start", "api", "--wait", "--timeout", "1s")
    assert code == 1
    assert "0 workspaces settled." in out
    assert "codehub: not done after 1s: api (RUNNING)" in err
    assert "start 'codehub up' or 'codehub serve coordinator'" in err


def test_a_wait_goes_on_until_somebody_leads(hub: Hub, database_url: str) -> None:
    hub.fill(workspace("api", status=AWAKE))
    with hub.live("start", "api", "--wait") as command:
        command.until("api RUNNING\n")
        for _ in leading(database_url):
            assert command.end() == 0
    assert command.text.endswith("1 workspace settled.\n")


@pytest.mark.usefixtures("led")
def test_a_wait_for_what_is_refused_fails_after_the_others_are_done(hub: Hub) -> None:
    hub.fill(workspace("api", status=AWAKE))
    code, out, err = hub.run("start", "api", "nowhere", "--wait")
    assert code == 1
    assert "1 workspace settled." in out
    assert '"nowhere"' in err


@pytest.mark.usefixtures("led")
def test_held_by_a_limit_counts_as_settled_with_a_note(hub: Hub) -> None:
    late = Intent(RUNNING, IntentSource.SPEC, NOW)
    hub.fill(
        workspace("api", status=AWAKE),
        workspace("db", number=2, status=AWAKE),
        workspace("web", number=3, intent=late, status=ASLEEP),
    )
    code, out, _ = hub.run("start", "web", "--wait")
    assert code == 0
    assert "web: stays STANDBY, held by a limit: alice may run 2 at once" in out


def test_ending_a_wait_undoes_nothing(hub: Hub) -> None:
    hub.fill(workspace("api", desired=STANDBY, status=ASLEEP))
    with hub.live("start", "api", "--wait") as command:
        command.until("next STARTING\n")
        assert command.interrupt() == 130
    assert "nothing is undone; the hub goes on" in command.err
    assert "Traceback" not in command.err
    assert hub.row("desired_state") == ("RUNNING",)


@pytest.mark.usefixtures("led")
def test_apply_waits_for_what_it_touched_alone(hub: Hub) -> None:
    specs = write_specs(hub.root, "api")
    with hub.live("apply", "--yes", "--wait") as command:
        command.until("api PENDING, next PROVISIONING\n")
        hub.change("phase = 'RUNNING'")
        assert command.end() == 0, command.err
    hub.change("phase = 'ERROR', error_reason = 'Timeout'")
    write_workspace(specs, "web", "{owner: alice, image: i, desiredState: STANDBY}")
    with hub.live("apply", "--yes", "--wait") as command:
        command.until("web PENDING, next PROVISIONING\n")
        hub.change("phase = 'STANDBY'", "web")
        assert command.end() == 0, command.err
    assert "api ERROR" not in command.text


@pytest.mark.usefixtures("led")
def test_applying_the_same_again_waits_for_what_is_on_its_way(hub: Hub) -> None:
    write_specs(hub.root, "api")
    env = {"DATABASE_URL": hub.url}
    assert run_codehub("apply", "--yes", cwd=hub.root, env=env).code == 0
    again = run_codehub("apply", "--yes", "--wait", "--timeout", "1s", cwd=hub.root, env=env)
    assert again.code == 1
    assert "not done after 1s: api (PENDING)" in again.err
    hub.change("phase = 'RUNNING'")
    assert run_codehub("apply", "--yes", "--wait", cwd=hub.root, env=env).code == 0


def test_status_says_below_its_table_that_nobody_leads(hub: Hub, database_url: str) -> None:
    hub.fill(workspace("api", status=AWAKE))
    code, out, _ = hub.run("status")
    assert (code, out.splitlines()[-1][: len(NOBODY)]) == (0, NOBODY)
    json.loads(hub.run("status", "--format", "json")[1])
    for _ in leading(database_url):
        assert NOBODY not in hub.run("status")[1]


def test_watching_prints_a_line_for_each_change(hub: Hub) -> None:
    hub.fill(workspace("api", status=AWAKE))
    with hub.live("status", "--watch") as command:
        command.until("api RUNNING\n")
        hub.change("desired_state = 'STANDBY', desired_source = 'cli'")
        command.until("api RUNNING, next STOPPING\n")
        hub.fill(workspace("web", number=2, status=AWAKE))
        command.until("web RUNNING\n")
        assert command.interrupt() == 0
    assert NOBODY in command.text
    assert command.err == ""


@pytest.mark.usefixtures("led")
def test_watching_for_scripts_prints_json_lines(hub: Hub) -> None:
    hub.fill(workspace("api", status=AWAKE), workspace("web", number=2, status=AWAKE))
    with hub.live("status", "api", "--watch", "--format", "json") as command:
        command.until("\n")
        hub.change("desired_state = 'STANDBY', desired_source = 'cli'")
        command.until("\n")
        hub.change("phase = 'STANDBY'")
        command.until("\n")
        assert command.interrupt() == 0
    lines = [json.loads(line) for line in command.text.splitlines()]
    seen = [(each["name"], each["phase"], each["outcome"]) for each in lines]
    assert seen == [
        ("api", "RUNNING", "settled"),
        ("api", "RUNNING", "moving"),
        ("api", "STANDBY", "settled"),
    ]
    assert lines[1]["steps"] == ["STOPPING", "STANDBY"]


def test_watching_what_is_not_there(hub: Hub) -> None:
    hub.fill(workspace("api", status=AWAKE))
    code, _, err = hub.run("status", "apj", "--watch")
    assert code == 1
    assert 'did you mean "api"' in err


TERMINAL = {"TERM": "xterm", "COLUMNS": "60", "LINES": "20"}
CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.usefixtures("led")
def test_a_terminal_gets_a_block_drawn_in_place(hub: Hub) -> None:
    name = "a-name-as-long-as-names-may-be-forty-let"
    hub.fill(workspace(name, status=AWAKE), workspace("web", number=2, status=AWAKE))
    with hub.live("stop", name, "web", "--wait", env=TERMINAL, terminal=True) as command:
        command.until("next STOPPING")
        hub.change("phase = 'STANDBY'", name)
        hub.change("phase = 'STANDBY'", "web")
        assert command.end() == 0, command.err
    assert "2 workspaces settled." in command.text
    assert "\x1b[1A" in command.text, "it never went up to draw again"
    assert COLOUR.findall(command.text) == [], "NO_COLOR is set"
    lines = [CODES.sub("", line) for line in re.split(r"[\r\n]+", command.text)]
    assert max(len(line) for line in lines if "asked for" not in line) <= 60


@pytest.mark.usefixtures("led")
def test_watching_on_a_terminal_has_colour_unless_asked_not_to(hub: Hub) -> None:
    hub.fill(workspace("api", status=AWAKE))
    env = {**TERMINAL, "NO_COLOR": ""}
    with hub.live("status", "--watch", env=env, terminal=True) as command:
        command.until("RUNNING")
        hub.change("phase = 'STANDBY', desired_state = 'STANDBY'")
        command.until("STANDBY")
        assert command.interrupt() == 0
    assert COLOUR.findall(command.text) != []
    assert "\x1b[?25h" in command.text, "the cursor must be shown again"


@pytest.mark.usefixtures("led")
def test_a_plain_terminal_gets_lines(hub: Hub) -> None:
    hub.fill(workspace("api", status=AWAKE))
    with hub.live("start", "api", "--wait", env={"TERM": "dumb"}, terminal=True) as command:
        assert command.end() == 0
    assert "\x1b" not in command.text
    assert "1 workspace settled." in command.text


def test_waiting_on_an_embedded_hub(open_path: Path) -> None:
    """Asking and following share the server that the command itself started."""
    write_specs(open_path, "api")
    env = {"RUNTIME_ENABLED": "docker"}
    assert run_codehub("apply", "--yes", cwd=open_path, env=env).code == 0
    ran = run_codehub("stop", "api", "--wait", "--timeout", "1s", cwd=open_path, env=env)
    assert ran.code == 1
    assert "not done after 1s: api (PENDING)" in ran.err
    assert "api PENDING, next PROVISIONING" in ran.out
