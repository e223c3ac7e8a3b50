"""What surrounds a process workspace: the root's identity, its environment, its log, its ports."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from codehub.adapters.process import NOTICE, ProcessRuntime, logs, root
from codehub.adapters.process.logs import last_words
from codehub.adapters.process.probe import answers, free_port
from codehub.adapters.process.surround import machine_environment
from codehub.errors import ActionFailed, Unreachable
from codehub.model.runtime import VolumeRef
from tests.contract.process_world import MARKER
from tests.contract.runtime_world import (
    LONG,
    eventually,
    is_running,
    leads,
    new_volume,
    request_for,
    started,
    text_of,
    volume_names,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.contract.process_world import ProcessWorld

pytestmark = pytest.mark.anyio

LIBRARY = 0b11 << 31
"""Signals 32 and 33 are the C library's own; no program can set them."""


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


# ---- The root ----


async def test_a_new_root_is_claimed_once_and_then_known(tmp_path: Path) -> None:
    place = tmp_path / "data" / "root"
    await ProcessRuntime(place, "hub-a").claim()
    await ProcessRuntime(place, "hub-a").claim()

    assert (await ProcessRuntime(place, "hub-a").list()).volumes == ()
    assert place.stat().st_mode & 0o077 == 0, "homes are nobody else's business"


async def test_a_root_is_not_claimed_by_using_it(tmp_path: Path) -> None:
    runtime = ProcessRuntime(tmp_path, "hub-a")

    with pytest.raises(Unreachable, match="no marker"):
        await runtime.list()
    with pytest.raises(Unreachable):
        await runtime.create_volume(VolumeRef(uuid4(), 1))

    assert names(tmp_path) == []


async def test_a_directory_with_other_things_is_not_claimed(tmp_path: Path) -> None:
    (tmp_path / "volumes").mkdir()
    (tmp_path / "volumes" / "thesis.txt").write_text("theirs")

    with pytest.raises(Unreachable, match="left alone"):
        await ProcessRuntime(tmp_path, "hub-a").claim()

    assert names(tmp_path) == ["volumes"]


async def test_an_unmounted_root_is_unreachable_for_every_action(
    process_world: ProcessWorld, tmp_path: Path
) -> None:
    runtime, request = await started(process_world)
    away = tmp_path / "away"
    process_world.root.rename(away)
    process_world.root.mkdir()

    try:
        for action in (
            runtime.list(),
            runtime.create_volume(VolumeRef(uuid4(), 1)),
            runtime.start(replace(request, op_id=uuid4()), leads),
            runtime.stop(request.workspace_id, LONG),
            runtime.delete_volume(request.volume),
            runtime.volume_path(request.volume),
            runtime.upstream(request.workspace_id),
            runtime.stats(request.workspace_id),
        ):
            with pytest.raises(Unreachable):
                await action
        assert list(process_world.root.iterdir()) == []
    finally:
        process_world.root.rmdir()
        away.rename(process_world.root)
    assert await is_running(runtime, request.workspace_id)


@pytest.mark.parametrize("missing", ["records", "volumes", "labels"])
async def test_a_root_that_lacks_a_part_is_unreachable_not_empty(
    process_world: ProcessWorld, missing: str
) -> None:
    (process_world.root / missing).rename(process_world.root / "elsewhere")

    try:
        with pytest.raises(Unreachable):
            await process_world.open().list()
        with suppress(Unreachable):
            await process_world.open().claim()
        assert not (process_world.root / missing).exists(), "claiming again does not hide the loss"
    finally:
        (process_world.root / "elsewhere").rename(process_world.root / missing)


