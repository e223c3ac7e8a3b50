"""Who belongs to a workspace, and who never does: recycled pids, strays, lost records."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from codehub.adapters.process import spawn, start, stop
from codehub.adapters.process.find import Mark, Process, Table, read_boot_id, read_process
from codehub.adapters.process.records import Leader, Record
from codehub.adapters.process.stop import send
from codehub.errors import ActionFailed, VolumeInUse
from tests.contract.runtime_world import (
    LONG,
    answers,
    eventually,
    is_running,
    leads,
    new_volume,
    request_for,
    seen,
    started,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codehub.model.runtime import VolumeRef
    from tests.contract.process_world import ProcessWorld

pytestmark = pytest.mark.anyio

STRAY = "echo $$ > $HOME/stray; exec sleep 600"


@contextmanager
def bystander(*command: str) -> Iterator[int]:
    """A process that belongs to nobody we know."""
    with subprocess.Popen(command or ("sleep", "600")) as process:
        try:
            yield process.pid
        finally:
            process.kill()


@contextmanager
def bystanders_without_leader() -> Iterator[tuple[int, int]]:
    """A session whose leader has ended, as every daemon's has, and one who is in it."""
    daemonize = ["setsid", "sh", "-c", "sleep 600 >&- & echo $!"]
    with subprocess.Popen(daemonize, stdout=subprocess.PIPE, text=True) as leader:
        member = int(leader.communicate()[0])
    try:
        yield leader.pid, member
    finally:
        os.kill(member, signal.SIGKILL)


def lives(pid: int) -> bool:
    process = read_process(pid)
    return process is not None and process.alive


async def is_named(pid: int, name: str) -> bool:
    """Whether it has become this program."""
    return await asyncio.to_thread(Path(f"/proc/{pid}/comm").read_text) == f"{name}\n"


async def stray_of(world: ProcessWorld, ref: VolumeRef) -> int:
    """The pid that a STRAY has written down."""

    async def written() -> bool:
        return (await world.read(ref, "stray") or "").endswith("\n")

    await eventually(written, "the stray runs")
    return int(await world.read(ref, "stray") or "")


def name_as_leader(world: ProcessWorld, workspace_id: UUID, leader: Leader) -> None:
    world.records.write(replace(world.record(workspace_id), leader=leader))


async def test_a_recycled_pid_is_somebody_else(process_world: ProcessWorld) -> None:
    runtime, request = await started(process_world)
    await process_world.kill(request.workspace_id)
    with bystander() as pid:
        process = read_process(pid)
        assert process is not None
        earlier = Leader(pid, process.start_ticks - 1, read_boot_id())
        name_as_leader(process_world, request.workspace_id, earlier)

        assert not await is_running(runtime, request.workspace_id)
        assert await runtime.upstream(request.workspace_id) is None
        assert await runtime.stats(request.workspace_id) is None
        await runtime.stop(request.workspace_id, timedelta(0))

        assert lives(pid)


async def test_a_pid_of_before_the_reboot_is_somebody_else(process_world: ProcessWorld) -> None:
    runtime, request = await started(process_world)
    await process_world.kill(request.workspace_id)
    with bystander() as pid:
        process = read_process(pid)
        assert process is not None
        before = Leader(pid, process.start_ticks, str(uuid4()))
        name_as_leader(process_world, request.workspace_id, before)

        await runtime.start(replace(request, op_id=uuid4()), leads)
        await runtime.stop(request.workspace_id, LONG)

        assert lives(pid)


def test_a_signal_goes_only_to_the_process_that_was_meant() -> None:
    with bystander() as pid:
        process = read_process(pid)
        assert process is not None

        send(replace(process, start_ticks=process.start_ticks - 1), signal.SIGUSR1)
        send(process, signal.SIGTERM)

        # Of two signals that wait, the lower number is delivered first: SIGUSR1, had it been sent.
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        assert ended.si_status == signal.SIGTERM


async def test_another_hubs_processes_are_not_ours(process_world: ProcessWorld) -> None:
    runtime, request = await started(process_world)
    mark = f"CODEHUB_PROCESS=other-hub/{request.workspace_id}/{request.op_id}"
    with bystander("env", mark, "sleep", "600") as pid:
        await runtime.stop(request.workspace_id, LONG)

        assert lives(pid)
        assert (await runtime.list()).containers == ()


