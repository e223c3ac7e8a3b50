"""What goes wrong with a command, a port or a process, and what a person reads then."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from codehub.core.advise import advise
from codehub.model.decision import Drain, Rules
from codehub.model.states import DesiredState, ErrorReason, Operation, Phase
from codehub.model.workspace import UpdatePolicy
from tests.coordination.hub import QUICK
from tests.coordination.machine import (
    SERVE,
    Machine,
    declared,
    in_error,
    machine,
    patient,
    python,
    shell,
)
from tests.integration.stored import apply
from tests.make import spec_set

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from codehub.model.workspace import Workspace

ENDED = "its command ended with exit code 137, and nobody stopped it"
pytestmark = pytest.mark.anyio


@pytest.fixture
async def hub(database_url: str, tmp_path: Path) -> AsyncIterator[Machine]:
    async with machine(database_url, tmp_path) as made:
        yield made


def environment(pid: int | None) -> dict[str, str]:
    text = Path(f"/proc/{pid}/environ").read_bytes().decode()
    return dict(entry.split("=", 1) for entry in text.split("\0") if entry)


# The command


async def test_a_command_that_is_not_there(hub: Machine) -> None:
    await hub.world.declare(declared(command=("code-servr", "--auth", "none")))
    async with hub.world.term() as term:
        await term.settle()
        api = await hub.look()
        assert (api.status.phase, api.status.error_reason) == (
            Phase.ERROR,
            ErrorReason.RETRY_EXCEEDED,
        )
        assert api.status.error_message == 'the command "code-servr" was not found'
        assert advise(api) == (
            "remove the cause ('codehub logs api' may show it), then 'codehub recover api'"
        )
        await hub.world.declare(declared())
        await hub.recover()
        await term.settle()
    assert (await hub.look()).status.phase is Phase.RUNNING


async def test_a_command_that_ends_at_once_is_tried_with_pauses_and_then_given_up(
    hub: Machine,
) -> None:
    script = "echo starting; echo 'no such table: users' >&2; exit 3"
    await hub.world.declare(declared(command=shell(script)))
    async with patient(hub.world).term() as term:
        await term.settle()
        first = await hub.look()
        assert (first.status.operation, first.status.error_count) == (Operation.STARTING, 1)
        assert first.status.error_reason is ErrorReason.ACTION_FAILED
        assert first.status.retry_at is not None
        assert first.status.observed_at is not None
        assert first.status.retry_at - first.status.observed_at >= timedelta(minutes=29)
    async with hub.world.term() as term:
        await hub.world.conn.execute("UPDATE workspaces SET retry_at = now()")
        await term.settle()
    api = await hub.look()
    assert (api.status.phase, api.status.error_reason, api.status.error_count) == (
        Phase.ERROR,
        ErrorReason.RETRY_EXCEEDED,
        4,
    )
    assert api.status.error_message == (
        "the command ended with exit code 3 before its port answered: "
        "starting | no such table: users"
    )
    assert hub.home(api).is_dir(), "the home stays"
    events = await (
        await hub.world.conn.execute(
            "SELECT new FROM workspace_events WHERE kind = 'error' ORDER BY id"
        )
    ).fetchall()
    assert [row["new"] for row in events] == ["ActionFailed"] * 3 + ["RetryExceeded"]


async def test_a_secret_that_it_says_before_it_ends_is_not_told(hub: Machine) -> None:
    (hub.path / "secrets").mkdir()
    (hub.path / "secrets" / "token").write_text("canary-123456\n")
    script = 'echo "cannot log in with $TOKEN"; exit 1'
    await hub.world.declare(declared(command=shell(script), secret_env={"TOKEN": "token"}))
    async with hub.world.term(secrets=hub.path / "secrets") as term:
        await term.settle()
    api = await hub.look()
    assert api.status.error_message is not None
    assert "cannot log in with ***" in api.status.error_message
    rows = await (await hub.world.conn.execute("SELECT * FROM workspace_events")).fetchall()
    assert "canary" not in f"{api} {rows}"


async def test_a_secret_that_is_missing_is_named(hub: Machine) -> None:
    (hub.path / "secrets").mkdir()
    await hub.world.declare(declared(secret_env={"TOKEN": "payments-token"}))
    async with hub.world.term(secrets=hub.path / "secrets") as term:
        await term.settle()
        api = await hub.look()
        assert api.status.error_message == 'there is no secret "payments-token"'
        assert hub.pid(api) is None
        (hub.path / "secrets" / "payments-token").write_text("s3cr3t\n")
        await hub.recover()
        await term.settle()
        assert environment(hub.pid(api))["TOKEN"] == "s3cr3t"


async def test_a_hub_without_secrets_says_so(hub: Machine) -> None:
    await hub.world.declare(declared(secret_env={"TOKEN": "payments-token"}))
    async with hub.world.term() as term:
        await term.settle()
    assert (await hub.look()).status.error_message == (
        "this hub has no secrets directory, and the workspace needs: payments-token"
    )


# The port


def has_spoken(hub: Machine, workspace: Workspace) -> bool:
    log = hub.data / "logs" / f"{workspace.id}.log"
    return log.exists() and b"database" in log.read_bytes()


async def test_a_port_that_never_opens(hub: Machine) -> None:
    await hub.world.declare(declared(command=shell("echo waits for the database; sleep 600")))
    world = replace(hub.world, rules=replace(QUICK, starting=timedelta(minutes=1)))
    async with world.term() as term:
        starting = await hub.until(term, partial(has_spoken, hub), "the process runs")
        (hub.home(starting) / "notes.txt").write_text("mine")
        await hub.world.conn.execute(
            "UPDATE workspaces SET op_started_at = op_started_at - interval '1 hour'"
        )
        late = await hub.until(term, in_error, "it is too late")
        assert late.status.error_reason is ErrorReason.TIMEOUT
        assert late.status.error_message == (
            "its port did not answer within 60 s: waits for the database"
        )
        assert advise(late) == (
            "see what it said last with 'codehub logs api', then 'codehub recover api'"
        )
        await term.settle()
        assert hub.pid(late) is None, "what never answered is ended"
        assert (hub.home(late) / "notes.txt").read_text() == "mine"
        await hub.world.declare(declared())
        await hub.recover()
        await term.settle()
    api = await hub.look()
    assert api.status.phase is Phase.RUNNING
    assert api.status.home_store_key == late.status.home_store_key


# A running workspace


async def test_one_that_is_killed_by_hand_is_started_again(hub: Machine) -> None:
    await hub.world.declare(declared())
    async with hub.world.term() as term:
        await term.settle()
        before = await hub.look()
        await hub.kill(before)
        await term.settle()
        after = await hub.look()
        assert (after.status.phase, after.status.error_count) == (Phase.RUNNING, 1)
        assert hub.pid(after) is not None
        assert after.status.home_store_key == before.status.home_store_key
    async with replace(hub.world, rules=replace(QUICK, settled=timedelta(0))).term() as term:
        await term.settle()
    assert (await hub.look()).status.error_count == 0, "it has run well since"


async def test_one_that_is_killed_waits_before_it_is_started_again(hub: Machine) -> None:
    await hub.world.declare(declared())
    async with patient(hub.world).term() as term:
        await term.settle()
        await hub.kill(await hub.look())
        await term.settle()
        api = await hub.look()
        assert (api.status.phase, api.status.operation) == (Phase.STANDBY, Operation.NONE)
        assert api.status.error_message == ENDED
        assert api.status.retry_at is not None
        await hub.world.conn.execute("UPDATE workspaces SET retry_at = now()")
        await term.settle()
    assert (await hub.look()).status.phase is Phase.RUNNING


async def test_one_that_dies_again_and_again_ends_in_error(hub: Machine) -> None:
    await hub.world.declare(declared())
    async with hub.world.term() as term:
        for _ in range(4):
            await term.settle()
            await hub.kill(await hub.look())
        await term.settle()
        api = await hub.look()
        assert (api.status.phase, api.status.error_reason) == (
            Phase.ERROR,
            ErrorReason.RETRY_EXCEEDED,
        )
        assert api.status.error_message == ENDED
        assert hub.home(api).is_dir()
        await hub.recover()
        await term.settle()
    assert (await hub.look()).status.phase is Phase.RUNNING


ANSWERS_ONCE = """
import os, socket, sys
server = socket.create_server(("127.0.0.1", int(os.environ["PORT"])))
server.accept()
print("the token is", os.environ["TOKEN"], flush=True)
sys.exit("no more to do")
"""


async def test_one_that_answers_and_ends_is_not_started_for_ever(hub: Machine) -> None:
    command = python(ANSWERS_ONCE)
    await hub.world.declare(declared(command=command, env={"TOKEN": "not-to-be-told"}))
    async with hub.world.term() as term:
        api = await hub.until(term, in_error, "it is given up")
    said = api.status.error_message or ""
    assert said.startswith("its ")
    assert said.endswith("the token is *** | no more to do")
    assert (api.status.error_reason, api.status.error_count) == (ErrorReason.RETRY_EXCEEDED, 4)
    assert hub.pid(api) is None


# The specs


async def renew(hub: Machine, *, now: bool = False, **fields: Any) -> None:
    """The spec of `api` changes; without `now` it waits for the people in it."""
    each = declared(**fields)
    await apply(hub.world.conn, spec_set(each, digest=repr(each)), immediately=now)


async def seen_working(hub: Machine, ago: timedelta) -> None:
    await hub.world.conn.execute("UPDATE workspaces SET last_access_at = now() - %s", (ago,))


async def test_an_immediate_update_restarts_it_when_nobody_works_in_it(hub: Machine) -> None:
    await renew(hub, update=UpdatePolicy.IMMEDIATE, env={"COLOUR": "red"})
    world = replace(hub.world, rules=Rules(drain=Drain()))
    async with world.term() as term:
        await term.settle()
        red = await hub.look()
        before = hub.pid(red)
        await seen_working(hub, timedelta(seconds=10))
        await renew(hub, update=UpdatePolicy.IMMEDIATE, env={"COLOUR": "blue"})
        await term.settle()
        assert hub.pid(red) == before, "somebody works in it"
        await seen_working(hub, timedelta(minutes=6))
        await term.settle()
        blue = await hub.look()
        assert environment(hub.pid(blue))["COLOUR"] == "blue"
        assert blue.status.home_store_key == red.status.home_store_key
        assert (blue.status.phase, blue.status.error_count) == (Phase.RUNNING, 0)


async def test_an_update_at_the_next_start_leaves_it_running(hub: Machine) -> None:
    await renew(hub, env={"COLOUR": "red"})
    async with hub.world.term() as term:
        await term.settle()
        before = hub.pid(await hub.look())
        await renew(hub, now=True, env={"COLOUR": "blue"})
        await term.settle()
        assert hub.pid(await hub.look()) == before
        for state in (DesiredState.STANDBY, DesiredState.RUNNING):
            await hub.world.want("api", state)
            await term.settle()
        assert environment(hub.pid(await hub.look()))["COLOUR"] == "blue"


async def test_a_suspended_workspace_stays_as_it_is(hub: Machine) -> None:
    await hub.world.declare(declared())
    async with hub.world.term() as term:
        await term.settle()
        before = hub.pid(await hub.look())
        await hub.world.declare(declared(suspend=True))
        await hub.world.want("api", DesiredState.ARCHIVED)
        await term.settle()
        held = await hub.look()
        assert hub.pid(held) == before
        assert held.status.phase is Phase.RUNNING
        await hub.kill(held)
        await term.settle()
        ended = await hub.look()
        assert (ended.status.phase, ended.status.error_count) == (Phase.STANDBY, 0)
        assert hub.home(ended).is_dir()
        await hub.world.declare(declared())
        await term.settle()
    assert (await hub.look()).status.phase is Phase.ARCHIVED


async def test_an_override_holds_while_it_lasts(hub: Machine) -> None:
    await hub.world.declare(declared(declared_state=DesiredState.STANDBY))
    await hub.world.want("api", DesiredState.RUNNING)
    async with hub.world.term() as term:
        await term.settle()
        assert hub.pid(await hub.look()) is None
        await hub.world.conn.execute(
            "UPDATE workspaces SET override_state = 'RUNNING', override_reason = 'a demo',"
            " override_until = now() + interval '1 hour'"
        )
        await term.settle()
        assert hub.pid(await hub.look()) is not None
        await hub.world.conn.execute("UPDATE workspaces SET override_until = now()")
        await term.settle()
        over = await hub.look()
        assert (hub.pid(over), over.status.phase) == (None, Phase.STANDBY)


async def test_a_renamed_workspace_keeps_its_home_and_goes_on(hub: Machine) -> None:
    await hub.world.declare(declared())
    async with hub.world.term() as term:
        await term.settle()
        before = await hub.look()
        pid = hub.pid(before)
        (hub.home(before) / "notes.txt").write_text("mine")
        await hub.world.declare(declared("payments", renamed_from="api"))
        await term.settle()
        after = await hub.look("payments")
        assert (after.id, hub.pid(after)) == (before.id, pid)
        assert (hub.home(after) / "notes.txt").read_text() == "mine"
        assert after.status.phase is Phase.RUNNING


async def test_a_workspace_sees_its_own_port_and_path_and_nothing_of_the_hub(
    hub: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://canary")
    await hub.world.declare(declared(command=SERVE))
    async with hub.world.term() as term:
        await term.settle()
        api: Workspace = await hub.look()
        seen = environment(hub.pid(api))
    assert seen["CODEHUB_BASE_PATH"] == "/w/api/"
    assert seen["HOME"] == str(hub.home(api))
    assert "canary" not in str(seen)
    assert os.environ["DATABASE_URL"] == "postgres://canary"
