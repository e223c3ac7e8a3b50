"""A new home belongs to the user of the image.

The engine makes a volume as root's. An image with another user could not write to its own home,
so before the first start the empty home is given to that user. Through the engine, not through the
file system: it works where we cannot write, and in the engine's own numbering of users.
"""

from __future__ import annotations

import io
import tarfile
from contextlib import closing
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from docker.errors import NotFound

from codehub.adapters.docker.recipe import HOME

if TYPE_CHECKING:
    import docker

    from codehub.adapters.docker.engine import Engine

_LARGEST_FILE: Final = 2**20
_HOME: Final = PurePosixPath(HOME)
_NOBODYS: Final = (0, 0)


async def give_home(engine: Engine, container_id: str, user: str) -> None:
    """Make the home that is mounted in this created container its user's, if it is nobody's yet."""
    if user.partition(":")[0] not in ("", "0", "root"):
        await engine.act(lambda client: _give(client, container_id, user))


def _give(client: docker.APIClient, container_id: str, user: str) -> None:
    home, _ = _first_entry(client, container_id, HOME)
    if (home.uid, home.gid) == _NOBODYS:
        owner = _find_user(client, container_id, user)
        client.put_archive(container_id, str(_HOME.parent), _directory(owner))


def _find_user(client: docker.APIClient, container_id: str, user: str) -> tuple[int, int]:
    """User and group as numbers. Names are the image's; a number need not have an entry."""
    name, _, group = user.partition(":")
    users = _entries(client, container_id, "/etc/passwd")
    known = next((each for each in users if len(each) > 3 and name in (each[0], each[2])), None)
    uid = _number(known[2] if known else name)
    if not group:
        return uid, _number(known[3]) if known else 0
    groups = [] if group.isdecimal() else _entries(client, container_id, "/etc/group")
    named = next((each[2] for each in groups if len(each) > 2 and each[0] == group), group)
    return uid, _number(named)


def _entries(client: docker.APIClient, container_id: str, path: str) -> list[list[str]]:
    try:
        _, content = _first_entry(client, container_id, path)
    except NotFound:
        return []
    return [line.split(":") for line in content.decode(errors="replace").splitlines()]


def _first_entry(
    client: docker.APIClient, container_id: str, path: str
) -> tuple[tarfile.TarInfo, bytes]:
    """The first entry of the engine's archive of a path. Of a directory, the rest is not read."""
    url = client._url("/containers/{0}/archive", container_id)
    plain = {"Accept-Encoding": "identity"}
    with closing(client._get(url, params={"path": path}, headers=plain, stream=True)) as response:
        client._raise_for_status(response)
        try:
            with tarfile.open(fileobj=response.raw, mode="r|") as archive:
                entry = next(iter(archive))
                file = archive.extractfile(entry) if entry.isfile() else None
                return entry, file.read(_LARGEST_FILE) if file else b""
        except (tarfile.TarError, StopIteration) as error:
            raise OSError(f"{path} was not sent whole") from error


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _directory(owner: tuple[int, int]) -> bytes:
    entry = tarfile.TarInfo(f"{_HOME.name}/")
    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    entry.uid, entry.gid = owner
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        archive.addfile(entry)
    return target.getvalue()
