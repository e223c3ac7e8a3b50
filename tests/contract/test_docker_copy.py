"""Homes that the hub cannot read itself, moved through the copy calls of a real engine."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from codehub.adapters.docker.copying import REPOSITORY
from codehub.adapters.docker.labels import COPY, volume_labels
from codehub.core.keys import build_key
from codehub.errors import ActionFailed, NameConflict, Unreachable, VolumeInUse
from codehub.jobs.arguments import archive_command, restore_command
from codehub.jobs.mover import JobMover
from codehub.model.archive import Fidelity
from codehub.model.runtime import EngineCopy, VolumeRef
from tests.conftest import require
from tests.contract.docker_proxy import engine_proxy
from tests.contract.docker_world import provide_bench, provide_docker_world  # noqa: F401
from tests.contract.engine_relay import remote_engine
from tests.contract.runtime_world import LONG, answers, leads, new_volume, request_for, volume_names
from tests.integration.homes import add_left_out, allocate, describe, fill_home
from tests.integration.jobs import (
    SUBJECT,
    archiving,
    committed,
    new_key,
    new_store,
    restoring,
)
from tests.integration.test_job_round_trip import as_a_user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from codehub.adapters.docker import DockerRuntime
    from codehub.adapters.localstore import LocalStore
    from codehub.model.archive import ArchiveMeta
    from tests.contract.docker_world import DockerWorld

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024


@dataclass
class Place:
    """A hub of this test on the engine, and its store."""

    world: DockerWorld
    runtime: DockerRuntime
    store: LocalStore
    path: Path
    refs: list[VolumeRef] = field(default_factory=list)

    @property
    def mover(self) -> JobMover:
        return JobMover(f"file://{self.path}", os.environ)

    def home(self, ref: VolumeRef) -> Path:
        home = self.world.home(ref)
        assert home is not None
        return home

    def copies(self) -> list[dict[str, Any]]:
        """The containers that hold volumes of this hub."""
        found = self.world.client.containers(all=True, filters={"label": [COPY]})
        ours = {each.name for each in self.refs}
        return [each for each in found if each["Labels"][COPY] in ours]

    async def volume(self) -> VolumeRef:
        self.refs.append(await new_volume(self.runtime))
        return self.refs[-1]

    async def archive(self, ref: VolumeRef) -> ArchiveMeta:
        async with held(self.runtime, ref) as copy:
            return await self.mover.archive(copy, new_key(), SUBJECT, lambda _: None)

    async def restore(self, meta: ArchiveMeta) -> VolumeRef:
        ref = await self.volume()
        async with held(self.runtime, ref) as copy:
            await self.mover.restore(copy, meta.key, meta.sha256, lambda _: None)
        return ref


@pytest.fixture
def place(docker_world: DockerWorld, tmp_path: Path) -> Place:
    path = tmp_path / "store"
    return Place(docker_world, docker_world.open(), new_store(path), path)


@asynccontextmanager
async def held(runtime: DockerRuntime, ref: VolumeRef) -> AsyncIterator[EngineCopy]:
    copy = await runtime.open_copy(ref)
    try:
        yield copy
    finally:
        await runtime.close_copy(copy)


def fill(home: Path) -> None:
    """Everything, but for the file whose holes are larger than any disk."""
    fill_home(home)
    for each in home.glob("hole-h*"):
        each.unlink()


def without_losses(root: Path) -> dict[str, dict[str, Any]]:
    """What must come back on this way: contents whole, times in seconds, from 1970 on."""
    found = describe(root)
    for name, about in found.items():
        del about["xattrs"]
        about["mtime"] = max(0, about["mtime"] // 10**9)
        if about.pop("data", None) is not None:
            about["sha256"] = hashlib.sha256((root / name).read_bytes()).hexdigest()
    return found


# ---- There and back ----


async def test_a_home_comes_back_from_a_remote_engine(place: Place) -> None:
    """No path, no image of a workspace, nothing pulled."""
    with remote_engine() as address:
        place.runtime = place.world.open(base_url=address)
        ref = await place.volume()
        fill(place.home(ref))
        before = describe(place.home(ref))
        assert await place.runtime.volume_path(ref) is None
        meta = await place.archive(ref)
        back = await place.restore(meta)
    assert (meta.fidelity, meta.entries, meta.skipped) == (Fidelity.COPY, len(before), 0)
    assert describe(place.home(ref)) == before, "an archive only reads"
    assert without_losses(place.home(back)) == without_losses(place.home(ref))
    assert place.copies() == []
    assert (await place.runtime.list()).containers == ()


async def test_an_archive_made_one_way_restores_the_other(place: Place, tmp_path: Path) -> None:
    ref = await place.volume()
    home = place.home(ref)
    fill(home)
    direct = await place.mover.archive(home, new_key(), SUBJECT, lambda _: None)
    copied = await place.archive(ref)
    assert (direct.fidelity, copied.fidelity) == (Fidelity.FULL, Fidelity.COPY)
    assert direct.entries == copied.entries
    through_engine = await place.restore(direct)
    (tmp_path / "volume").mkdir()
    await place.mover.restore(tmp_path / "volume", copied.key, copied.sha256, lambda _: None)
    expected = without_losses(home)
    assert without_losses(place.home(through_engine)) == expected
    assert without_losses(tmp_path / "volume") == expected


async def test_devices_and_sockets_are_left_out(place: Place) -> None:
    ref = await place.volume()
    (place.home(ref) / "m-file").write_text("kept")
    add_left_out(place.home(ref))
    meta = await place.archive(ref)
    assert meta.skipped == 3, "the engine does not say how many sockets there were"
    back = await place.restore(meta)
    assert [path.name for path in place.home(back).iterdir()] == ["m-file"]


async def test_a_hub_without_rights_moves_homes_through_the_engine(place: Place) -> None:
    ref, back = await place.volume(), await place.volume()
    fill(place.home(ref))
    told = run_as_a_user(
        "docker_copy_user.py",
        place.world.hub_id,
        str(place.path),
        *(str(each.workspace_id) for each in (ref, back)),
    )
    assert told == {"path": None, "fidelity": "copy"}
    assert without_losses(place.home(back)) == without_losses(place.home(ref))


async def test_memory_stays_flat(place: Place) -> None:
    """Far more data than a job may use memory."""
    ref, back = await place.volume(), await place.volume()
    allocate(place.home(ref) / "zeros", 400 * MIB)
    (place.home(ref) / "noise").write_bytes(os.urandom(16 * MIB))
    key = new_key()
    async with held(place.runtime, ref) as source, held(place.runtime, back) as target:
        for command in (
            archive_command(source, key, SUBJECT),
            restore_command(target, build_key(key)),
        ):
            assert peak_mib(command, place.path) < 256
    assert (place.home(back) / "zeros").stat().st_size == 400 * MIB


# ---- What cannot be kept is refused while the volume is there ----


async def test_folders_too_deep_for_the_engine_are_refused(place: Place) -> None:
    """The engine would leave out what is in them, and say nothing."""
    ref = await place.volume()
    dig(place.home(ref), 22)
    with pytest.raises(ActionFailed, match="too deep"):
        await place.archive(ref)
    assert committed(place.store) is None
    assert (place.home(ref) / ("d" * 200)).is_dir()


@contextmanager
def covered(target: Path, source: str) -> Iterator[None]:
    """Inside, something else is seen there; what cannot be read is hard to come by otherwise."""
    made = subprocess.run(
        ["mount", "--bind", source, str(target)], capture_output=True, text=True, check=False
    )
    require("mount", made.returncode == 0, made.stderr.strip())
    try:
        yield
    finally:
        subprocess.run(["umount", str(target)], check=True)


@contextmanager
def unlistable(folder: Path) -> Iterator[None]:
    """Inside, it is a folder of a process that has ended."""
    with subprocess.Popen(["sleep", "600"]) as gone:
        try:
            with covered(folder, f"/proc/{gone.pid}/task"):
                gone.kill()
                gone.wait()
                with pytest.raises(ProcessLookupError):
                    list(folder.iterdir())
                yield
        finally:
            gone.kill()


async def test_a_file_that_the_engine_cannot_read_is_not_left_out(place: Place) -> None:
    ref = await place.volume()
    for name in ("a", "m", "z"):
        (place.home(ref) / name).write_text(name)
    # It claims to have a page, and refuses to be read.
    unreadable = covered(place.home(ref) / "m", "/sys/class/net/lo/speed")
    with unreadable, pytest.raises(ActionFailed, match="no complete copy"):
        await place.archive(ref)
    assert committed(place.store) is None


async def test_a_folder_that_the_engine_cannot_list_is_not_left_out(place: Place) -> None:
    """Its copy looks complete without it; only when it measures the volume, it tells."""
    ref = await place.volume()
    (place.home(ref) / "a").write_text("kept")
    (place.home(ref) / "m").mkdir()
    unreadable = unlistable(place.home(ref) / "m")
    with unreadable, pytest.raises(ActionFailed, match="could not look through the whole home"):
        await place.archive(ref)
    assert committed(place.store) is None
    assert (place.home(ref) / "a").read_text() == "kept"
    assert (await place.archive(ref)).entries == 3, "the home, a file and a folder"


async def test_a_volume_with_something_in_it_is_left_alone(place: Place) -> None:
    ref, used = await place.volume(), await place.volume()
    (place.home(ref) / "notes").write_text("archived")
    (place.home(used) / "notes").write_text("another's")
    meta = await place.archive(ref)
    async with held(place.runtime, used) as copy:
        with pytest.raises(ActionFailed, match="not empty"):
            await place.mover.restore(copy, meta.key, meta.sha256, lambda _: None)
    assert (place.home(used) / "notes").read_text() == "another's"


async def test_a_full_disk_of_the_engine_is_told(place: Place) -> None:
    ref, small = await place.volume(), VolumeRef(uuid4(), 1)
    (place.home(ref) / "noise").write_bytes(os.urandom(4 * MIB))
    meta = await place.archive(ref)
    place.world.client.create_volume(
        small.name,
        driver_opts={"type": "tmpfs", "device": "tmpfs", "o": "size=1m"},
        labels=volume_labels(place.world.hub_id, small),
    )
    async with held(place.runtime, small) as copy:
        with pytest.raises(ActionFailed, match="disk is full"):
            await place.mover.restore(copy, meta.key, meta.sha256, lambda _: None)
    assert committed(place.store) == meta


async def test_a_place_without_the_volume_is_no_home(place: Place) -> None:
    """As on an engine that mounts volumes only where something runs."""
    ref = await place.volume()
    async with held(place.runtime, ref) as copy:
        image = place.world.client.inspect_container(copy.container)["Image"]
    bare = place.world.foreign_container(f"bare-{ref.name}", Image=image)
    with pytest.raises(ActionFailed, match="does not have the volume"):
        await place.mover.archive(
            EngineCopy(copy.base_url, bare, copy.directory), new_key(), SUBJECT, lambda _: None
        )
    assert committed(place.store) is None


async def test_a_home_that_is_mounted_only_while_it_is_used_is_not_archived(
    place: Place, tmp_path: Path
) -> None:
    """As somebody who found a lost home on another disk gives it back to the engine.

    While nothing runs, the volume's directory is an empty one below the place of the mount; and the
    engine does not measure such a volume, so what a copy lacks would not be seen.
    """
    ref, elsewhere = VolumeRef(uuid4(), 1), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "notes").write_text("found again")
    place.world.client.create_volume(
        ref.name,
        driver_opts={"type": "none", "o": "bind", "device": str(elsewhere)},
        labels=volume_labels(place.world.hub_id, ref),
    )
    assert list(place.home(ref).iterdir()) == []

    assert await place.runtime.volume_path(ref) is None

    with pytest.raises(ActionFailed, match=f"does not measure the volume {ref.name}"):
        await place.archive(ref)
    assert committed(place.store) is None
    assert (elsewhere / "notes").read_text() == "found again"


# ---- The container that holds a volume ----


async def test_what_holds_a_volume_can_do_nothing(place: Place) -> None:
    ref = await place.volume()
    async with held(place.runtime, ref) as copy:
        found = place.world.client.inspect_container(copy.container)
        assert (await place.runtime.list()).containers == ()
    assert found["State"]["Status"] == "created"
    assert found["HostConfig"]["NetworkMode"] == "none"
    assert found["HostConfig"]["Privileged"] is False
    assert (found["HostConfig"]["CapDrop"], found["HostConfig"]["CapAdd"] or []) == (["ALL"], [])
    assert found["HostConfig"]["Binds"] is None
    assert [each["Name"] for each in found["Mounts"]] == [ref.name]
    assert [each for each in found["Config"]["Env"] or [] if not each.startswith("PATH=")] == []


async def test_a_copy_that_nobody_closed_blocks_nothing(place: Place) -> None:
    ref = await place.volume()
    await place.runtime.open_copy(ref)
    second = await place.runtime.open_copy(ref)
    assert [each["Id"] for each in place.copies()] == [second.container]
    request = request_for(place.world, ref, f"exec {place.world.serve}")
    await place.runtime.start(request, leads)
    assert place.copies() == []
    assert await answers(await place.runtime.upstream(ref.workspace_id))
    with pytest.raises(VolumeInUse, match="in use"):
        await place.runtime.open_copy(ref)
    await place.runtime.stop(ref.workspace_id, LONG)
    await place.runtime.open_copy(ref)
    await place.runtime.delete_volume(ref)
    assert await volume_names(place.runtime) == set()
    assert place.copies() == []


async def test_closing_a_copy_closes_that_one_alone(place: Place) -> None:
    """What a leader left in the past and now lets go of is not its successor's."""
    ref = await place.volume()
    old = await place.runtime.open_copy(ref)
    new = await place.world.open().open_copy(ref)
    await place.runtime.close_copy(old)
    assert [each["Id"] for each in place.copies()] == [new.container]
    await place.runtime.close_copy(new)
    await place.runtime.close_copy(new)
    assert place.copies() == []


