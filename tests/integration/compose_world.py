"""The services of `deploy/compose` as containers of this machine's engine, no image pulled.

Those of CodeHub run as the file says: command, user, rights, limits, mounts, network. Their image
is a stand-in that holds nothing; Python and the code are mounted into it from this machine. The
servers behind them are those of the tests, at other ports. Everything carries one label and goes.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from codehub.adapters.docker.labels import HUB
from codehub.embedded.redis_program import wheel_program
from tests.conftest import open_directory
from tests.contract.docker_engine import TEST, engine_client, imported_image, remove_labelled
from tests.end_to_end.hub import until
from tests.integration.compose_file import ROOT, services, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import docker

    from tests.integration.compose_file import Service

PATIENCE = 60
IMAGE_USER = "10001:10001"
"""As the Dockerfile's."""
_SYSTEM = ("bin", "lib", "lib64")
"""Not `sbin`, where the engine puts its init."""


class Composed:
    """Starts services by their names. `values` are of `.env`, `moved` old and new addresses.

    What is moved first is looked for first; an address that was put in may hold another's digits.
    """

    def __init__(
        self,
        client: docker.APIClient,
        image: str,
        code: list[str],
        values: Mapping[str, str],
        moved: Mapping[str, str],
    ) -> None:
        self.client = client
        self.services = services(values)
        self._image = image
        self._code = code
        self._moved = moved
        self._label = uuid4().hex[:12]

    def environment(self, name: str) -> dict[str, str]:
        """The service's own, with the addresses of the servers that are really there."""
        given = self.services[name].get("environment", {})
        return {key: self._move(value) for key, value in given.items()}

    def start(self, name: str) -> str:
        service = self.services[name]
        path = os.pathsep.join((f"{sys.prefix}/bin", "/usr/bin", "/bin"))
        made = self.client.create_container(
            self._image,
            as_command([self._move(each) for each in words(service)]),
            name=self.container(name),
            hostname=service.get("hostname"),
            user=service.get("user", IMAGE_USER),
            environment={**self.environment(name), "PATH": path, "NO_COLOR": "1", "HOME": "/tmp"},
            working_dir="/srv",
            labels={TEST: self._label},
            host_config=self.client.create_host_config(**self._host(service)),
        )
        self.client.start(made["Id"])
        return str(made["Id"])

    def run(self, name: str) -> int:
        """To its end; the exit code."""
        started = self.start(name)
        code = self.client.wait(started, timeout=PATIENCE)["StatusCode"]
        return int(code)

    def is_healthy(self, name: str) -> bool:
        """By the service's own check."""
        test = self.services[name]["healthcheck"]["test"]
        return self.execute(name, [self._move(each) for each in test[1:]])[0] == 0

    def execute(self, name: str, command: list[str]) -> tuple[int, str]:
        """A command inside, as `docker compose exec` or a health check: code and output."""
        made = self.client.exec_create(self.container(name), as_command(command))
        said = self.client.exec_start(made["Id"])
        # Its output can end before the engine has seen it end.
        until(lambda: not self._inspect(made["Id"])["Running"], "its end")
        return int(self._inspect(made["Id"])["ExitCode"]), said.decode()

    def _inspect(self, execution: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.exec_inspect(execution)
        return found

    def kill(self, name: str) -> None:
        self.client.kill(self.container(name))
        self.client.wait(self.container(name), timeout=PATIENCE)

    def stop(self, name: str, grace: int) -> int:
        """As `docker compose stop`; the exit code, which is 137 for one that had to be killed."""
        self.client.stop(self.container(name), timeout=grace)
        return int(self.client.inspect_container(self.container(name))["State"]["ExitCode"])

    def container(self, name: str) -> str:
        return f"codehub-test-{self._label}-{name}"

    def logs(self) -> str:
        """What all of them said, for a test that failed."""
        every = self.client.containers(all=True, filters={"label": f"{TEST}={self._label}"})
        said = (self.client.logs(each["Id"], tail=40).decode(errors="replace") for each in every)
        return "\n".join(said)

    def end(self, *hub_ids: str) -> None:
        """Coordinators first, so that nothing new appears; then what they made."""
        remove_labelled(self.client, f"{TEST}={self._label}", *(f"{HUB}={one}" for one in hub_ids))

    def _move(self, text: str) -> str:
        for old, new in self._moved.items():
            text = text.replace(old, new)
        return text

    def _host(self, service: Service) -> dict[str, Any]:
        """The rights and limits of the service, translated for the engine."""
        same = ("network_mode", "init", "read_only", "cap_drop", "cap_add", "security_opt")
        return {
            **{key: service[key] for key in (*same, "mem_limit", "pids_limit") if key in service},
            "nano_cpus": int(min(service["cpus"], os.cpu_count() or 1) * 1e9),
            "tmpfs": dict.fromkeys(service.get("tmpfs", []), ""),
            "binds": [*(self._bind(each) for each in service.get("volumes", [])), *self._code],
        }

    def _bind(self, volume: Mapping[str, Any]) -> str:
        source, mode = volume["source"], "ro" if volume.get("read_only") else "rw"
        if volume["type"] == "volume":
            source = f"codehub-test-{self._label}-{source}"
            self.client.create_volume(source, labels={TEST: self._label})
        return f"{source}:{volume['target']}:{mode}"


def as_command(command: list[str]) -> list[str]:
    """`codehub` is this tree's, whatever the PATH has."""
    ours = [sys.executable, "-m", "codehub"]
    return [*ours, *command[1:]] if command[0] == "codehub" else command


@contextmanager
def composed(values: Mapping[str, str], moved: Mapping[str, str]) -> Iterator[Composed]:
    with (
        engine_client() as client,
        imported_image(_stand_in()) as image,
        open_directory() as tree,
    ):
        homes = {"ENGINE_VOLUMES": f"{client.info()['DockerRootDir']}/volumes"}
        world = Composed(client, image, _code(tree), {**values, **homes}, moved)
        try:
            yield world
        finally:
            world.end()


def _stand_in() -> bytes:
    """The links by which programs find the system's libraries, and not a single file."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name in _SYSTEM:
            entry = tarfile.TarInfo(name)
            entry.type = tarfile.SYMTYPE if Path("/", name).is_symlink() else tarfile.DIRTYPE
            entry.mode = 0o755
            entry.linkname = str(Path("/", name).readlink()) if entry.issym() else ""
            archive.addfile(entry)
    return target.getvalue()


def _code(tree: Path) -> list[str]:
    """Python, its packages and this tree, to be read at the paths they have here.

    Of this tree it is a copy in `tree` that anybody can read: a checkout may be its owner's alone.
    """
    for name in ("codehub", "templates", "specs"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for each in (tree, *tree.rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)
    real = [Path("/", name) for name in _SYSTEM if not Path("/", name).is_symlink()]
    places = {Path("/usr"), Path(sys.prefix), Path(sys.base_prefix), *real}
    places |= {Path(each) for each in ("/etc/ld.so.cache", "/etc/passwd")}
    found = {ROOT: tree, **{place: place for place in places if place.exists()}}
    return [f"{source}:{place}:ro" for place, source in sorted(found.items())]


@contextmanager
def redis_of(service: Service, directory: Path) -> Iterator[str]:
    """The service's own command with the tests' Redis; the path of its socket."""
    program = wheel_program()
    assert program is not None
    (directory / "bin").mkdir()
    (directory / "bin" / "redis-server").symlink_to(program)
    place = directory / "redis.sock"
    *shell, script = words(service)
    where = f"redis-server - --port 0 --unixsocket {shlex.quote(str(place))}"
    assert script.count("redis-server - ") == 1
    server = subprocess.Popen(
        [*shell, script.replace("redis-server -", where)],
        env={**service["environment"], "PATH": f"{directory / 'bin'}:/usr/bin:/bin"},
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        until(place.is_socket, "the socket of Redis")
        yield str(place)
    finally:
        server.terminate()
        server.wait(timeout=PATIENCE)


@contextmanager
def door(target: str | tuple[str, int]) -> Iterator[int]:
    """A port of the loopback that leads to a server: to a socket by its path, or to an address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, target), daemon=True).start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, target: str | tuple[str, int]) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_serve, args=(client, target), daemon=True).start()


def _serve(client: socket.socket, target: str | tuple[str, int]) -> None:
    family = socket.AF_UNIX if isinstance(target, str) else socket.AF_INET
    with suppress(OSError), client, socket.socket(family) as server:
        server.connect(target)
        back = threading.Thread(target=_pass, args=(server, client), daemon=True)
        back.start()
        _pass(client, server)
        back.join()


def _pass(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
