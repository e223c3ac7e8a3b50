"""Buckets that are full, shut or silent, beside Docker: every home is kept, and people are told."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from codehub.model.states import DesiredState
from tests.conftest import open_directory
from tests.contract.s3_faults import (
    FOR_EVER,
    FaultyProxy,
    any_request,
    cut_request,
    is_part,
    reply,
)
from tests.contract.s3_server import S3Server
from tests.coordination.machine import small_disk
from tests.end_to_end.hub import until
from tests.end_to_end.moments import NEVER
from tests.end_to_end_docker.docker_hub import DockerHub, a_served_hub
from tests.integration.homes import describe, fill_home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.end_to_end_docker.docker_hub import Ground

pytestmark = pytest.mark.timeout(300)

ARCHIVED, STANDBY, RUNNING = DesiredState.ARCHIVED, DesiredState.STANDBY, DesiredState.RUNNING
LATER = f"{NEVER}, startOn: visit"
HASTY = {"S3_MAX_ATTEMPTS": "1"}
LARGE = 12_000_000
"""Bytes, enough for several parts of an upload."""
ERRORS = "SELECT count(*) FROM workspace_events WHERE kind = 'phase' AND new = 'ERROR'"
GONE = "SELECT phase, archive_key FROM workspaces WHERE id = %s"


@pytest.fixture(scope="module")
def made(ground: Ground, network: FaultyProxy) -> Iterator[DockerHub]:
    names = ("packed", "asleep", "awake", "large", "broken")
    with a_served_hub(ground, S3_ENDPOINT_URL=network.url, **HASTY) as hub:
        hub.declare(**dict.fromkeys(names, ground.served(LATER)))
        hub.coordinate()
        hub.until_settled(**dict.fromkeys(names, "STANDBY"))
        for name in names:
            fill_home(hub.home(name))
        yield hub


@pytest.fixture
def hub(made: DockerHub, network: FaultyProxy) -> Iterator[DockerHub]:
    """The network is well before and after."""
    yield made
    network.heal()


def content(hub: DockerHub, name: str) -> dict[str, Any]:
    return describe(hub.home(name))


SHUT = {
    "denied": (reply(403, "AccessDenied"), "the archive store denies us access"),
    "busy": (reply(503, "SlowDown"), "the archive store is not able to answer now"),
    "cut": (cut_request, "the connection to the archive store broke off"),
}


@pytest.mark.parametrize(("fault", "words"), SHUT.values(), ids=list(SHUT))
def test_a_bucket_that_cannot_be_read_loses_nobody(
    hub: DockerHub, network: FaultyProxy, fault: Callable[..., None], words: str
) -> None:
    for name, state in {"packed": STANDBY, "asleep": STANDBY, "awake": RUNNING}.items():
        if hub.rows()[name].phase != state:
            hub.settle(name, state)
    packed, asleep, errors = content(hub, "packed"), content(hub, "asleep"), hub.ask(ERRORS)
    hub.settle("packed", ARCHIVED)
    archive, stored = hub.rows()["packed"].archive, hub.archives()

    network.spoil(fault, any_request, FOR_EVER)
    hub.want("packed", STANDBY)
    hub.want("asleep", ARCHIVED)
    hub.until_told("packed", words)
    hub.until_told("asleep", words)
    hub.settle("awake", STANDBY)

    rows = hub.rows()
    assert (rows["packed"].phase, rows["packed"].archive) == ("ARCHIVED", archive)
    assert (rows["asleep"].phase, hub.volumes_of("asleep")) == ("STANDBY", {rows["asleep"].home})
    assert {row.error_count for row in rows.values()} == {0}, "it is not the workspaces' fault"
    assert content(hub, "asleep") == asleep
    assert hub.archives() == stored

    network.heal()
    hub.until_settled(packed="STANDBY", asleep="ARCHIVED")
    assert hub.rows()["packed"].archive == archive
    assert content(hub, "packed") == packed
    hub.settle("asleep", STANDBY)
    assert content(hub, "asleep") == asleep
    assert hub.ask(ERRORS) == errors


def test_a_bucket_that_says_it_is_full_is_an_error_and_the_home_is_kept(
    hub: DockerHub, network: FaultyProxy
) -> None:
    (hub.home("large") / "noise").write_bytes(os.urandom(LARGE))
    before = content(hub, "large")
    network.spoil(reply(507, "InsufficientStorage"), is_part, FOR_EVER)
    hub.want("large", ARCHIVED)

    row = hub.until_error("large", "RetryExceeded")

    assert row.error_message is not None
    assert row.error_message.startswith("no space is left in the archive store")
    assert row.error_count == 4, "one try and three retries"
    assert (row.archive, hub.volumes_of("large")) == (None, {row.home})
    assert content(hub, "large") == before
    assert hub.committed("large") == set(), "and no half archive"
    network.heal()
    hub.tell("recover", "large", "--wait")
    hub.until_settled(large="ARCHIVED")
    assert hub.volumes_of("large") == set()
    hub.settle("large", STANDBY)
    assert content(hub, "large") == before


def test_what_is_deleted_in_error_keeps_its_home_until_there_is_an_archive(
    hub: DockerHub, network: FaultyProxy
) -> None:
    before, others = content(hub, "broken"), dict.fromkeys(hub.rows(), hub.ground.served(LATER))
    del others["broken"]
    hub.redeclare(**others, broken=hub.ground.served(LATER, "exit 3"))
    hub.want("broken", RUNNING)
    first = hub.until_error("broken", "RetryExceeded")
    network.spoil(reply(507, "InsufficientStorage"), lambda each: each.method == "PUT", FOR_EVER)

    hub.redeclare(**others)
    until(lambda: "no space" in (hub.rows()["broken"].error_message or ""), "a failed archive")
    stuck = hub.until_error("broken", "RetryExceeded")

    assert (stuck.desired, stuck.home) == ("DELETED", first.home)
    assert hub.volumes_of("broken") == {first.home}
    assert content(hub, "broken") == before
    assert "codehub delete broken --discard-data" in hub.tell("explain", "broken").out
    network.heal()
    hub.tell("recover", "broken")
    until(lambda: "broken" not in hub.rows(), "its end")
    ((phase, archive),) = hub.ask(GONE, first.id)
    assert (phase, archive in hub.archives()) == ("DELETED", True)
    until(lambda: first.home not in hub.volumes(), "the end of its volume")

    hub.redeclare(**others, broken=hub.ground.served(LATER))
    hub.until_settled(broken="STANDBY")
    assert hub.rows()["broken"].id == first.id
    assert content(hub, "broken") == before


def test_a_server_whose_disk_is_full_is_waited_for(ground: Ground) -> None:
    """It calls that an error of its own, so nobody can tell it from one that passes."""
    with (
        open_directory() as path,
        small_disk(path / "s3", "4m") as resize,
        S3Server(path / "s3") as server,
        a_served_hub(replace(ground, s3=server), **HASTY) as hub,
    ):
        hub.declare(large=ground.served(LATER))
        hub.coordinate()
        hub.until_settled(large="STANDBY")
        fill_home(hub.home("large"))
        (hub.home("large") / "noise").write_bytes(os.urandom(LARGE))
        before = content(hub, "large")
        hub.want("large", ARCHIVED)

        hub.until_told("large", "the archive store has an error of its own, such as a full disk")

        row = hub.rows()["large"]
        assert (row.phase, row.operation, row.error_count) == ("STANDBY", "ARCHIVING", 0)
        assert (row.archive, hub.volumes_of("large")) == (None, {row.home})
        assert content(hub, "large") == before
        assert hub.committed("large") == set()
        resize("64m")
        done = hub.until_settled(large="ARCHIVED")["large"]
        assert hub.committed("large") == {done.archive}
        hub.settle("large", STANDBY)
        assert content(hub, "large") == before
