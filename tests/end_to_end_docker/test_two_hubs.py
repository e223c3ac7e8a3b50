"""Two hubs on one engine, with their archives in one bucket: each sees and collects its own."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from codehub.model.states import DesiredState
from tests.end_to_end.hub import until, until_another_second
from tests.end_to_end.moments import NEVER
from tests.end_to_end_docker.docker_hub import DockerHub, a_served_hub

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.end_to_end_docker.docker_hub import Ground

pytestmark = pytest.mark.timeout(300)

LATER = f"{NEVER}, startOn: visit"


@pytest.fixture
def hubs(ground: Ground) -> Iterator[list[DockerHub]]:
    bucket = ground.s3.make_bucket()
    with ExitStack() as stack:
        made = [
            stack.enter_context(a_served_hub(ground, bucket=bucket, GC_ORPHAN_SECONDS="0"))
            for _ in range(2)
        ]
        for hub in made:
            hub.declare(api=ground.served(NEVER), packed=ground.served(LATER))
            hub.coordinate()
        for hub in made:
            hub.until_settled(api="RUNNING", packed="STANDBY")
        yield made


def archive_twice(hub: DockerHub) -> str:
    """So that nothing needs the first of its archives any more; the key of the second."""
    (hub.home("packed") / "notes").write_text(hub.id)
    for state in (DesiredState.ARCHIVED, DesiredState.STANDBY, DesiredState.ARCHIVED):
        hub.want("packed", state)
        hub.until_settled(packed=state.value)
        until_another_second()
    newest = hub.rows()["packed"].archive
    assert newest is not None
    assert hub.committed("packed") > {newest}
    return newest


def test_each_sees_and_collects_its_own(hubs: list[DockerHub]) -> None:
    one, other = hubs
    newest = [archive_twice(hub) for hub in hubs]
    theirs = other.archives()

    def collected(hub: DockerHub, archive: str) -> bool:
        hub.tell("gc")
        return hub.committed("packed") == {archive}

    until(lambda: collected(one, newest[0]), "the end of the first archive")

    assert other.archives() == theirs, "the other hub's were not looked at"
    seen = json.loads(one.tell("gc", "--dry-run", "--format", "json").out)
    assert other.id not in json.dumps(seen)
    until(lambda: collected(other, newest[1]), "the end of the other's first archive")
    assert one.committed("packed") == {newest[0]}

    for hub in hubs:
        hub.want("packed", DesiredState.STANDBY)
        hub.until_settled(api="RUNNING", packed="STANDBY")
        assert (hub.home("packed") / "notes").read_text() == hub.id
        assert hub.alive() == {str(hub.rows()["api"].id)}
    assert not one.volumes() & other.volumes()