async def test_a_volume_that_another_has_is_not_copied(place: Place) -> None:
    ref = await place.volume()
    mount = {"Type": "volume", "Source": ref.name, "Target": "/mnt"}
    stranger = place.world.foreign_container(f"stranger-{ref.name}", HostConfig={"Mounts": [mount]})
    for refused in (
        place.runtime.open_copy(ref),
        place.runtime.require_unused(ref),
        place.runtime.delete_volume(ref),
    ):
        with pytest.raises(VolumeInUse, match=f"'docker rm --force stranger-{ref.name}'"):
            await refused
    assert place.world.client.inspect_container(stranger)["Id"] == stranger


async def test_a_volume_that_is_gone_is_not_made_by_looking_at_it(place: Place) -> None:
    gone = VolumeRef(uuid4(), 1)
    with pytest.raises(ActionFailed, match="not there"):
        await place.runtime.open_copy(gone)
    ref = await place.volume()
    with engine_proxy() as proxy:
        proxy.before(
            "POST", "/containers/create", lambda: place.world.client.remove_volume(ref.name)
        )
        with pytest.raises(ActionFailed, match="not there"):
            await place.world.open(base_url=proxy.base_url).open_copy(ref)
    assert await volume_names(place.runtime) == set()
    assert place.world.home(ref) is None, "what the engine made instead is gone as well"
    assert place.copies() == []


