"""Lost homes, crash loops, missing images and damaged archives on Docker and S3: people are told,
and nothing that is left is touched."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from codehub.adapters.docker.labels import volume_labels
from codehub.model.runtime import VolumeRef
from codehub.model.states import DesiredState
from tests.contract.docker_registry import registry
from tests.end_to_end.hub import until
from tests.end_to_end.moments import NEVER
from tests.end_to_end_docker.docker_hub import PREFIX, DockerHub, a_served_hub
from tests.integration.homes import describe, fill_home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.end_to_end_docker.docker_hub import Ground

pytestmark = pytest.mark.timeout(300)

ARCHIVED, STANDBY, RUNNING = DesiredState.ARCHIVED, DesiredState.STANDBY, DesiredState.RUNNING
LATER = f"{NEVER}, startOn: visit"
CRASHES = 'echo "reading the settings"; echo "no such key: colour" >&2; exit 3'
COLLAPSES = 'httpd -p $PORT -h $HOME; sleep 0.3; echo "out of colours" >&2; exit 7'


@pytest.fixture(scope="module")
def hub(ground: Ground) -> Iterator[DockerHub]:
    with registry() as images, a_served_hub(ground) as made:
        made.declare(
            first=ground.served(LATER),
            second=ground.served(LATER),
            damaged=ground.served(LATER),
            robbed=ground.served(LATER),
            borrowed=ground.served(LATER),
            littered=ground.served(LATER),
            crashes=ground.served(LATER, CRASHES),
            collapses=ground.served(LATER, COLLAPSES),
            missing=f"image: '{images.address}/team/missing:1', {LATER}",
        )
        made.coordinate()
        names = ("first", "second", "damaged", "robbed", "borrowed", "littered", "missing")
        made.until_settled(**dict.fromkeys(names, "STANDBY"))
        yield made


def lose_home(hub: DockerHub, name: str) -> None:
    """Remove its volume, as somebody with `docker volume rm` would."""
    home = hub.rows()[name].home
    assert home is not None
    hub.client.remove_volume(home)
    hub.until_error(name, "DataLost")
    assert hub.volumes_of(name) == set(), "no empty home took its place"


def test_a_lost_home_comes_back_from_the_last_archive_when_asked_for(hub: DockerHub) -> None:
    fill_home(hub.home("first"))
    before = describe(hub.home("first"))
    hub.settle("first", ARCHIVED)
    hub.settle("first", STANDBY)
    (hub.home("first") / "since then").write_text("not in the archive")

    lose_home(hub, "first")

    refused = hub.run("recover", "first")
    assert refused.code != 0
    assert "--from-archive" in refused.err, refused.err
    assert hub.rows()["first"].phase == "ERROR"
    hub.tell("recover", "first", "--from-archive", "--wait")
    hub.until_settled(first="STANDBY")
    assert describe(hub.home("first")) == before


def test_a_lost_home_is_replaced_by_an_empty_one_when_asked_for(hub: DockerHub) -> None:
    (hub.home("second") / "notes.txt").write_text("gone")
    lose_home(hub, "second")

    hub.tell("recover", "second", "--accept-empty", "--wait")

    hub.until_settled(second="STANDBY")
    assert list(hub.home("second").iterdir()) == []
    hub.settle("second", RUNNING)


def test_a_command_that_ends_at_once_ends_in_error_with_its_last_words(hub: DockerHub) -> None:
    (hub.home("crashes") / "notes.txt").write_text("kept")
    hub.want("crashes", RUNNING)

    row = hub.until_error("crashes", "RetryExceeded")

    assert row.error_message is not None
    assert "exit code 3 before its port answered" in row.error_message
    assert "reading the settings" in row.error_message
    assert "no such key: colour" in row.error_message
    assert row.error_count == 4, "one try and three retries"
    until(lambda: str(row.id) not in hub.containers(), "the end of its container")
    assert (hub.home("crashes") / "notes.txt").read_text() == "kept"


def test_a_workspace_that_ends_again_and_again_ends_in_error(hub: DockerHub) -> None:
    """It answers each time, and each time it ends by itself."""
    hub.want("collapses", RUNNING)
    row = hub.until_error("collapses", "RetryExceeded")
    assert row.error_count == 4
    assert "out of colours" in hub.tell("logs", "collapses").out
    assert str(row.id) not in hub.alive()


def test_a_volume_of_the_past_is_removed_and_told_of_once(hub: DockerHub) -> None:
    """At first somebody has it, so that it is tried again and again."""
    hub.settle("littered", ARCHIVED)
    hub.settle("littered", STANDBY)
    row = hub.rows()["littered"]
    old = VolumeRef(row.id, 1, "littered")
    assert row.home == VolumeRef(row.id, 2).name
    hub.client.create_volume(old.name, labels=volume_labels(hub.id, old))
    with borrowed(hub, old.name):
        until(lambda: "stray" in hub.tell("events", "littered").out, "a word on it")
        hub.settle("littered", RUNNING)
        assert old.name in hub.volumes()

    until(lambda: old.name not in hub.volumes(), "its end")

    (line,) = [each for each in hub.tell("events", "littered").out.splitlines() if "stray" in each]
    assert f"{old.name} -> removed  by controller: " in line
    assert hub.rows()["littered"].phase == "RUNNING", "nobody is disturbed by it"


@contextmanager
def borrowed(hub: DockerHub, volume: str) -> Iterator[str]:
    """Inside, a container that is not the hub's has the volume; its name."""
    mount = {"Type": "volume", "Source": volume, "Target": "/mnt"}
    config = {"Image": hub.ground.image, "Cmd": ["sh"], "HostConfig": {"Mounts": [mount]}}
    name = f"borrower-{volume}"
    hub.client.create_container_from_config(config, name)
    try:
        yield name
    finally:
        hub.client.remove_container(name)