async def test_the_workspace_has_its_own_session(process_world: ProcessWorld) -> None:
    _, request = await started(process_world)
    pid = process_world.leader(request.workspace_id)

    process = read_process(pid)

    assert process is not None
    assert process.session == pid
    assert os.getpgid(pid) == pid


@pytest.mark.parametrize(
    "escape",
    [
        pytest.param("setsid sh -c '{}' &", id="own session"),
        pytest.param("(setsid sh -c '{}' &) &", id="own session, parent gone"),
        pytest.param("env -i HOME=$HOME setsid sh -c '{}' &", id="no marker, own session"),
        pytest.param("(env -i HOME=$HOME sh -c '{}' &) &", id="no marker, parent gone"),
    ],
)
async def test_children_are_found_wherever_they_went(
    process_world: ProcessWorld, escape: str
) -> None:
    script = f"{escape.format(STRAY)} exec {process_world.serve}"
    runtime, request = await started(process_world, script)
    stray = await stray_of(process_world, request.volume)

    try:
        assert stray in {each.pid for each in process_world.members(request.workspace_id)}
        await runtime.stop(request.workspace_id, LONG)
        assert not lives(stray)
    finally:
        if lives(stray):
            os.kill(stray, signal.SIGKILL)


async def test_a_stopped_child_gets_its_notice_too(process_world: ProcessWorld) -> None:
    script = f"(trap 'echo bye > $HOME/bye; exit' TERM; {STRAY.replace('exec ', '')} & wait) &"
    runtime, request = await started(process_world, f"{script} exec {process_world.serve}")
    await stray_of(process_world, request.volume)
    for each in process_world.members(request.workspace_id):
        os.kill(each.pid, signal.SIGSTOP)

    await runtime.stop(request.workspace_id, LONG)

    assert await process_world.read(request.volume, "bye") == "bye\n"


async def test_children_that_outlive_their_leader_still_use_the_home(
    process_world: ProcessWorld,
) -> None:
    script = f"setsid sh -c '{STRAY}' & exec {process_world.serve}"
    runtime, request = await started(process_world, script)
    stray = await stray_of(process_world, request.volume)
    await process_world.kill(request.workspace_id)

    container = await seen(runtime, request.workspace_id)
    assert container is not None
    assert not container.running, "without its leader it does not run"
    with pytest.raises(VolumeInUse):
        await runtime.delete_volume(request.volume)
    await runtime.start(replace(request, op_id=uuid4()), leads)

    assert not lives(stray), "the next start begins alone in its home"


async def test_what_outlives_its_leader_without_a_marker_still_uses_the_home(
    process_world: ProcessWorld,
) -> None:
    script = f"env -i HOME=$HOME sh -c '{STRAY}' & exec {process_world.serve}"
    runtime, request = await started(process_world, script)
    stray = await stray_of(process_world, request.volume)
    await process_world.kill(request.workspace_id)

    try:
        await runtime.list()
        assert [each.pid for each in process_world.members(request.workspace_id)] == [stray]
        with pytest.raises(VolumeInUse):
            await runtime.require_unused(request.volume)
        await runtime.stop(request.workspace_id, LONG)

        assert not lives(stray)
        await runtime.delete_volume(request.volume)
    finally:
        if lives(stray):
            os.kill(stray, signal.SIGKILL)


async def test_nothing_of_a_dead_leader_runs_beside_the_next_one(
    process_world: ProcessWorld,
) -> None:
    script = f"env -i HOME=$HOME sh -c '{STRAY}' & exec {process_world.serve}"
    runtime, request = await started(process_world, script)
    stray = await stray_of(process_world, request.volume)
    await process_world.kill(request.workspace_id)
    plain = request_for(process_world, request.volume, f"exec {process_world.serve}")

    try:
        await process_world.open().start(plain, leads)

        assert not lives(stray)
        (member,) = process_world.members(request.workspace_id)
        assert member.pid == process_world.leader(request.workspace_id)
        await runtime.stop(request.workspace_id, LONG)
    finally:
        if lives(stray):
            os.kill(stray, signal.SIGKILL)