async def test_an_image_of_another_with_our_name_is_not_used(place: Place) -> None:
    ref = await place.volume()
    name = f"{REPOSITORY}:{place.world.hub_id}"
    with foreign_image(place.world, name):
        with pytest.raises(NameConflict):
            await place.runtime.open_copy(ref)
        assert place.copies() == []
    async with held(place.runtime, ref):
        assert len(place.copies()) == 1


async def test_an_engine_that_is_away_or_another_one_is_unknown(
    place: Place, tmp_path: Path
) -> None:
    ref = await place.volume()
    away = place.world.open(base_url=f"unix://{tmp_path}/engine.sock")
    with pytest.raises(Unreachable):
        await away.open_copy(ref)
    async with place.world.another_hub():
        with pytest.raises(Unreachable):
            await place.runtime.open_copy(VolumeRef(uuid4(), 1))
    assert place.copies() == []


# ---- Jobs that are killed ----


async def test_a_job_killed_while_it_archives_leaves_nothing_that_stops_the_next(
    place: Place,
) -> None:
    ref = await place.volume()
    (place.home(ref) / "zeros").write_bytes(bytes(64 * MIB))
    (place.home(ref) / "noise").write_bytes(os.urandom(16 * MIB))
    abandoned = await place.runtime.open_copy(ref)
    with archiving(abandoned, place.path) as job:
        job.run_to("pack", 8 * MIB)
        job.kill()
    assert committed(place.store) is None
    meta = await place.archive(ref)
    back = await place.restore(meta)
    assert without_losses(place.home(back)) == without_losses(place.home(ref))