def test_an_image_that_is_nowhere_is_an_error_at_once(hub: DockerHub) -> None:
    hub.want("missing", RUNNING)
    row = hub.until_error("missing", "ImagePullFailed")
    assert "team/missing:1" in (row.error_message or "")
    assert row.error_count == 1
    assert hub.volumes_of("missing") == {row.home}, "the home is kept"


def test_a_home_that_a_container_of_somebody_else_has_is_not_archived(hub: DockerHub) -> None:
    """Stopped or not: what it writes after the archive would be lost with the volume."""
    (hub.home("borrowed") / "notes.txt").write_text("before")
    home = hub.rows()["borrowed"].home
    assert home is not None
    with borrowed(hub, home) as name:
        hub.want("borrowed", ARCHIVED)
        row = hub.until_error("borrowed", "RetryExceeded")
        assert f"'docker rm --force {name}'" in (row.error_message or "")
        assert (row.archive, row.home) == (None, home)
        (hub.home("borrowed") / "notes.txt").write_text("after")
    hub.tell("recover", "borrowed", "--wait")
    hub.until_settled(borrowed="ARCHIVED")
    hub.settle("borrowed", STANDBY)
    assert (hub.home("borrowed") / "notes.txt").read_text() == "after"


def test_a_damaged_archive_is_kept_and_its_half_home_is_not(hub: DockerHub) -> None:
    (hub.home("damaged") / "data").write_bytes(os.urandom(100_000))
    before = describe(hub.home("damaged"))
    hub.settle("damaged", ARCHIVED)
    archive = hub.rows()["damaged"].archive
    assert archive is not None
    flip(hub, archive, 50_000)
    flipped = hub.archives()

    hub.want("damaged", STANDBY)
    row = hub.until_error("damaged", "ArchiveCorrupted")

    until(lambda: hub.volumes_of("damaged") == set(), "the end of the new volume")
    assert row.archive == archive
    assert hub.archives() == flipped, "the archive is kept as it is"
    flip(hub, archive, 50_000)
    hub.tell("recover", "damaged", "--wait")
    hub.until_settled(damaged="STANDBY")
    assert describe(hub.home("damaged")) == before


@pytest.mark.parametrize("end", ["", ".meta"], ids=["archive", "commit-marker"])
def test_an_archive_that_somebody_removed_is_a_loss_and_no_empty_home(
    hub: DockerHub, end: str
) -> None:
    (hub.home("robbed") / "data").write_bytes(os.urandom(100_000))
    before = describe(hub.home("robbed"))
    hub.settle("robbed", ARCHIVED)
    archive = hub.rows()["robbed"].archive
    assert archive is not None
    removed = take(hub, f"{archive}{end}")
    left = hub.archives()

    hub.want("robbed", STANDBY)
    row = hub.until_error("robbed", "DataLost")

    assert (row.archive, row.home) == (archive, None), "and no empty home took its place"
    assert hub.archives() == left, "what is left of it is kept"
    hub.ground.s3.client.put_object(Bucket=hub.bucket, **removed)
    hub.tell("recover", "robbed", "--from-archive", "--wait")
    hub.until_settled(robbed="STANDBY")
    assert describe(hub.home("robbed")) == before
    until(lambda: hub.volumes_of("robbed") == {hub.rows()["robbed"].home}, "one volume")


def take(hub: DockerHub, key: str) -> dict[str, Any]:
    """Remove an object from the bucket, as somebody who tidies up; what brings it back."""
    s3, name = hub.ground.s3.client, f"{PREFIX}{key}"
    found = s3.get_object(Bucket=hub.bucket, Key=name)
    body = found["Body"].read()
    s3.delete_object(Bucket=hub.bucket, Key=name)
    return {"Key": name, "Body": body, "Metadata": found["Metadata"]}


def flip(hub: DockerHub, archive: str, at: int) -> None:
    """One bit of an object, in the bucket."""
    s3, key = hub.ground.s3.client, f"{PREFIX}{archive}"
    data = bytearray(s3.get_object(Bucket=hub.bucket, Key=key)["Body"].read())
    data[at] ^= 1
    s3.put_object(Bucket=hub.bucket, Key=key, Body=bytes(data))