@pytest.mark.parametrize("instead", ["an empty directory", "another hub's homes"])
async def test_homes_on_a_disk_that_is_away_are_unreachable_not_gone(
    process_world: ProcessWorld, instead: str
) -> None:
    runtime, request = await started(process_world)
    volumes, away = process_world.root / "volumes", process_world.root / "away"
    volumes.rename(away)
    volumes.mkdir()
    if instead == "another hub's homes":
        (volumes / MARKER).write_text('{"hub": "another"}')
    before = names(volumes)

    try:
        for action in (
            runtime.list(),
            runtime.create_volume(VolumeRef(uuid4(), 1)),
            runtime.start(replace(request, op_id=uuid4()), leads),
            runtime.delete_volume(request.volume),
            runtime.require_unused(request.volume),
            runtime.volume_path(request.volume),
            process_world.open().claim(expects_data=True),
        ):
            with pytest.raises(Unreachable, match=str(volumes)):
                await action
        assert names(volumes) == before
    finally:
        shutil.rmtree(volumes)
        away.rename(volumes)
    assert await volume_names(runtime) == {request.volume.name}
    assert await is_running(runtime, request.workspace_id)


async def test_homes_from_before_they_had_a_marker_get_one(process_world: ProcessWorld) -> None:
    runtime = process_world.open()
    ref = await new_volume(runtime)
    (process_world.root / "volumes" / MARKER).unlink()

    await runtime.claim(expects_data=True)

    assert await volume_names(runtime) == {ref.name}


async def test_a_hub_without_homes_marks_their_place_when_it_starts(
    process_world: ProcessWorld,
) -> None:
    (process_world.root / "volumes" / MARKER).unlink()

    await process_world.open().claim(expects_data=False)

    assert (await process_world.open().list()).volumes == ()


