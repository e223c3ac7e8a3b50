"""kill -9 of everything, in each operation and at six random moments, then `codehub up` again:
nothing lost, all converges.

Containers outlive the hub that started them; at some of the moments they are killed with it.
"""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from docker.errors import APIError

from codehub.model.states import DesiredState
from tests.end_to_end.hub import until
from tests.end_to_end.moments import NEVER
from tests.end_to_end_docker.docker_hub import DockerHub, a_docker_hub
from tests.integration.homes import describe, fill_home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.end_to_end_docker.docker_hub import Ground

pytestmark = pytest.mark.timeout(300)

CHANCE = random.Random(20_261_116)
SETTINGS = {"OPERATION_SETTLED_SECONDS": "0"}
"""So many deaths in so short a time would count as a crash loop of the workspaces."""
OPERATIONS = {
    "STOPPING": ("calm", "RUNNING", "STANDBY"),
    "STARTING": ("calm", "STANDBY", "RUNNING"),
    "ARCHIVING": ("mover", "STANDBY", "ARCHIVED"),
    "RESTORING": ("mover", "ARCHIVED", "STANDBY"),
}
"""Which workspace is in it on its way from where to where, in an order that needs no other ways."""
TRIES = 5
MOTIONS = ["rest", *["calm"] * 2, *["mover"] * 3]
CHANCE.shuffle(MOTIONS)
MOMENTS = [(each, CHANCE.uniform(0, 1.0), CHANCE.random() < 0.4) for each in MOTIONS]
"""Which workspace is on its way to its other state, for how many seconds, and whether containers
die too."""


@pytest.fixture(scope="module")
def hub(ground: Ground) -> Iterator[DockerHub]:
    with a_docker_hub(ground, **SETTINGS) as made:
        made.declare(calm=ground.served(NEVER), mover=ground.served(f"{NEVER}, startOn: visit"))
        made.start()
        made.until_settled(calm="RUNNING", mover="STANDBY")
        fill_home(made.home("calm"))
        for number in range(3):
            (made.home("mover") / f"file-{number}").write_bytes(os.urandom(8_000_000))
        fill_home(made.home("mover"))
        yield made


@pytest.fixture(scope="module")
def homes(hub: DockerHub) -> dict[str, Any]:
    """Every file of every home as it was first, by hash and all else."""
    return {name: describe(hub.home(name)) for name in ("calm", "mover")}


@pytest.mark.parametrize(
    ("operation", "die"), [(each, CHANCE.random() < 0.4) for each in OPERATIONS], ids=OPERATIONS
)
def test_killed_in_an_operation_and_started_again(
    hub: DockerHub, homes: dict[str, Any], operation: str, die: bool
) -> None:
    hub.revive()
    expected = stop_in(hub, operation)
    assert hub.rows()[OPERATIONS[operation][0]].operation == operation
    strike(hub, die)
    assert_all_is_well(hub, homes, expected)


@pytest.mark.parametrize(("motion", "seconds", "die"), MOMENTS, ids=range(1, 7))
def test_killed_and_started_again(
    hub: DockerHub, homes: dict[str, Any], motion: str, seconds: float, die: bool
) -> None:
    hub.revive()
    expected = set_in_motion(hub, motion)
    time.sleep(seconds)
    strike(hub, die)
    assert_all_is_well(hub, homes, expected)


def strike(hub: DockerHub, die: bool) -> None:
    hub.kill()
    if die:
        kill_containers(hub)


def assert_all_is_well(hub: DockerHub, homes: dict[str, Any], expected: dict[str, str]) -> None:
    """Once it is up again, everything ends where it was to end, and every file is as it was."""
    hub.start()
    rows = hub.until_settled(**expected)
    assert {row.error_reason for row in rows.values()} == {None}
    assert_nothing_else(hub)
    for name, row in rows.items():
        if row.home:
            assert describe(hub.home(name)) == homes[name], name


def test_nothing_was_lost_in_the_end(hub: DockerHub, homes: dict[str, Any]) -> None:
    for name in homes:
        if hub.rows()[name].desired != "STANDBY":
            hub.want(name, DesiredState.STANDBY)
    hub.until_settled(**dict.fromkeys(homes, "STANDBY"))
    assert {name: describe(hub.home(name)) for name in homes} == homes


def stop_in(hub: DockerHub, operation: str) -> dict[str, str]:
    """Make the hub stand still in this operation; where everything is to end.

    It stands still as a whole, so nothing ends between the look and the strike. One that came to
    its end before that is tried again.
    """
    name, before, after = OPERATIONS[operation]
    for _ in range(TRIES):
        if hub.rows()[name].desired != before:
            hub.settle(name, DesiredState(before))
        hub.want(name, DesiredState(after))
        until(lambda: is_in(hub, name, operation) or is_at(hub, name, after), operation)
        hub.up.send_signal(signal.SIGSTOP)
        if is_in(hub, name, operation):
            return {row.name: row.desired for row in hub.rows().values()}
        hub.up.send_signal(signal.SIGCONT)
        hub.until_settled(**{name: after})
    raise AssertionError(f"{operation} always ended too soon")


def is_in(hub: DockerHub, name: str, operation: str) -> bool:
    return hub.rows()[name].operation == operation


def is_at(hub: DockerHub, name: str, phase: str) -> bool:
    return hub.rows()[name].phase == phase


def set_in_motion(hub: DockerHub, name: str) -> dict[str, str]:
    """Ask for the other state of this workspace, if it is one; where everything is to end."""
    wanted = {row.name: row.desired for row in hub.rows().values()}
    if name in wanted:
        other = {"calm": "RUNNING", "mover": "ARCHIVED"}[name]
        wanted[name] = "STANDBY" if wanted[name] == other else other
        hub.want(name, DesiredState(wanted[name]))
        until(lambda: hub.rows()[name].operation != "NONE", "an operation")
    return wanted


def kill_containers(hub: DockerHub) -> None:
    for each in hub.containers().values():
        with suppress(APIError):  # what does not run cannot be killed
            hub.client.kill(each["Id"])
    assert hub.alive() == set()


def assert_nothing_else(hub: DockerHub) -> None:
    """One hub, one container of each workspace that runs, one volume of each that has a home."""
    hub.assert_no_second()
    rows = hub.rows().values()
    assert hub.containers().keys() == {str(row.id) for row in rows if row.phase == "RUNNING"}
    homes = {row.home for row in rows if row.home}
    until(lambda: hub.volumes() == homes, f"the end of all volumes but {homes}")
