"""That no other volume lies over a home: what people write in it must stay, and be archived.

An image may declare volumes of its own. The engine mounts an empty one at each place, whatever a
request says, and removes it with the container: what was written there would be gone at the next
stop, and in no archive. So an image with such a place in the home is refused.

The place may also lead there by a link of the image. Only the engine can follow that, in the
container that it has made; the same look finds out when the image became another one meanwhile.
"""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from codehub.adapters.docker.recipe import HOME
from codehub.adapters.docker.translate import NOT_FOUND
from codehub.errors import ImagePullFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import docker

    from codehub.adapters.docker.engine import Engine

_HOME: Final = PurePosixPath(HOME)
_ROOT: Final = PurePosixPath("/")
_STAT: Final = "X-Docker-Container-Path-Stat"


def require_clear(name: str, image: Mapping[str, Any]) -> None:
    """Raise where the image says itself that it would cover a part of the home."""
    declared = (image.get("Config") or {}).get("Volumes") or ()
    for place in map(_place, declared):
        if _HOME in place.parents:
            raise _covered(name, place)


async def require_uncovered(engine: Engine, container_id: str, name: str) -> None:
    """Raise where something of this created container would lie over the home."""
    found = await engine.look(lambda client: client.inspect_container(container_id))
    # The engine mounts in the order of depth, as places are named: what is less deep than the home
    # comes to lie below it, wherever it leads.
    deep = [each for each in _others(found) if len(each.parts) >= len(_HOME.parts)]
    if deep:
        over = await engine.look(lambda client: _find_over_home(client, container_id, deep))
        if over is not None:
            raise _covered(name, over)


def holds_part_of_home(container: Mapping[str, Any]) -> bool:
    """Whether one that was started without this care may have people's files in such a volume."""
    return any(_HOME in place.parents for place in _others(container))


def _others(container: Mapping[str, Any]) -> Iterable[PurePosixPath]:
    """Where something is mounted that is not the home."""
    places = (_place(each["Destination"]) for each in container.get("Mounts") or ())
    return (place for place in places if place != _HOME)


def _find_over_home(
    client: docker.APIClient, container_id: str, places: Sequence[PurePosixPath]
) -> PurePosixPath | None:
    home = _follow(client, container_id, _HOME)
    for place in places:
        real = _follow(client, container_id, place)
        if real.is_relative_to(home) or home.is_relative_to(real):
            return place
    return None


def _follow(client: docker.APIClient, container_id: str, place: PurePosixPath) -> PurePosixPath:
    """The place itself, past all links on the way to it."""
    at = _ROOT
    for part in place.relative_to(_ROOT).parts:
        at = _target(client, container_id, at / part)
    return at


def _target(client: docker.APIClient, container_id: str, path: PurePosixPath) -> PurePosixPath:
    """Where a link leads in the end, as the engine has followed it; what is none stays."""
    url = client._url("/containers/{0}/archive", container_id)
    response = client.head(url, params={"path": str(path)}, timeout=client.timeout)
    if response.status_code == NOT_FOUND:
        return path
    client._raise_for_status(response)
    stat = json.loads(b64decode(response.headers.get(_STAT, "")))
    return _place(stat.get("linkTarget") or str(path))


def _place(text: str) -> PurePosixPath:
    """As the engine reads it, for which every place begins at the root."""
    place = _ROOT
    for part in text.split("/"):
        place = place.parent if part == ".." else place / part
    return place


def _covered(name: str, place: PurePosixPath) -> ImagePullFailed:
    # A workspace keeps the message alone, so it also says what to do.
    return ImagePullFailed(
        f"the image {name} declares a volume at {place}: what is written there would not be in the "
        "home, and be lost at every stop; use an image without that VOLUME"
    )
