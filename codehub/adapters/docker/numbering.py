"""Engines that number users anew (`dockerd --userns-remap`) are no place for homes.

Such an engine gives out files with the host's numbers of their owners and takes files back only
with the container's. So an archive through its copy calls can never be restored there, one from a
home's directory names owners that no other engine has, and no new home is ever seen to be nobody's.
A rootless engine sees the same numbers both ways and is not meant here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codehub.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codehub.adapters.docker.engine import Engine

REMAPS: Final = "it numbers users anew (userns-remap), so homes could be archived and not restored"
REMEDY: Final = (
    "take 'userns-remap' out of the engine's daemon.json and start it again, or set DOCKER_HOST to "
    "an engine without it"
)
_REMAPPED: Final = "name=userns"


def remaps_users(info: Mapping[str, Any]) -> bool:
    """By what the engine says of itself; each option may have words of its own after a comma."""
    options = info.get("SecurityOptions") or ()
    return any(each.split(",")[0] == _REMAPPED for each in options)


async def require_own_numbers(engine: Engine) -> None:
    """Raise before anything is done there. Unreachable: of what is there, nothing is concluded."""
    if remaps_users(await engine.look(lambda client: client.info())):
        raise Unreachable(f"the Docker engine cannot be used: {REMAPS}", hint=REMEDY)
