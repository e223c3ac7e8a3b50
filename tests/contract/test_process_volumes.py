"""Homes of the process runtime: whole or gone, whatever is in them and whatever the disk says."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import subprocess
import sys
from queue import Queue
from threading import Event
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from codehub.adapters.process.translate import explain
from codehub.adapters.process.volumes import Volumes
from codehub.errors import ActionFailed, NameConflict, Unreachable
from tests.conftest import open_directory
from tests.contract.crash_points import REPOSITORY
from tests.contract.process_world import MARKER
from tests.contract.runtime_world import new_volume, volume_names

if TYPE_CHECKING:
    from pathlib import Path

    from tests.contract.process_world import ProcessWorld

pytestmark = pytest.mark.anyio

NOBODY = 65_534


def remaining(world: ProcessWorld) -> list[str]:
    """What there is beside the marker."""
    parts = (path for part in ("volumes", "labels") for path in (world.root / part).iterdir())
    return [path.name for path in parts if path.name != MARKER]


def run_apart(script: str, *prefix: str, root: Path, user: int | None = None) -> dict[str, Any]:
    """Run `script` in a process of its own; it has `runtime`, and sets `result`."""
    program = f"""
import asyncio, concurrent.futures.thread, json, os, pathlib, sys, uuid
from codehub.adapters.process import ProcessRuntime
from codehub.errors import CodeHubError
from codehub.model.runtime import StartRequest, VolumeRef
root = pathlib.Path(sys.argv[1])
runtime, result = ProcessRuntime(root, "hub-a"), {{}}
async def failure(action):
    try:
        await action
    except CodeHubError as error:
        return [type(error).__name__, error.message]