async def test_a_lock_that_is_held_for_long_is_no_answer(
    process_world: ProcessWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(root, "LOCK_SECONDS", 0.1)
    with (process_world.root / "lock").open("rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        with pytest.raises(Unreachable, match="lock"):
            await process_world.open().create_volume(VolumeRef(uuid4(), 1))
        assert (await process_world.open().list()).volumes == ()


@pytest.mark.parametrize("hub_id", ["", "a/b", "a\nb"])
def test_a_hub_id_that_would_blur_the_marker_is_refused(tmp_path: Path, hub_id: str) -> None:
    with pytest.raises(ValueError, match="hub id"):
        ProcessRuntime(tmp_path, hub_id)


def test_the_notice_says_that_nothing_is_isolated() -> None:
    assert "isolates nothing" in NOTICE


# ---- The environment ----


async def test_nothing_of_the_hubs_own_environment_is_passed_on(
    process_world: ProcessWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://hub:canary@db")
    monkeypatch.setenv("CODEHUB_TOKEN", "canary")
    held, handle = os.pipe()
    os.set_inheritable(handle, True)
    script = (
        "env > $HOME/env; readlink /proc/$$/fd/* | cat > $HOME/files; pwd > $HOME/pwd;"
        f"grep -E '^Sig(Blk|Ign)' /proc/self/status > $HOME/signals; exec {process_world.serve}"
    )
    _, request = await started(process_world, script)
    os.close(handle)
    os.close(held)
    home = process_world.home(request.volume)

    environment = (home / "env").read_text()
    assert "canary" not in environment
    assert f"HOME={home}\n" in environment
    assert (home / "pwd").read_text() == f"{home}\n"
    log = process_world.root / "logs" / f"{request.workspace_id}.log"
    files = (home / "files").read_text().splitlines()
    assert files == ["/dev/null", str(log), str(log)], "nothing of the hub is held open"
    signals = [int(line.split()[1], 16) for line in (home / "signals").read_text().splitlines()]
    assert [each & ~LIBRARY for each in signals] == [0, 0], "none is blocked or ignored"


def test_programs_beside_the_hub_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/opt/hub/bin/python")

    assert machine_environment({"PATH": "/bin", "A": "b"})["PATH"] == "/opt/hub/bin:/bin"
    assert machine_environment({"PATH": "/opt/hub/bin:/bin"})["PATH"] == "/opt/hub/bin:/bin"
    assert "A" not in machine_environment({"A": "b"})


async def test_a_program_of_the_home_can_be_the_command(process_world: ProcessWorld) -> None:
    runtime = process_world.open()
    ref = await new_volume(runtime)
    request = replace(
        request_for(process_world, ref, ""), command=("./run it.sh", "a b", "--", "$HOME")
    )
    program = process_world.home(ref) / "run it.sh"
    program.write_text(f'#!/bin/sh\nprintf "%s|" "$@" > "$HOME/args"; exec {process_world.serve}\n')

    with pytest.raises(ActionFailed, match="not executable"):
        await runtime.start(request, leads)
    program.chmod(0o755)
    await runtime.start(request, leads)

    assert await process_world.read(ref, "args") == "a b|--|$HOME|"


@pytest.mark.parametrize(
    ("env", "sentence"),
    [({"A": "nul\0nul"}, "character"), ({"A": "x" * 200_000}, "Argument list too long")],
)
async def test_what_the_system_cannot_pass_on_is_a_failed_start(
    process_world: ProcessWorld, env: dict[str, str], sentence: str
) -> None:
    runtime = process_world.open()
    ref = await new_volume(runtime)

    with pytest.raises(ActionFailed, match=sentence):
        await runtime.start(request_for(process_world, ref, "sleep 600", env=env), leads)

    assert (await runtime.list()).containers == ()


# ---- The log ----


async def test_a_log_stays_bounded_and_its_end_is_kept(process_world: ProcessWorld) -> None:
    flood = "yes 0123456789abcdef | head -c 9000000; echo flooded"
    later = "until [ -e $HOME/go ]; do sleep 0.05; done; echo on; wait"
    script = f"{flood}; {process_world.serve} & {later}"
    runtime, request = await started(process_world, script)
    log = process_world.root / "logs" / f"{request.workspace_id}.log"

    await runtime.list()

    sizes = [path.stat().st_size for path in log.parent.iterdir()]
    assert sum(sizes) <= logs.LIMIT + logs.KEPT
    assert "flooded\n" in await text_of(runtime.logs(request.workspace_id, lines=5, follow=False))
    await process_world.write(request.volume, "go", "")

    async def goes_on() -> bool:
        text = await text_of(runtime.logs(request.workspace_id, lines=5, follow=False))
        return text.endswith("on\n") and log.stat().st_size < logs.KEPT

    await eventually(goes_on, "it writes on at the new end")


async def test_the_output_of_the_last_start_is_kept_before_the_new(
    process_world: ProcessWorld,
) -> None:
    runtime = process_world.open()
    ref = await new_volume(runtime)
    with pytest.raises(ActionFailed, match=r"first words$"):
        await runtime.start(request_for(process_world, ref, "echo first words; exit 1"), leads)
    with pytest.raises(ActionFailed) as failure:
        await runtime.start(request_for(process_world, ref, "echo second words; exit 1"), leads)

    assert "first" not in failure.value.message, "each failure tells its own story"
    text = await text_of(runtime.logs(ref.workspace_id, lines=10, follow=False))
    assert text == "first words\nsecond words\n"


async def test_a_log_goes_with_the_last_home(process_world: ProcessWorld) -> None:
    runtime, request = await started(process_world, f"echo hi; exec {process_world.serve}")
    await runtime.stop(request.workspace_id, LONG)
    assert await text_of(runtime.logs(request.workspace_id, lines=10, follow=False))

    await runtime.delete_volume(request.volume)

    assert list((process_world.root / "logs").iterdir()) == []


def test_last_words_are_short_plain_and_hide_what_must_be_hidden(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    key = "-----BEGIN-----\nMIIEabc\n-----END-----"
    log.write_text(f"old\n\x1b[31mred\x1b[0m\t\x07\ntoken=s3cret!\n{key}\n" + "x" * 1000)

    said = last_words(log, hide=["s3cret!", key, "", "ed"])

    assert len(said) < 450
    assert "MIIEabc" not in last_words(log, hide=[key])
    log.write_text(f"old\n\x1b[31mred\x1b[0m\t\x07\ntoken=s3cret!\n{key}\n")
    assert last_words(log, hide=["s3cret!", key, "", "ed"]) == "old | red | token=*** | ***"
    assert last_words(tmp_path / "none.log", hide=[]) == ""


# ---- Ports ----


def test_a_free_port_is_free_and_none_of_those_taken() -> None:
    with socket.create_server(("127.0.0.1", free_port(()))) as server:
        port = server.getsockname()[1]
        others = {free_port({port}) for _ in range(50)}

    assert port not in others
    assert all(10_240 <= each < 65_536 for each in others)


async def test_a_port_answers_while_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert await answers(port)
    assert not await answers(port)
