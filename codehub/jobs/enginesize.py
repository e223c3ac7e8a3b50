"""Whether the engine's copy of a home is all of it, by the size that the engine measures.

A folder that it cannot list, on a disk that fails, is missing from a copy that looks complete. But
it looks through the same folders to measure a volume, and there it says when it could not. So every
copy is held against that size before it is committed, and what cannot be measured is not archived.

The engine counts the bytes of files and of links to names, each file once, as a tar stream does. It
measures all its volumes at once, before API 1.42 images and containers too, and one asker at a
time, which takes minutes where there is much.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from codehub.errors import ActionFailed, CodeHubError, Unreachable
from codehub.jobs.engine import SILENCE, ask, container_of

if TYPE_CHECKING:
    from codehub.model.runtime import EngineCopy

NEWEST: Final = (1, 44)
"""The API in which this answer is known to us; later ones arrange it otherwise."""
_BUSY: Final = "already running"
_PAUSE: Final = 0.5
_VOLUMES: Final = "/system/df?type=volume"
"""Before API 1.42 an engine reads no more of it than what comes before the question mark."""


def require_whole(copy: EngineCopy, copied: int) -> None:
    """Raise unless the engine has measured the home, and found no more there than was copied."""
    volume = _volume(copy)
    size = _measure(copy, volume)
    if size is None:
        raise ActionFailed(
            f"the engine does not measure the volume {volume}, as those that are mounted from "
            "elsewhere, so nobody can tell whether a copy is whole; give it a plain volume"
        )
    if size < 0:
        raise ActionFailed(
            "the engine could not look through the whole home, as on a disk that fails, so folders "
            "may be missing from its copy; see the engine's log"
        )
    if size > copied:
        raise ActionFailed(
            f"the engine left something out: it copied {copied} bytes of a home that has {size}; "
            "see the engine's log"
        )


def _volume(copy: EngineCopy) -> str:
    """The name of what is mounted where the home is."""
    found = ask(copy, f"{container_of(copy)}/json", seconds=SILENCE, newest=NEWEST)
    for each in _list(found, "Mounts"):
        if each.get("Destination") == copy.directory and each.get("Name"):
            return str(each["Name"])
    raise ActionFailed("the engine does not have the volume where it should be")


def _measure(copy: EngineCopy, volume: str) -> int | None:
    """Bytes; below zero where the engine could not look, None where it does not measure it."""
    answer = _ask_in_turn(copy)
    for each in _list(answer, "Volumes"):
        if each.get("Name") == volume:
            size = (each.get("UsageData") or {}).get("Size")
            return size if isinstance(size, int) else None
    return None


def _ask_in_turn(copy: EngineCopy) -> Any:
    """Whoever else is asking, such as another job, is waited for."""
    end = time.monotonic() + SILENCE
    while (left := end - time.monotonic()) > 0:
        try:
            return ask(copy, _VOLUMES, seconds=left, newest=NEWEST)
        except CodeHubError as error:
            if _BUSY not in error.message:
                raise
        time.sleep(_PAUSE)
    raise Unreachable("the Docker engine is busy measuring for others")


def _list(answer: Any, key: str) -> list[dict[str, Any]]:
    found = answer.get(key) if isinstance(answer, dict) else None
    return [each for each in found or () if isinstance(each, dict)]