async def main():
{script}
if user := {user}:
    # After the imports: another user may not be able to read them.
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
asyncio.run(main())
print(json.dumps(result))
"""
    done = subprocess.run(
        [*prefix, sys.executable, "-c", program, str(root)],
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


async def test_a_very_deep_tree_is_deleted(process_world: ProcessWorld) -> None:
    ref = await new_volume(process_world.open())
    handle = os.open(process_world.home(ref), os.O_RDONLY)
    for _ in range(1_200):
        os.mkdir("deep", dir_fd=handle)
        below = os.open("deep", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(handle)

    await process_world.open().delete_volume(ref)

    assert remaining(process_world) == []


async def test_links_are_removed_and_never_followed(
    process_world: ProcessWorld, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("theirs")
    outside.chmod(0o555)
    ref = await new_volume(process_world.open())
    home = process_world.home(ref)
    (home / "directory").symlink_to(outside)
    (home / "file").symlink_to(outside / "precious")
    (home / "dangling").symlink_to("/nowhere")
    os.mkfifo(home / "pipe")

    await process_world.open().delete_volume(ref)

    assert remaining(process_world) == []
    assert (outside / "precious").read_text() == "theirs"
    assert outside.stat().st_mode & 0o777 == 0o555


async def test_a_link_in_the_place_of_a_home_is_not_ours(
    process_world: ProcessWorld, tmp_path: Path
) -> None:
    ref = await new_volume(process_world.open())
    process_world.home(ref).rename(tmp_path / "moved")
    process_world.home(ref).symlink_to(tmp_path / "moved")

    with pytest.raises(NameConflict):
        await process_world.open().delete_volume(ref)

    assert await volume_names(process_world.open()) == set()
    assert (tmp_path / "moved").is_dir()


async def test_what_a_dead_hub_left_in_the_trash_is_removed_by_the_next_one(
    process_world: ProcessWorld,
) -> None:
    left = process_world.root / "volumes" / ".trash-0123" / "some" / "where"
    left.mkdir(parents=True)
    (left / "file").write_text("x")

    assert (await process_world.open().list()).volumes == ()
    await process_world.open().claim()

    async with asyncio.timeout(60):
        while remaining(process_world):  # noqa: ASYNC110 (nobody tells of it)
            await asyncio.sleep(0.005)


async def test_a_term_does_not_wait_for_the_trash(
    process_world: ProcessWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = Queue[None](), Event()
    empty_trash = Volumes.empty_trash

    def held(volumes: Volumes) -> None:
        begun.put(None)
        go_on.wait()
        empty_trash(volumes)

    monkeypatch.setattr(Volumes, "empty_trash", held)
    left = process_world.root / "volumes" / ".trash-0123"
    left.mkdir()
    try:
        await process_world.open().claim()
        await asyncio.to_thread(begun.get, timeout=60)
        assert left.is_dir()

        # Another leader in this process: one at it is enough, and its homes are its own.
        runtime = process_world.open()
        await runtime.claim(expects_data=True)
        assert begun.empty()
        ref = await new_volume(runtime)
    finally:
        go_on.set()

    async with asyncio.timeout(60):
        while left.exists():  # noqa: ASYNC110 (nobody tells of it)
            await asyncio.sleep(0.005)
    assert process_world.home(ref).is_dir()


async def test_a_home_removed_by_hand_is_not_listed(process_world: ProcessWorld) -> None:
    runtime = process_world.open()
    ref = await new_volume(runtime)

    process_world.home(ref).rmdir()

    assert await volume_names(runtime) == set()
    await runtime.delete_volume(ref)
    assert remaining(process_world) == []


async def test_only_names_that_are_ours_are_listed(process_world: ProcessWorld) -> None:
    ours = await new_volume(process_world.open())
    for name in ("backup", "ws-1-home-g1", f"ws-{uuid4()}-home-g1", f"ws-{uuid4()}-home-g01"):
        (process_world.root / "volumes" / name).mkdir()
    (process_world.root / "labels" / "backup.json").write_text("{}")

    assert await volume_names(process_world.open()) == {ours.name}


def test_directories_without_permissions_are_deleted_by_their_owner() -> None:
    script = """
    await runtime.claim()
    ref = VolumeRef(uuid.uuid4(), 1)
    await runtime.create_volume(ref)
    locked = root / "volumes" / ref.name / "a" / "b"
    locked.mkdir(parents=True)
    (locked / "file").write_text("x")
    for path in (locked / "file", locked, locked.parent, locked.parent.parent):
        path.chmod(0)
    result["failure"] = await failure(runtime.delete_volume(ref))
    result["left"] = [path.name for path in (root / "volumes").iterdir() if path.is_dir()]
    """
    with open_directory() as directory:
        user = NOBODY if os.geteuid() == 0 else None
        if user:
            os.chown(directory, user, user)
        result = run_apart(script, root=directory / "root", user=user)

    assert result == {"failure": None, "left": []}


def test_a_missing_permission_is_a_clear_answer() -> None:
    script = """
    await runtime.claim()
    (root / "labels").chmod(0o500)
    result["failure"] = await failure(runtime.create_volume(VolumeRef(uuid.uuid4(), 1)))
    (root / "labels").chmod(0o700)
    result["volumes"] = len((await runtime.list()).volumes)
    """
    with open_directory() as directory:
        user = NOBODY if os.geteuid() == 0 else None
        if user:
            os.chown(directory, user, user)
        result = run_apart(script, root=directory / "root", user=user)

    assert result["volumes"] == 0
    kind, message = result["failure"]
    assert kind == "ActionFailed"
    assert "may not" in message


def test_a_full_disk_is_a_clear_answer_and_nothing_runs(tmp_path: Path) -> None:
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "-r"]
    mount = 'mount -t tmpfs -o size=256k none "$0" && exec "$@"'
    if subprocess.run([*unshare, "sh", "-c", mount, tmp_path, "true"], timeout=60).returncode:
        pytest.skip("this machine lets nobody mount a small disk")
    script = """
    await runtime.claim()
    ref = VolumeRef(uuid.uuid4(), 1)
    await runtime.create_volume(ref)
    with (root / "volumes" / ref.name / "large").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass
    result["create"] = await failure(runtime.create_volume(VolumeRef(uuid.uuid4(), 1)))
    request = StartRequest(ref.workspace_id, "api", ref, uuid.uuid4(), "t", ("sleep", "9"), {}, 80)
    async def confirm(): result["confirmed"] = True
    result["start"] = await failure(runtime.start(request, confirm))
    listing = await runtime.list()
    result["seen"] = [len(listing.containers), len(listing.volumes)]
    result["delete"] = await failure(runtime.delete_volume(ref))
    result["again"] = await failure(runtime.create_volume(VolumeRef(uuid.uuid4(), 1)))
    """
    result = run_apart(script, *unshare, "sh", "-c", mount, str(tmp_path), root=tmp_path)

    full = ["ActionFailed", f"the disk that holds {tmp_path} is full"]
    assert result == {
        "create": full,
        "start": full,
        "seen": [0, 1],
        "delete": None,
        "again": None,
    }


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, ActionFailed),
        (errno.EDQUOT, ActionFailed),
        (errno.EROFS, ActionFailed),
        (errno.E2BIG, ActionFailed),
        (errno.EIO, Unreachable),
        (errno.EMFILE, Unreachable),
        (errno.ENOENT, Unreachable),
    ],
)
def test_only_what_is_an_answer_counts_against_a_workspace(
    number: int, kind: type[Exception], tmp_path: Path
) -> None:
    error = explain(OSError(number, os.strerror(number), "/x"), tmp_path)

    assert type(error) is kind
    assert str(tmp_path) in error.message or "refused" in error.message
