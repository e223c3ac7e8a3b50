"""A hub whose workspaces are containers of this machine's engine and whose archives are in S3.

What it makes on the engine carries its id and goes with it; nothing else there is touched.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from codehub.adapters.docker.labels import HUB, WORKSPACE, container_name
from codehub.core.keys import ARCHIVE_NAME, archive_of
from codehub.errors import DatabaseProblem
from tests.conftest import cloned_database, open_directory
from tests.contract.docker_engine import SOCKET, remove_labelled
from tests.end_to_end.hub import Hub, Row, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    import docker

    from codehub.model.states import DesiredState
    from tests.contract.s3_server import S3Server

QUICK = {
    "COORDINATOR_IDLE_INTERVAL": "1",
    "COORDINATOR_ACTIVE_INTERVAL": "0.2",
    "COORDINATOR_WATCH_QUIET": "0.1",
    "OPERATION_BACKOFF_SECONDS": "0.2",
    "OPERATION_BACKOFF_MAX_SECONDS": "1",
    "OPERATION_STOP_GRACE_SECONDS": "2",
}
"""Everything as usual, only sooner."""
PREFIX = "hubs/"
REVISIONS = "SELECT count(*) FROM spec_revisions"
DATABASES = 16
"""Of one Redis."""
_numbers = count(1)


@dataclass(frozen=True)
class Ground:
    """What all hubs of a session stand on: an engine, an image on it, and servers."""

    client: docker.APIClient
    image: str
    s3: S3Server
    postgres_url: str
    template: str
    redis_url: str

    @contextmanager
    def services(self) -> Iterator[dict[str, str]]:
        """Settings for a hub without services of its own: a database here, and one of Redis."""
        with cloned_database(self.postgres_url, self.template) as url:
            redis = f"{self.redis_url}?db={next(_numbers) % DATABASES}"
            yield {"DATABASE_URL": url, "REDIS_URL": redis}

    def served(self, more: str, command: str = "exec httpd -f -p $PORT -h $HOME") -> str:
        """The spec of a workspace with our image."""
        return f"image: '{self.image}', command: [sh, -c, '{command}'], {more}"


class DockerHub(Hub):
    """`bucket` is where its archives are; a new one, unless one is given."""

    runtime = "docker"

    def __init__(
        self, directory: Path, settings: dict[str, str], ground: Ground, bucket: str | None
    ) -> None:
        super().__init__(directory, settings)
        self.ground = ground
        self.client = ground.client
        self.bucket = bucket or ground.s3.make_bucket()
        self.settings = {
            **QUICK,
            **ground.s3.environment,
            # By this, all its processes are found.
            "CODEHUB_DATA": str(self.data),
            "RUNTIME_ENABLED": "docker",
            "DOCKER_HOST": f"unix://{SOCKET}",
            "ARCHIVE_STORE_URL": f"s3://{self.bucket}/{PREFIX}",
            "S3_ENDPOINT_URL": ground.s3.url,
            "S3_ADDRESSING": "path",
            **settings,
        }

    @cached_property
    def id(self) -> str:
        """The hub's own; it has one as soon as it was led once."""
        return str(until(lambda: self.ask("SELECT id FROM hub"), "the id of the hub")[0][0])

    @property
    def label(self) -> str:
        return f"{HUB}={self.id}"

    @property
    def marker(self) -> str:
        return f"codehub-{self.id}-marker"

    def start(self, *words: str) -> None:
        super().start("--runtime", "docker", *words)
        assert self.id

    def redeclare(self, **workspaces: str) -> None:
        """As somebody who edits the specs while the hub runs, until they are loaded."""
        (before,) = self.ask(REVISIONS)
        self.declare(**workspaces)
        until(lambda: self.ask(REVISIONS) != [before], "another revision")

    def containers(self) -> dict[str, dict[str, Any]]:
        """Every container of the hub as the engine lists it, by the id of its workspace."""
        found = self.client.containers(all=True, filters={"label": [self.label]})
        return {each["Labels"][WORKSPACE]: each for each in found}

    def alive(self) -> set[str]:
        return {key for key, each in self.containers().items() if each["State"] == "running"}

    def is_marked(self) -> bool:
        """Whether the engine has the hub's mark."""
        return self.marker in self._labelled_volumes()

    def volumes(self) -> set[str]:
        """The names of its volumes, the marker aside."""
        return self._labelled_volumes() - {self.marker}

    def volumes_of(self, name: str) -> set[str]:
        workspace = str(self.rows()[name].id)
        return {each for each in self.volumes() if workspace in each}

    def _labelled_volumes(self) -> set[str]:
        found = self.client.volumes(filters={"label": [self.label]})["Volumes"] or []
        return {each["Name"] for each in found}

    def settle(self, name: str, state: DesiredState) -> None:
        """Ask for a state until it is there."""
        self.want(name, state)
        self.until_settled(**{name: state.value})

    def until_error(self, name: str, reason: str) -> Row:
        """Until it is in ERROR for this reason, and people are told."""
        until(lambda: self.rows()[name].phase == "ERROR", f"an error of {name}")
        row = self.rows()[name]
        assert (row.operation, row.error_reason) == ("NONE", reason), row.error_message
        assert reason in self.tell("status").out
        return row

    def until_told(self, name: str, words: str) -> None:
        """Until `codehub status` says that it waits for something that does not answer."""
        line = f"{name}: Unreachable: {words}"
        until(lambda: line in self.run("status", name).out, f"the line {line!r}")

    def home(self, name: str) -> Path:
        key = self.rows()[name].home
        assert key is not None, f"{name} has no home"
        return Path(self.client.inspect_volume(key)["Mountpoint"])

    def execute(self, name: str, script: str, user: str = "root") -> str:
        """Run a script of the shell in the workspace's container, and what it said."""
        container = container_name(self.rows()[name].id)
        made = self.client.exec_create(container, ["sh", "-ec", script], user=user)
        said: bytes = self.client.exec_start(made["Id"])
        code = self.client.exec_inspect(made["Id"])["ExitCode"]
        assert code == 0, said.decode(errors="replace")
        return said.decode()

    def archives(self) -> dict[str, str]:
        """Its archives and their commit markers in the bucket, by the hub's own keys: the ETags."""
        pages = self.ground.s3.client.get_paginator("list_objects_v2")
        found = pages.paginate(Bucket=self.bucket, Prefix=f"{PREFIX}{self.id}/")
        objects = [each for page in found for each in page.get("Contents", [])]
        sums = {each["Key"].removeprefix(PREFIX): each["ETag"] for each in objects}
        return {key: sums[key] for key in sums if ARCHIVE_NAME in key}

    def committed(self, name: str) -> set[str]:
        """The archives of a workspace that have their commit marker."""
        workspace = str(self.rows()[name].id)
        archives = {archive_of(key) for key in self.archives()}
        return {key for key in archives if key and key.split("/")[1] == workspace}

    def end(self) -> None:
        known = vars(self).get("id") or self._find_id()
        self.kill()
        if known:
            remove_labelled(self.client, f"{HUB}={known}")

    def _find_id(self) -> str | None:
        """Where a test ended before it asked; without an id the hub never used the engine."""
        with suppress(psycopg.Error, DatabaseProblem):
            return next((str(row[0]) for row in self.ask("SELECT id FROM hub")), None)
        return None


@contextmanager
def a_docker_hub(
    ground: Ground, *, bucket: str | None = None, **settings: str
) -> Iterator[DockerHub]:
    """A hub that was not started yet. What it makes is gone at the end, whatever happened."""
    with open_directory() as directory:
        hub = DockerHub(directory, settings, ground, bucket)
        try:
            yield hub
        finally:
            hub.end()


@contextmanager
def a_served_hub(
    ground: Ground, *, bucket: str | None = None, **settings: str
) -> Iterator[DockerHub]:
    """The same on the session's own services, for coordinators."""
    with (
        ground.services() as services,
        a_docker_hub(ground, bucket=bucket, **services, **settings) as hub,
    ):
        yield hub
