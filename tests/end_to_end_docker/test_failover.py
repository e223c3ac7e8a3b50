"""Two coordinators on one engine and one bucket, and `kill -9` for the leader in its work.

Its storage jobs end with it, or they do not: one that lives on writes where nobody else does.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from codehub.model.states import DesiredState
from tests.contract.s3_faults import (
    FaultyProxy,
    Request,
    hold,
    hold_answer,
    is_complete,
    is_part,
    is_read,
)
from tests.end_to_end.coordinators import CLAIMS, Coordinators
from tests.end_to_end.hub import PATIENCE, until, until_another_second
from tests.end_to_end.moments import NEVER
from tests.end_to_end.tree import Found, processes_of
from tests.end_to_end_docker.docker_hub import DockerHub, a_served_hub
from tests.integration.homes import describe, fill_home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.end_to_end_docker.docker_hub import Ground

pytestmark = pytest.mark.timeout(300)

LARGE = 12_000_000
"""Bytes, enough for several parts of an upload."""
GATED = "echo . >> starts; until [ -e gate ]; do sleep 0.05; done; exec httpd -f -p $PORT -h $HOME"


def is_archive_read(request: Request) -> bool:
    return is_read(request) and request.target.endswith("/home.tar.zst")


@pytest.fixture(scope="module")
def hub(ground: Ground, network: FaultyProxy) -> Iterator[DockerHub]:
    settings = {"S3_ENDPOINT_URL": network.url, "GC_ORPHAN_SECONDS": "0"}
    with a_served_hub(ground, **settings) as made:
        made.declare(
            gated=ground.served(NEVER, GATED), mover=ground.served(f"{NEVER}, startOn: visit")
        )
        yield made


@pytest.fixture(scope="module")
def coordinators(hub: DockerHub) -> Coordinators:
    made = Coordinators(hub)
    hub.until_settled(mover="STANDBY")
    (hub.home("mover") / "large").write_bytes(os.urandom(LARGE))
    fill_home(hub.home("mover"))
    return made


@pytest.fixture(scope="module")
def before(hub: DockerHub, coordinators: Coordinators) -> dict[str, Any]:
    return describe(hub.home("mover"))


@pytest.fixture(autouse=True)
def ready(hub: DockerHub, network: FaultyProxy, coordinators: Coordinators) -> Iterator[None]:
    """Somebody stands by, and the network is well before and after."""
    coordinators.until_standing()
    yield
    network.heal()


def jobs(hub: DockerHub, verb: str) -> list[Found]:
    return processes_of(hub.data, lambda each: f"codehub.jobs {verb}" in each.command)


def begin(hub: DockerHub, state: DesiredState, verb: str, begun: Callable[[], bool]) -> Found:
    """Ask for it, until its job is at work on the data."""
    hub.want("mover", state)
    until(begun, f"data of a job that is to {verb}")
    (job,) = jobs(hub, verb)
    return job


def test_the_other_one_finishes_a_start(hub: DockerHub, coordinators: Coordinators) -> None:
    until(lambda: (hub.home("gated") / "starts").exists(), "a start under way")
    (begun,) = hub.containers().values()
    assert hub.rows()["gated"].operation == "STARTING"

    took = coordinators.kill_leader()
    print(f"killed in a start: another one led after {took:.2f} s")  # noqa: T201
    (hub.home("gated") / "gate").touch()

    assert hub.until_settled(gated="RUNNING")["gated"].error_count == 0
    (runs,) = hub.containers().values()
    assert runs["Id"] == begun["Id"], "the very same container"
    assert (hub.home("gated") / "starts").read_text() == ".\n", "started once"
    assert hub.ask(CLAIMS, "gated", "STARTING") == [(1,)]


def test_a_job_ends_with_its_leader_and_the_other_one_archives(
    hub: DockerHub, network: FaultyProxy, coordinators: Coordinators, before: dict[str, Any]
) -> None:
    parts = Counter(network, is_part)
    network.spoil(hold(Event()), is_part)
    job = begin(hub, DesiredState.ARCHIVED, "archive", lambda: parts.more > 0)

    coordinators.kill_leader()

    until(lambda: not is_alive(job), "the end of the job")
    mover = hub.until_settled(mover="ARCHIVED")["mover"]
    assert hub.committed("mover") == {mover.archive}
    assert hub.ask(CLAIMS, "mover", "ARCHIVING") == [(1,)]
    assert (mover.error_count, jobs(hub, "archive")) == (0, [])


def test_a_restore_that_sleeps_and_wakes_up_later_changes_nothing(
    hub: DockerHub, network: FaultyProxy, coordinators: Coordinators, before: dict[str, Any]
) -> None:
    """The leader's own ends with it; one like it, whose parent lives, sleeps in its middle."""
    reads, released = Counter(network, is_archive_read), Event()
    network.spoil(hold(Event()), is_archive_read)
    network.spoil(hold_answer(released, LARGE // 2), is_archive_read)
    job = begin(hub, DesiredState.STANDBY, "restore", lambda: reads.more > 0)
    first = hub.home("mover")
    os.kill(job.pid, signal.SIGSTOP)
    with twin(job) as other:
        until(lambda: any(first.iterdir()), "some of the home")
        os.kill(other.pid, signal.SIGSTOP)

        coordinators.kill_leader()
        mover = hub.until_settled(mover="STANDBY")["mover"]

        until(lambda: not is_alive(job), "the end of the job")
        assert hub.home("mover") != first, "another generation"
        assert describe(hub.home("mover")) == before
        until(lambda: not first.exists(), "the end of the first one")
        os.kill(other.pid, signal.SIGCONT)
        released.set()
        assert other.wait(timeout=PATIENCE) > 0, "it had nowhere to write to"
    assert not first.exists()
    assert describe(hub.home("mover")) == before
    assert hub.volumes() == {mover.home, hub.rows()["gated"].home}
    assert hub.ask(CLAIMS, "mover", "RESTORING") == [(1,)]


@contextmanager
def telling(more: Callable[[], str]) -> Iterator[None]:
    """What fails is told with what else is known then."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{error}\n{more()}") from None


def test_an_archive_that_comes_late_lies_beside_and_is_collected(
    hub: DockerHub, network: FaultyProxy, coordinators: Coordinators, before: dict[str, Any]
) -> None:
    """Of a job that slept when everything was over, and then went on to its very end."""
    parts, ends, released = Counter(network, is_part), Counter(network, is_complete), Event()
    network.spoil(hold(Event()), is_part)
    network.spoil(hold(released), is_complete)
    job = begin(hub, DesiredState.ARCHIVED, "archive", lambda: parts.more > 0)
    os.kill(job.pid, signal.SIGSTOP)
    with twin(job) as other:
        until(lambda: ends.more > 0, "all but the end of the second one")
        os.kill(other.pid, signal.SIGSTOP)

        coordinators.kill_leader()
        archive = hub.until_settled(mover="ARCHIVED")["mover"].archive
        known = hub.archives()
        assert archive in known

        os.kill(other.pid, signal.SIGCONT)
        released.set()
        assert other.wait(timeout=PATIENCE) == 0
    until(lambda: not jobs(hub, "archive"), "the end of all jobs")
    late = hub.archives().keys() - known.keys()
    assert len(late) == 2, "an archive, and its commit"
    assert {each.split("/")[2] for each in late} == {archive.split("/")[2]}, "of that operation"
    assert hub.archives().items() >= known.items()
    assert hub.rows()["mover"].archive == archive
    assert hub.volumes() == {hub.rows()["gated"].home}

    hub.want("mover", DesiredState.STANDBY)
    hub.until_settled(mover="STANDBY")
    assert describe(hub.home("mover")) == before
    until_another_second()
    hub.want("mover", DesiredState.ARCHIVED)
    newest = hub.until_settled(mover="ARCHIVED")["mover"].archive

    def collected() -> bool:
        hub.tell("gc")
        return hub.committed("mover") == {newest}

    with telling(lambda: hub.tell("gc", "--dry-run").out):
        until(collected, "the end of all but the newest archive")


class Counter:
    """How many more requests of a kind were seen."""

    def __init__(self, network: FaultyProxy, kind: Callable[[Request], bool]) -> None:
        self._network, self._kind = network, kind
        self._before = len(network.seen(kind))

    @property
    def more(self) -> int:
        return len(self._network.seen(self._kind)) - self._before


def is_alive(job: Found) -> bool:
    return Path(f"/proc/{job.pid}").exists()


@contextmanager
def twin(job: Found) -> Iterator[subprocess.Popen[bytes]]:
    """The same command with the same environment, as a child of ours: it outlives the leader.

    A job cannot even where it is stopped: the kernel wakes and hangs up on a process group whose
    parent has died.
    """
    of = Path(f"/proc/{job.pid}")
    command = of.joinpath("cmdline").read_bytes().split(b"\0")[:-1]
    environ = of.joinpath("environ").read_bytes().split(b"\0")[:-1]
    process = subprocess.Popen(
        command,
        env=dict(os.fsdecode(each).split("=", 1) for each in environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        process_group=0,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()
