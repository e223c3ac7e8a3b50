"""A wrong bucket, and an engine that is not the hub's: nobody counts as lost, nothing is removed,
and everything goes on when it was put right."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from codehub.adapters.docker.labels import HUB
from codehub.core.keys import marker_key
from codehub.model.states import DesiredState
from tests.end_to_end.hub import until
from tests.end_to_end.moments import NEVER
from tests.end_to_end_docker.docker_hub import PREFIX, DockerHub, a_served_hub
from tests.engine.second_engine import SecondEngine, second_engine
from tests.integration.homes import describe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.end_to_end_docker.docker_hub import Ground

pytestmark = pytest.mark.timeout(300)

ARCHIVED, STANDBY, RUNNING = DesiredState.ARCHIVED, DesiredState.STANDBY, DesiredState.RUNNING
LATER = f"{NEVER}, startOn: visit"
STATES = {"packed": ARCHIVED, "asleep": STANDBY, "awake": RUNNING}
NOTES = os.urandom(1000)
ERRORS = "SELECT count(*) FROM workspace_events WHERE kind = 'phase' AND new = 'ERROR'"


def declared(hub: DockerHub) -> dict[str, str]:
    return dict.fromkeys(STATES, hub.ground.served(LATER))


@pytest.fixture(scope="module")
def made(ground: Ground) -> Iterator[DockerHub]:
    with a_served_hub(ground) as hub:
        hub.declare(**declared(hub))
        hub.coordinate()
        hub.until_settled(packed="STANDBY", asleep="STANDBY", awake="STANDBY")
        for name in STATES:
            (hub.home(name) / "notes").write_bytes(NOTES)
        yield hub


@pytest.fixture
def hub(made: DockerHub) -> DockerHub:
    """One of each state, in the right places."""
    for name, state in STATES.items():
        if made.rows()[name].desired != state:
            made.want(name, state)
    made.until_settled(**STATES)
    return made


def restart(hub: DockerHub, **settings: str) -> None:
    """Another coordinator, with other settings."""
    assert hub.signal(signal.SIGTERM) == 0
    hub.settings |= settings
    started = hub.coordinate()
    until(lambda: hub.leader() == started.pid, "a leader")


def everything(hub: DockerHub) -> dict[str, Any]:
    """What must stay as it is while nobody knows."""
    homes = {name: describe(hub.home(name)) for name, row in hub.rows().items() if row.home}
    return {"volumes": hub.volumes(), "homes": homes, "archives": hub.archives()}


def content(hub: DockerHub, bucket: str) -> list[str]:
    listed = hub.ground.s3.client.list_objects_v2(Bucket=bucket)
    return [each["Key"] for each in listed.get("Contents", [])]


@pytest.mark.parametrize(
    ("marked", "words"),
    [
        (False, "the archive store does not have this hub's mark"),
        (True, "the archive store is marked as that of another hub"),
    ],
    ids=["empty", "of-another-hub"],
)
def test_a_wrong_bucket(hub: DockerHub, marked: bool, words: str) -> None:
    right, wrong = hub.settings["ARCHIVE_STORE_URL"], hub.ground.s3.make_bucket()
    if marked:
        key, text = f"{PREFIX}{marker_key(UUID(hub.id))}", json.dumps({"hub": str(uuid4())})
        hub.ground.s3.client.put_object(Bucket=wrong, Key=key, Body=text.encode())
    before, there = everything(hub), content(hub, wrong)

    restart(hub, ARCHIVE_STORE_URL=f"s3://{wrong}/{PREFIX}")
    hub.want("packed", STANDBY)
    hub.want("asleep", ARCHIVED)
    hub.until_told("packed", words)
    hub.until_told("asleep", words)
    hub.want("awake", STANDBY)

    rows = hub.until_settled(awake="STANDBY")
    assert (rows["packed"].phase, rows["asleep"].phase) == ("ARCHIVED", "STANDBY")
    assert everything(hub) == before
    assert content(hub, wrong) == there, "and nothing was put there"

    restart(hub, ARCHIVE_STORE_URL=right)
    hub.until_settled(packed="STANDBY", asleep="ARCHIVED")
    assert (hub.home("packed") / "notes").read_bytes() == NOTES
    assert hub.ask(ERRORS) == [(0,)]


def test_another_engine(hub: DockerHub) -> None:
    """One that has all it takes, but for the hub's volumes."""
    right, before, containers = hub.settings["DOCKER_HOST"], everything(hub), hub.alive()
    words = f"this is not the Docker engine of this hub: it has no volume {hub.marker}"
    with second_engine() as other:
        there = things(other)

        restart(hub, DOCKER_HOST=other.base_url)
        hub.until_told("awake", words)
        for name, state in {"packed": STANDBY, "asleep": RUNNING, "awake": STANDBY}.items():
            hub.want(name, state)
            hub.until_told(name, words)

        rows = hub.rows()
        assert {name: rows[name].phase for name in STATES} == STATES
        assert things(other) == there, "and nothing was made there"
        assert everything(hub) == before
        assert hub.alive() == containers == {str(rows["awake"].id)}
        restart(hub, DOCKER_HOST=right)

    hub.until_settled(packed="STANDBY", asleep="RUNNING", awake="STANDBY")
    for name in STATES:
        assert (hub.home(name) / "notes").read_bytes() == NOTES
    assert hub.ask(ERRORS) == [(0,)]


def things(engine: SecondEngine) -> list[set[str]]:
    """The volumes, networks, containers and images of another engine."""
    with engine.client() as client:
        return [
            {each["Name"] for each in client.volumes()["Volumes"] or ()},
            {each["Name"] for each in client.networks()},
            {each["Id"] for each in client.containers(all=True)},
            {each["Id"] for each in client.images()},
        ]


def test_an_engine_without_the_mark_of_the_hub(hub: DockerHub) -> None:
    """As one whose volumes are gone, or one that was reset."""
    before, containers = everything(hub), hub.containers()
    words = f"this is not the Docker engine of this hub: it has no volume {hub.marker}"
    hub.client.remove_volume(hub.marker)
    try:
        hub.until_told("awake", words)
        for name, state in {"packed": STANDBY, "asleep": RUNNING, "awake": STANDBY}.items():
            hub.want(name, state)
        hub.declare(late=hub.ground.served(LATER), **declared(hub))
        restart(hub)

        hub.until_told("late", words)
        rows = hub.rows()
        assert {name: rows[name].phase for name in STATES} == STATES
        assert everything(hub) == before
        assert hub.containers().keys() == containers.keys() == {str(rows["awake"].id)}
        assert not hub.is_marked(), "and nobody marked it anew"
    finally:
        hub.client.create_volume(hub.marker, labels={HUB: hub.id})

    hub.until_settled(packed="STANDBY", asleep="RUNNING", awake="STANDBY", late="STANDBY")
    for name in STATES:
        assert (hub.home(name) / "notes").read_bytes() == NOTES
    assert hub.ask(ERRORS) == [(0,)]