async def test_a_session_of_strangers_is_left_alone_after_its_leader_too(
    process_world: ProcessWorld,
) -> None:
    runtime, request = await started(process_world)
    await process_world.kill(request.workspace_id)
    await runtime.list()
    assert process_world.record(request.workspace_id).deserted, "nobody was left, and that is known"
    with bystanders_without_leader() as (session, stranger):
        began = process_world.look().processes[1].start_ticks
        name_as_leader(process_world, request.workspace_id, Leader(session, began, read_boot_id()))

        assert process_world.members(request.workspace_id) == ()
        await runtime.stop(request.workspace_id, timedelta(0))

        assert lives(stranger)


def process(pid: int, *, session: int = 40, began: int = 700) -> Process:
    return Process(pid, 1, session, began, 0, 0, alive=True)


def first(*, began: int) -> Process:
    """The first process of the container that the hub runs in, or of the machine."""
    return process(1, session=1, began=began)


def session_of_40(*others: Process, me: int = 99) -> list[int]:
    """Who belongs to a leader that had this pid, began at tick 500, and has ended."""
    there = {each.pid: each for each in (process(50), process(60, session=60), *others)}
    myself = there.pop(me, process(me, session=me))
    leader = Leader(40, 500, "this boot")
    record = Record(uuid4(), uuid4(), "t", "d", "v", 9, datetime.now(UTC), leader=leader)
    members = Table("this boot", there, myself).members(record.workspace_id, record)
    return [each.pid for each in members]


@pytest.mark.parametrize(
    ("others", "me", "ours"),
    [
        pytest.param([], 99, [50], id="its leader is gone"),
        pytest.param([process(40)], 99, [], id="a stranger leads it now"),
        pytest.param([process(40)], 40, [], id="the hub itself leads it now"),
        pytest.param([first(began=499)], 99, [50], id="in this container"),
        pytest.param([first(began=501)], 99, [], id="in the container before"),
        pytest.param([first(began=501)], 1, [], id="in the one before, the hub is first"),
    ],
)
def test_whose_a_session_is_without_its_leader(
    others: list[Process], me: int, ours: list[int]
) -> None:
    assert session_of_40(*others, me=me) == ours


@pytest.mark.parametrize(
    "use", ["cd {} && exec sleep 600", "cd {}/a && exec sleep 600", "exec sleep 600 >> {}/a/file"]
)
async def test_a_home_that_strangers_use_is_neither_archived_nor_moved_away(
    process_world: ProcessWorld, use: str
) -> None:
    runtime = process_world.open()
    ref, other = await new_volume(runtime), await new_volume(runtime)
    (process_world.home(ref) / "a").mkdir()

    with bystander("sh", "-c", use.format(process_world.home(ref))) as pid:
        await eventually(lambda: is_named(pid, "sleep"), "it is there")
        for action in (runtime.require_unused(ref), runtime.delete_volume(ref)):
            with pytest.raises(VolumeInUse, match=rf"sleep \(pid {pid}\)"):
                await action
        await runtime.delete_volume(other)
        assert lives(pid)

    await runtime.require_unused(ref)
    await runtime.delete_volume(ref)
    assert (await runtime.list()).volumes == ()


async def test_who_only_reads_in_a_home_does_not_keep_it(process_world: ProcessWorld) -> None:
    runtime = process_world.open()
    ref = await new_volume(runtime)
    await process_world.write(ref, "file", "data")

    with bystander("sh", "-c", f"exec sleep 600 < {process_world.home(ref)}/file") as pid:
        await eventually(lambda: is_named(pid, "sleep"), "it is there")
        await runtime.require_unused(ref)
        await runtime.delete_volume(ref)
        assert lives(pid)


async def test_a_lost_record_leaves_a_stray_that_is_seen_and_ended(
    process_world: ProcessWorld,
) -> None:
    runtime, request = await started(process_world)
    pid = process_world.leader(request.workspace_id)
    process_world.records.path(request.workspace_id).unlink()

    container = await seen(runtime, request.workspace_id)
    assert container is not None
    assert (container.running, container.op_id) == (False, request.op_id)
    with pytest.raises(VolumeInUse):
        await runtime.delete_volume(request.volume)
    await runtime.stop(request.workspace_id, LONG)

    assert not lives(pid)
    assert (await runtime.list()).containers == ()


