"""The machine's Docker engine for tests: is there one, and what tests put on it and take away.

No image is pulled: they are made here from a static busybox, some 2 MB each.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import docker
from docker.errors import DockerException, NotFound

from tests.conftest import require

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SOCKET = "/var/run/docker.sock"
TEST = "dev.codehub.test"
USERS = "root:x:0:0::/root:/bin/sh\ncoder:x:1234:2345::/home/coder:/bin/sh\n"
GROUPS = "root:x:0:\nstaff:x:2345:\nteam:x:77:\n"


@contextmanager
def engine_client() -> Iterator[docker.APIClient]:
    client = docker.APIClient(f"unix://{SOCKET}", version="auto", timeout=60)
    try:
        yield client
    finally:
        client.close()


def require_engine() -> None:
    """Skip, or fail where it is required, unless tests can use the engine and read its volumes."""
    why = _why_not()
    require("docker", not why, why)


@cache
def _why_not() -> str:
    if shutil.which("busybox") is None:
        return "there is no static busybox to make an image of (Debian: busybox-static)"
    try:
        with engine_client() as client:
            root = Path(client.info()["DockerRootDir"]) / "volumes"
    except (DockerException, OSError) as error:
        return f"no engine answers: {error}"
    try:
        next(root.iterdir(), None)
    except OSError:
        return f"its volumes cannot be read ({root}); run the tests as root"
    return ""


@contextmanager
def busybox_image(*changes: str) -> Iterator[str]:
    """An image with a shell, `httpd`, `nc` and the user coder; `changes` are Dockerfile lines."""
    with imported_image(busybox_root(), changes) as name:
        yield name


@contextmanager
def imported_image(root: bytes, changes: Sequence[str] = ()) -> Iterator[str]:
    name = f"codehub-test-{uuid4().hex[:12]}:1"
    repository, tag = name.split(":")
    with engine_client() as client:
        said = client.import_image_from_data(
            root, repository=repository, tag=tag, changes=list(changes)
        )
        assert "sha256:" in said, said
        try:
            yield name
        finally:
            client.remove_image(name, force=True)


@cache
def busybox_root() -> bytes:
    """The root file system, as a tar file."""
    busybox = Path(shutil.which("busybox") or "").resolve()
    commands = subprocess.run(
        [busybox, "--list"], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name in ("bin", "etc", "home", "tmp"):
            _add(archive, name, kind=tarfile.DIRTYPE, mode=0o1777 if name == "tmp" else 0o755)
        _add(archive, "bin/busybox", busybox.read_bytes(), mode=0o755)
        _add(archive, "etc/passwd", USERS.encode())
        _add(archive, "etc/group", GROUPS.encode())
        for name in set(commands) - {"busybox"}:
            _add(archive, f"bin/{name}", kind=tarfile.SYMTYPE, link="busybox")
    return target.getvalue()


def _add(
    archive: tarfile.TarFile,
    name: str,
    content: bytes = b"",
    *,
    kind: bytes = tarfile.REGTYPE,
    mode: int = 0o644,
    link: str = "",
) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.linkname, entry.size = kind, mode, link, len(content)
    archive.addfile(entry, io.BytesIO(content))


@contextmanager
def quiet_network() -> Iterator[str]:
    """A bridge like a hub's own, for all tests of a module: making one for each takes time."""
    name = f"codehub-test-{uuid4().hex[:12]}"
    with engine_client() as client:
        client.create_network(
            name, options={"com.docker.network.bridge.enable_icc": "false"}, labels={TEST: ""}
        )
        try:
            yield name
        finally:
            client.remove_network(name)


def remove_labelled(client: docker.APIClient, *labels: str) -> None:
    """Remove every container, volume, network and image that carries one of these labels."""
    chosen: list[dict[str, Any]] = [{"label": [label]} for label in labels]
    for one in chosen:
        for each in client.containers(all=True, filters=one):
            remove_container(client, each["Id"])
    for one in chosen:
        for volume in client.volumes(filters=one)["Volumes"] or []:
            client.remove_volume(volume["Name"])
        for network in client.networks(filters=one):
            client.remove_network(network["Id"])
        for image in client.images(filters=one):
            client.remove_image(image["Id"], force=True)


def remove_container(client: docker.APIClient, name: str) -> None:
    try:
        client.remove_container(name, v=True, force=True)
    except NotFound:
        return
