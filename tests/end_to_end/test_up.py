"""`codehub up` on a new machine, from the first start over lost services to Ctrl-C and back."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.hub import PATIENCE, Hub, a_hub, until
from tests.end_to_end.tree import processes_of
from tests.end_to_end.visits import echo, request, visit

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(300)

STUBBORN = "command: [sh, -c, 'trap \"\" TERM; python -P -m codehub.demo; sleep 600']"
EXAMPLES = {"playground": "RUNNING", "payments-api": "STANDBY", "nightly-report": "STANDBY"}


@pytest.fixture(scope="module")
def examples() -> Iterator[Hub]:
    """A hub with the example specs, started for the first time."""
    with a_hub() as made:
        made.tell("init")
        began = time.monotonic()
        made.start()
        until(lambda: visit(made.port, "/").status == 200, "the page")
        served = time.monotonic()
        made.until_settled(**EXAMPLES)
        settled = time.monotonic()
        print(f"served after {served - began:.1f} s, settled {settled - served:.1f} s later")  # noqa: T201
        yield made


@pytest.fixture
def hub(examples: Hub) -> Hub:
    """The same one for every test, up and in its state."""
    examples.revive()
    examples.until_settled(**EXAMPLES)
    return examples


def workspace_pids(hub: Hub) -> set[int]:
    return {each.pid for each in processes_of(hub.data) if each.is_workspace}


def test_a_new_hub_serves_its_report_and_brings_the_examples_to_their_state(hub: Hub) -> None:
    rows = hub.until_settled(**EXAMPLES)
    assert {name: row.phase for name, row in rows.items()} == EXAMPLES

    def told() -> bool:
        return b"playground" in visit(hub.port, "/").body

    assert until(told, "the report names the workspaces")
    assert f"http://localhost:{hub.port}/w/playground/" in hub.said(hub.up)
    assert visit(hub.port, "/w/nobody/").status == 404


def test_the_login_link_stands_below_the_address_and_what_happens_below_both(hub: Hub) -> None:
    until(lambda: "playground" in hub.said(hub.up), "what happens")
    _, _, rest = hub.said(hub.up).partition("  Open ")
    _, invitation, link, *others = rest.splitlines()

    assert invitation.startswith("  Log in as ")
    assert link.startswith(f"  http://localhost:{hub.port}/login/link?code=")
    assert others[0] == ""
    assert "playground" in "".join(others[1:])


def test_a_workspace_answers_below_its_name_and_keeps_what_it_is_given(hub: Hub) -> None:
    page = visit(hub.port, "/w/playground/")
    assert (page.status, b"<html" in page.body) == (200, True)
    saved = request(hub.port, "PUT", "/w/playground/api/notes", "grüße".encode())
    assert saved.status == 204
    assert (hub.home("playground") / "notes.txt").read_text() == "grüße"
    assert request(hub.port, "GET", "/w/playground/api/notes").body.decode() == "grüße"


def test_a_websocket_goes_through(hub: Hub) -> None:
    said = ["hello", "x" * 70_000]
    assert asyncio.run(echo(hub.port, "/w/playground/echo", *said)) == said


def test_commands_work_beside_it(hub: Hub) -> None:
    assert "playground" in hub.tell("status").out
    assert "it runs" in hub.tell("explain", "playground").out
    assert "PROVISIONING" in hub.tell("events").out
    assert "playground" in hub.tell("logs", "playground").out
    checked = hub.tell("doctor").out
    ill = [line for line in checked.splitlines() if line.startswith(("warning", "problem"))]
    # What other hubs left on this machine is found, too.
    assert [line for line in ill if "forgotten data" not in line] == [], checked
    assert f":{hub.up.pid} leads" in checked


def test_a_second_one_on_the_same_data_is_refused(hub: Hub) -> None:
    refused = hub.run("up", "--data", str(hub.data), "--port", "0")
    assert refused.code == 1
    assert f"another 'codehub up' already runs on {hub.data}" in refused.err
    assert "--data" in refused.err
    assert visit(hub.port, "/").status == 200


@pytest.mark.parametrize("service", ["postgres", "redis"])
def test_a_service_that_dies_comes_back(hub: Hub, service: str) -> None:
    assert visit(hub.port, "/w/playground/").status == 200
    workspaces, find = workspace_pids(hub), getattr(hub, service)
    pid = find()
    os.kill(pid, signal.SIGKILL)

    served = [visit(hub.port, path).status for path in ("/", "/w/playground/")]
    until(lambda: find() not in (None, pid), f"another {service}")

    assert served == [200, 200], "what is known is served meanwhile"
    hub.tell("start", "payments-api", "--wait")
    until(lambda: visit(hub.port, "/w/payments-api/").status == 200, "its page")
    hub.tell("stop", "payments-api", "--wait")
    hub.until_settled(**EXAMPLES)
    assert workspace_pids(hub) == workspaces, "workspaces noticed nothing"
    assert "ended by itself, and is started again" in hub.said(hub.up)


def test_ctrl_c_stops_all_of_it_and_the_next_start_goes_on(hub: Hub) -> None:
    request(hub.port, "PUT", "/w/playground/api/notes", b"kept")
    assert hub.signal(signal.SIGINT) == 0
    assert hub.said(hub.up).endswith("1 stopped.\nStopped.\n")
    assert processes_of(hub.data) == []

    hub.start()

    rows = hub.until_settled(**EXAMPLES)
    assert {row.error_count for row in rows.values()} == {0}
    assert request(hub.port, "GET", "/w/playground/api/notes").body == b"kept"
    assert "the hub shuts down" in hub.tell("events").out


def test_ctrl_c_without_a_database_still_stops_all_of_it(hub: Hub) -> None:
    """Nothing can be noted without it, so it comes back first."""
    pid = hub.postgres()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    assert hub.signal(signal.SIGINT) == 0, hub.said(hub.up)

    assert hub.said(hub.up).endswith("1 stopped.\nStopped.\n")
    assert processes_of(hub.data) == []
    hub.start()
    assert {row.error_count for row in hub.until_settled(**EXAMPLES).values()} == {0}


def test_a_closed_terminal_stops_all_of_it_as_well(hub: Hub) -> None:
    """Whoever read along is gone, and then comes the hangup."""
    assert hub.signal() == 0
    listener, voice = os.pipe()
    process = hub.launch("up", "--data", str(hub.data), "--port", "0", output=voice)
    os.close(voice)
    assert os.read(listener, 1), "it speaks"
    os.close(listener)
    hub.until_settled(**EXAMPLES)

    process.send_signal(signal.SIGHUP)

    assert process.wait(timeout=PATIENCE) == 0
    assert processes_of(hub.data) == []
    hub.start()
    assert {row.error_count for row in hub.until_settled(**EXAMPLES).values()} == {0}


def test_where_the_port_is_taken_nothing_is_left_running(hub: Hub) -> None:
    assert hub.signal() == 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = hub.run("up", "--data", str(hub.data), "--port", port)
    assert refused.code == 1
    assert f"cannot listen on 127.0.0.1:{port}" in refused.err
    assert processes_of(hub.data) == []
    hub.start()


def test_a_stop_in_the_middle_of_the_first_start_leaves_nothing() -> None:
    with a_hub() as hub:
        hub.tell("init")
        process = hub.launch("up", "--data", str(hub.data), "--port", "0")
        until(lambda: (hub.data / "postgres").exists(), "the first thing it makes")

        process.send_signal(signal.SIGTERM)

        assert process.wait(timeout=PATIENCE) == 0, hub.said(process)
        assert hub.said(process).endswith("Stopped.\n")
        assert processes_of(hub.data) == []


def test_workspaces_run_on_where_that_was_asked_for() -> None:
    """By an option, or by a second Ctrl-C when one of them takes its time."""
    with a_hub() as hub:
        hub.declare(api=STUBBORN)
        hub.start("--detach-workspaces")
        hub.until_settled(api="RUNNING")
        before = workspace_pids(hub)

        assert hub.signal(signal.SIGTERM) == 0

        assert {each.pid for each in processes_of(hub.data)} == before, "they, and nobody else"
        hub.start()
        assert hub.until_settled(api="RUNNING")["api"].error_count == 0
        assert workspace_pids(hub) == before

        hub.up.send_signal(signal.SIGINT)
        until(lambda: "Ctrl-C again" in hub.said(hub.up), "the offer")
        assert hub.signal(signal.SIGINT) == 0
        assert hub.said(hub.up).endswith("the next 'codehub up' finds them.\nStopped.\n")
        left = processes_of(hub.data)
        assert {each.is_workspace for each in left} == {True}, left


def test_data_that_cannot_be_kept_there_is_one_clear_sentence() -> None:
    with a_hub() as hub:
        hub.tell("init")
        (hub.directory / "file").touch()
        refused = hub.run("up", "--data", "file/data", "--port", "0")
        assert refused.code == 1
        assert "cannot be kept in" in refused.err
        assert "--data" in refused.err