async def test_a_job_killed_while_it_restores_leaves_a_volume_that_can_be_removed(
    place: Place,
) -> None:
    ref, half = await place.volume(), await place.volume()
    (place.home(ref) / "zeros").write_bytes(bytes(64 * MIB))
    meta = await place.archive(ref)
    abandoned = await place.runtime.open_copy(half)
    with restoring(abandoned, place.path, meta.key) as job:
        job.run_to("unpack", 8 * MIB)
        job.kill()
    await place.runtime.delete_volume(half)
    assert await volume_names(place.runtime) == {ref.name}


@contextmanager
def foreign_image(world: DockerWorld, name: str) -> Iterator[None]:
    repository, tag = name.split(":")
    world.client.tag(world.image, repository, tag)
    try:
        yield
    finally:
        world.client.remove_image(name, noprune=True)


def dig(home: Path, levels: int) -> None:
    """Folders in each other, made from inside: the whole path is too long to name."""
    here = os.open(home, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d" * 200, dir_fd=here)
        deeper = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)


def run_as_a_user(program: str, *words: str) -> Any:
    """What this program beside us says, run without the superuser's rights."""
    here = Path(__file__)
    done = subprocess.run(
        [*as_a_user(), sys.executable, str(here.with_name(program)), *words],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env={**os.environ, "PYTHONPATH": str(here.parents[2])},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def peak_mib(command: list[str], store: Path) -> float:
    """The largest memory of the job."""
    program = (
        "import os, resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], stdin=os.pipe()[0], stdout=2, check=True, timeout=100)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *command],
        env={**os.environ, "CODEHUB_STORE_URL": f"file://{store}"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout) / 1024
