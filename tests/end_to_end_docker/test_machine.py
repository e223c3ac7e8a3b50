"""A machine whose disk fills, whose Postgres dies, and that reboots, with Docker and S3 on it.

It has an engine of its own, with all that it keeps on a small disk.
"""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from dataclasses import replace
from errno import ENOSPC
from threading import Event
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import pytest

from codehub.model.states import DesiredState
from tests.conftest import open_directory
from tests.contract.s3_faults import FaultyProxy, hold_answer, is_read
from tests.coordination.machine import small_disk
from tests.end_to_end.hub import until
from tests.end_to_end.moments import NEVER
from tests.end_to_end.reboot import bystander, rewrite_numbers
from tests.end_to_end.visits import request
from tests.end_to_end_docker.docker_hub import DockerHub, a_docker_hub
from tests.engine.second_engine import IMAGE, SecondEngine, data_of, engine_in
from tests.integration.homes import describe, fill_home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.s3_faults import Request
    from tests.end_to_end_docker.docker_hub import Ground

pytestmark = pytest.mark.timeout(300)

ARCHIVED, STANDBY, RUNNING = DesiredState.ARCHIVED, DesiredState.STANDBY, DesiredState.RUNNING
STATES = {"awake": RUNNING, "asleep": STANDBY}
LARGE, MARGIN = 12_000_000, 1_000_000
"""Bytes: of a home, and what an engine needs to remove a volume."""
DISK = "256m"


class Machine(NamedTuple):
    """Its engine has all that it keeps on a small disk."""

    engine: SecondEngine
    hub: DockerHub
    network: FaultyProxy

    @contextmanager
    def full_but_for(self, left: int) -> Iterator[None]:
        """Inside, its disk has room for so many bytes."""
        filler = data_of(self.engine.directory) / "filler"
        try:
            with filler.open("wb") as file:
                _fill(file, left)
            yield
        finally:
            filler.unlink()


def _fill(file: BinaryIO, left: int) -> None:
    """What others write meanwhile has its part of the room: then what is left is seen anew."""
    while (more := _free(file) - left) > 0:
        try:
            os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), more)
        except OSError as error:
            if error.errno != ENOSPC:
                raise


def _free(file: BinaryIO) -> int:
    found = os.statvfs(file.fileno())
    return found.f_bavail * found.f_frsize


@pytest.fixture(scope="module")
def made(ground: Ground, network: FaultyProxy) -> Iterator[Machine]:
    with (
        open_directory() as path,
        small_disk(data_of(path), DISK),
        engine_in(path, live_restore=False) as engine,
        engine.client() as client,
    ):
        settings = {
            "DOCKER_HOST": engine.base_url,
            "DOCKER_NETWORK": "bridge",
            "S3_ENDPOINT_URL": network.url,
            # What ends with the machine is no crash loop, however often that happens here.
            "OPERATION_SETTLED_SECONDS": "0",
        }
        own = replace(ground, client=client, image=IMAGE)
        with a_docker_hub(own, **settings) as hub:
            hub.declare(
                awake=own.served(NEVER),
                asleep=own.served(f"{NEVER}, startOn: visit"),
            )
            hub.start()
            hub.until_settled(**STATES)
            for name in STATES:
                fill_home(hub.home(name))
                (hub.home(name) / "index.html").write_text(f"hello from {name}")
            (hub.home("asleep") / "noise").write_bytes(os.urandom(LARGE))
            yield Machine(engine, hub, network)


@pytest.fixture
def machine(made: Machine) -> Iterator[Machine]:
    """Everything is up and where it should be, before and after."""
    for name, state in STATES.items():
        if made.hub.rows()[name].desired != state:
            made.hub.want(name, state)
    made.hub.until_settled(**STATES)
    yield made
    made.network.heal()


def homes(hub: DockerHub) -> dict[str, Any]:
    return {name: describe(hub.home(name)) for name in STATES}


def is_archive_read(asked: Request) -> bool:
    return is_read(asked) and asked.target.endswith("/home.tar.zst")