async def test_a_damaged_record_hides_nobody_and_is_cleaned_up(process_world: ProcessWorld) -> None:
    runtime, request = await started(process_world)
    other = request_for(process_world, await new_volume(runtime), f"exec {process_world.serve}")
    await runtime.start(other, leads)
    pid = process_world.leader(request.workspace_id)
    process_world.records.path(request.workspace_id).write_bytes(b'{"workspace": "')

    assert await is_running(runtime, other.workspace_id)
    assert not await is_running(runtime, request.workspace_id)
    with pytest.raises(VolumeInUse):
        await runtime.delete_volume(request.volume)
    await runtime.stop(request.workspace_id, LONG)

    assert not lives(pid)
    assert [each.workspace_id for each in (await runtime.list()).containers] == [other.workspace_id]


async def test_a_damaged_record_keeps_every_home_of_its_workspace(
    process_world: ProcessWorld,
) -> None:
    runtime, request = await started(process_world)
    await process_world.kill(request.workspace_id)
    process_world.records.path(request.workspace_id).write_bytes(b"")

    with pytest.raises(VolumeInUse):
        await runtime.delete_volume(request.volume)

    await runtime.stop(request.workspace_id, LONG)
    await runtime.delete_volume(request.volume)
    assert (await runtime.list()).volumes == ()


async def test_ended_children_of_the_hub_are_reaped(process_world: ProcessWorld) -> None:
    runtime, request = await started(process_world)
    pid = process_world.leader(request.workspace_id)
    await process_world.kill(request.workspace_id)

    await runtime.list()

    assert read_process(pid) is None, "no zombie is left"
    container = await seen(process_world.open(), request.workspace_id)
    assert container is not None
    assert container.exit_code == 137, "how it ended is written down"


async def test_a_stop_while_it_starts_wins(process_world: ProcessWorld) -> None:
    runtime = process_world.open()
    ref = await new_volume(runtime)

    async def stopped_meanwhile() -> None:
        await process_world.open().stop(ref.workspace_id, LONG)

    with pytest.raises(ActionFailed, match="meanwhile"):
        await runtime.start(
            request_for(process_world, ref, "touch $HOME/ran; sleep 600"), stopped_meanwhile
        )

    assert (await runtime.list()).containers == ()
    assert await process_world.read(ref, "ran") is None


async def test_a_start_at_the_end_of_a_stop_is_stopped_too(
    process_world: ProcessWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, request = await started(process_world)
    real, again = stop.end, [replace(request, op_id=uuid4())]

    async def end(*args: Any) -> None:
        await real(*args)
        if again:
            await process_world.open().start(again.pop(), leads)

    monkeypatch.setattr(stop, "end", end)
    await runtime.stop(request.workspace_id, LONG)

    assert not again
    assert process_world.members(request.workspace_id) == ()
    assert (await runtime.list()).containers == ()


async def test_a_dead_hubs_child_behind_the_gate_is_not_mistaken_for_a_running_one(
    process_world: ProcessWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = process_world.open()
    ref = await new_volume(runtime)
    request = request_for(process_world, ref, f"exec {process_world.serve}")
    mark = {"CODEHUB_PROCESS": Mark(ref.workspace_id, request.op_id).text(process_world.hub_id)}
    log = process_world.root / "logs" / "gate.log"
    with spawn.Gate(("sleep", "600"), {**mark, "HOME": str(process_world.home(ref))}, log) as gate:
        now = datetime.now(UTC)
        started_by_it = Record(
            ref.workspace_id, request.op_id, "t", "d", ref.name, 9, now, leader=gate.leader
        )
        process_world.records.write(started_by_it)
        real, dies = start._answers, [gate.leader.pid]

        async def answers_while_the_hub_dies(record: Record) -> bool:
            if dies:
                os.kill(dies.pop(), signal.SIGKILL)
            return await real(record)

        monkeypatch.setattr(start, "_answers", answers_while_the_hub_dies)
        await runtime.start(request, leads)

    assert not dies
    assert process_world.leader(ref.workspace_id) != gate.leader.pid
    assert await answers(await runtime.upstream(ref.workspace_id))


def test_a_process_with_a_wild_name_is_read_rightly(tmp_path: Path) -> None:
    sleep = shutil.which("sleep")
    assert sleep is not None
    program = tmp_path / "a) Z 1 ("
    shutil.copy(sleep, program)
    with bystander(str(program), "600") as pid:
        process = read_process(pid)

    assert process is not None
    assert process.alive
    assert process.parent == os.getpid()
