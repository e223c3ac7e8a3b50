"""The two ways to a home: its directory, or the engine's copy calls where it has none for us.

What differs between them is here; what an archive is, and what is proved of it, does not differ.
HTTP is loaded only where an engine is asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from codehub.jobs import tarchild
from codehub.jobs.volume import (
    empty_volume,
    require_empty,
    require_space,
    require_volume,
    sync_volume,
)
from codehub.model.archive import Fidelity
from codehub.model.runtime import EngineCopy

if TYPE_CHECKING:
    from codehub.jobs.enginecopy import EnginePack, EngineUnpack
    from codehub.jobs.progress import Progress
    from codehub.jobs.tarchild import TarChild
    from codehub.model.archive import ArchiveMeta

Home: TypeAlias = Path | EngineCopy


def pack(home: Home) -> TarChild | EnginePack:
    """The home as a tar stream that we read."""
    if isinstance(home, Path):
        return tarchild.pack(home)
    from codehub.jobs.enginecopy import EnginePack

    return EnginePack(home)


def unpack(home: Home, progress: Progress) -> TarChild | EngineUnpack:
    """Something that fills the home with a tar stream that we feed it."""
    if isinstance(home, Path):
        return tarchild.unpack(home)
    from codehub.jobs.enginecopy import EngineUnpack

    return EngineUnpack(home, progress)


def fidelity(home: Home) -> Fidelity:
    """How much of the home an archive keeps that is made this way."""
    return Fidelity.FULL if isinstance(home, Path) else Fidelity.COPY


def require_home(home: Home) -> None:
    """It must be there; an engine says so when it is asked for it."""
    if isinstance(home, Path):
        require_volume(home)


def require_room(home: Home, meta: ArchiveMeta) -> None:
    """It must be empty, and there must be space; of an engine's disk nobody can say."""
    if isinstance(home, Path):
        require_empty(home)
        require_space(home, meta)
        return
    from codehub.jobs.enginecopy import require_empty_copy

    require_empty_copy(home)


def settle(home: Home) -> None:
    """Make what was restored durable; what an engine was given is its own to look after."""
    if isinstance(home, Path):
        sync_volume(home)


def discard(home: Home) -> None:
    """Take back a restore that failed; what an engine has unpacked goes with the volume."""
    if isinstance(home, Path):
        empty_volume(home)