def test_a_disk_without_room_for_a_home_is_told_before_anything_is_unpacked(
    machine: Machine,
) -> None:
    hub, before = machine.hub, homes(machine.hub)
    hub.settle("asleep", ARCHIVED)
    archive, stored = hub.rows()["asleep"].archive, hub.archives()
    with machine.full_but_for(LARGE // 2):
        hub.want("asleep", STANDBY)

        row = hub.until_error("asleep", "RetryExceeded")

        assert row.error_message is not None
        assert row.error_message.startswith("not enough space for the volume: ")
        assert row.error_count == 4, "one try and three retries"
        assert (row.archive, hub.archives()) == (archive, stored)
        until(lambda: hub.volumes_of("asleep") == set(), "the end of the half home")
        assert request(hub.port, "GET", "/w/awake/").body == b"hello from awake", "others go on"
    hub.tell("recover", "asleep", "--wait")
    hub.until_settled(**STATES)
    assert homes(hub) == before


def test_a_disk_that_fills_while_a_home_is_unpacked_leaves_no_half_of_it(machine: Machine) -> None:
    hub, before = machine.hub, homes(machine.hub)
    hub.settle("asleep", ARCHIVED)
    archive, stored = hub.rows()["asleep"].archive, hub.archives()
    released = halt_restore(machine)
    with machine.full_but_for(MARGIN):
        released.set()

        row = hub.until_error("asleep", "RetryExceeded")

        history = hub.tell("events", "asleep").out
        assert "ActionFailed  by controller: no space is left for the volume: " in history
        assert "not enough space for the volume: " in (row.error_message or "")
        assert (row.archive, hub.archives()) == (archive, stored)
        until(lambda: hub.volumes_of("asleep") == set(), "the end of the half home")
    hub.tell("recover", "asleep", "--wait")
    hub.until_settled(**STATES)
    assert homes(hub) == before


def halt_restore(machine: Machine) -> Event:
    """Ask for the home, until some of it is there; the rest comes when this is set."""
    hub, released = machine.hub, Event()
    machine.network.spoil(hold_answer(released, LARGE // 2), is_archive_read)
    hub.want("asleep", STANDBY)
    until(lambda: hub.volumes_of("asleep"), "its volume")
    until(lambda: any(hub.home("asleep").iterdir()), "some of the home")
    return released


def test_workspaces_outlive_a_postgres_that_dies_in_a_restore(machine: Machine) -> None:
    hub, before, running = machine.hub, homes(machine.hub), machine.engine.ids()
    hub.settle("asleep", ARCHIVED)
    archive, stored = hub.rows()["asleep"].archive, hub.archives()
    released = halt_restore(machine)
    first, database = hub.home("asleep"), hub.postgres()
    assert database is not None

    os.kill(database, signal.SIGKILL)
    assert request(hub.port, "GET", "/w/awake/").body == b"hello from awake"
    until(lambda: hub.postgres() not in (None, database), "another Postgres")
    released.set()

    rows = hub.until_settled(**STATES)
    assert {row.error_reason for row in rows.values()} == {None}
    assert (rows["asleep"].archive, hub.archives()) == (archive, stored)
    assert homes(hub) == before
    assert machine.engine.ids() == running, "nobody was started anew"
    until(lambda: hub.volumes() == {row.home for row in rows.values()}, "the end of the half home")
    assert first == hub.home("asleep") or not first.exists()


def test_after_a_reboot_everything_is_as_it_was(machine: Machine) -> None:
    """Every number that the hub had noted belongs to somebody else then."""
    hub, before, running = machine.hub, homes(machine.hub), machine.engine.ids()
    volumes = hub.volumes()

    hub.kill()
    machine.engine.stop()
    with bystander() as (pid, ticks):
        rewrite_numbers(hub, pid, ticks)
        machine.engine.start()
        assert hub.alive() == set(), "containers have ended with the machine"
        hub.start()

        rows = hub.until_settled(**STATES)

        assert {row.error_reason for row in rows.values()} == {None}
        assert (homes(hub), hub.volumes()) == (before, volumes)
        assert not set(machine.engine.ids().values()) & set(running.values())
        assert request(hub.port, "GET", "/w/awake/").body == b"hello from awake"
        hub.assert_no_second()
