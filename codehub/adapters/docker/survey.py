"""A look at an engine as a whole, for `codehub doctor`: what it is, and whether it is the hub's.

Where nobody answers, why not is told more closely than a coordinator has to know it: no engine, one
that does not run, and one that we may not use each need another remedy.
"""

from __future__ import annotations

import grp
import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from codehub.adapters.docker.engine import Engine
from codehub.adapters.docker.labels import of_hub, read_volume
from codehub.adapters.docker.marker import Marker
from codehub.adapters.docker.numbering import remaps_users
from codehub.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codehub.errors import CodeHubError
    from codehub.model.runtime import VolumeSeen

PATIENCE: Final = 5.0
"""Seconds for each of the few questions."""

_DOCKER: Final = "Engine"
"""What Docker's engine calls itself among its own parts; others have longer names."""
_ADDRESS_HINT: Final = "see whether the engine runs, and whether DOCKER_HOST is right"


class NoEngine(Unreachable):
    """The engine gave no answer; `absent` where this machine has none, and nobody named one."""

    def __init__(self, message: str, *, hint: str, absent: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.absent = absent


@dataclass(frozen=True, slots=True)
class Survey:
    """What an engine says of itself.

    `is_docker` is False for another maker's that speaks the same API. `root` is where it keeps its
    data, in its own file system, which is ours where `is_local`; None where it does not say.
    `stranger` is why it is not the engine of the hub that asks; None where it is, or where it bears
    no mark (`is_marked`). `volumes` are that hub's homes.
    """

    address: str
    is_docker: bool
    version: str
    api: tuple[int, ...]
    system: str
    root: Path | None
    is_local: bool
    is_marked: bool
    stranger: CodeHubError | None
    homes: Path | None
    """A directory that is as easy or hard to enter as homes are."""
    remaps_users: bool = False
    volumes: tuple[VolumeSeen, ...] = ()


async def survey_engine(
    base_url: str | None, hub_id: str | None, *, seconds: float = PATIENCE
) -> Survey:
    """Raises NoEngine where it does not answer; `hub_id` None where there is no hub yet."""
    engine = Engine(base_url, look_seconds=seconds, act_seconds=seconds)
    try:
        return await _ask(engine, hub_id)
    except Unreachable as error:
        raise _explained(error, engine, named=base_url is not None) from error
    finally:
        engine.close()


async def _ask(engine: Engine, hub_id: str | None) -> Survey:
    version = await engine.look(lambda client: client.version())
    info = await engine.look(lambda client: client.info())
    marker = Marker(engine, hub_id) if hub_id else None
    found = await engine.find(lambda client: client.inspect_volume(marker.name)) if marker else None
    root = Path(info["DockerRootDir"]) if info.get("DockerRootDir") else None
    homes = (found or {}).get("Mountpoint") or (root / "volumes" if root else None)
    return Survey(
        address=engine.base_url,
        is_docker=any(each.get("Name") == _DOCKER for each in version.get("Components") or ()),
        version=str(version.get("Version", "")),
        api=_numbers(str(version.get("ApiVersion", ""))),
        system=str(version.get("Os", "")),
        root=root,
        is_local=engine.is_local,
        is_marked=found is not None,
        stranger=_stranger(marker, found),
        homes=Path(homes) if homes else None,
        remaps_users=remaps_users(info),
        volumes=await _volumes(engine, hub_id) if hub_id else (),
    )


async def _volumes(engine: Engine, hub_id: str) -> tuple[VolumeSeen, ...]:
    listed = await engine.look(lambda client: client.volumes(filters=of_hub(hub_id)))
    return tuple(seen for seen in map(read_volume, listed["Volumes"] or ()) if seen)


def _stranger(marker: Marker | None, found: Mapping[str, Any] | None) -> CodeHubError | None:
    """Why this is another hub's engine, or one that was reset."""
    if marker is None:
        return None
    try:
        marker.require_in([found] if found else [])
    except Unreachable as error:
        return error
    return None


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split(".")
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else ()


def _explained(error: Unreachable, engine: Engine, *, named: bool) -> NoEngine:
    known = (each for each in _chain(error) if isinstance(each, OSError) and each.strerror)
    cause = next(known, None)
    if cause is None:
        return NoEngine(error.message, hint=error.hint or _ADDRESS_HINT)
    if not engine.is_local:
        return NoEngine(
            f"no Docker engine answers at {engine.base_url} ({cause.strerror})", hint=_ADDRESS_HINT
        )
    return _without_socket(cause, Path(engine.base_url.removeprefix("unix://")), named=named)


def _without_socket(cause: OSError, socket: Path, *, named: bool) -> NoEngine:
    if isinstance(cause, (FileNotFoundError, NotADirectoryError)):
        return NoEngine(
            f"there is no Docker engine: nothing is at {socket}",
            hint="install Docker and start it, or set DOCKER_HOST to the engine's address",
            absent=not named,
        )
    if isinstance(cause, PermissionError):
        return NoEngine(
            f"a Docker engine is there, but {_account(os.geteuid())} may not use {socket}",
            hint=_entrance(socket),
        )
    if isinstance(cause, ConnectionRefusedError):
        return NoEngine(
            f"the Docker engine does not run: nobody listens at {socket}",
            hint="start it ('systemctl start docker'), or correct DOCKER_HOST",
        )
    return NoEngine(f"no Docker engine answers at {socket} ({cause.strerror})", hint=_ADDRESS_HINT)


def _entrance(socket: Path) -> str:
    """How one comes to be let in. The group's members can do there whatever root can."""
    me = _account(os.geteuid())
    try:
        group = grp.getgrgid(socket.stat().st_gid).gr_name
    except (OSError, KeyError):
        return f"let {me} enter its directory, or run this as another user"
    return f"add {me} to the group {group}, which is as good as root there, and log in again"


def _account(uid: int) -> str:
    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"the user {uid}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__
