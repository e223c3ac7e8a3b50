"""A start, step by step, in an order in which a crash between any two leaves something findable.

1. Look: already running for this operation is fine, for another one is refused; what has ended, or
   was made by a dead leader and never started, is removed.
2. The image is there and covers nothing of the home, the volume is ours and nobody has it, the
   network is there.
3. Create the container, and look at the volume again: one that has just gone would have been made
   anew, empty, by the engine. Look at what is mounted, too.
4. Confirm that the hub still leads; start.
5. Wait for the port.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from codehub.adapters.docker.cover import (
    holds_part_of_home,
    require_clear,
    require_uncovered,
)
from codehub.adapters.docker.home import give_home
from codehub.adapters.docker.image import find_image, pull_image, require_name
from codehub.adapters.docker.labels import OPERATION, container_name
from codehub.adapters.docker.probe import answers
from codehub.adapters.docker.recipe import container_config
from codehub.adapters.docker.removal import remove
from codehub.adapters.docker.site import is_running, published_port
from codehub.adapters.docker.translate import CONFLICT, Declined
from codehub.adapters.words import last_words
from codehub.errors import ActionFailed, CodeHubError, Unreachable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    import docker

    from codehub.adapters.docker.site import Site
    from codehub.model.runtime import StartRequest

_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 0.005, 0.1, 1.1
_LOOK_EVERY: Final = 0.25
"""Seconds between two looks whether it still runs, while its port does not answer."""
_LAST_LINES: Final = 20
_NOT_FOUND: Final = 127
_NOT_RUN: Final = "[FATAL tini "
"""How the engine's own first process begins to say that it could not run the command."""


async def start(
    site: Site,
    request: StartRequest,
    confirm: Callable[[], Awaitable[None]],
) -> None:
    """Start the workspace and return when its port answers."""
    identity = await _find_running(site, request)
    if identity is None:
        identity = await _launch(site, request, confirm)
    await _wait_for_port(site, request, identity)


async def _find_running(site: Site, request: StartRequest) -> str | None:
    """The id of the container that runs for this very operation; what does not run is removed."""
    found = await site.own_container(request.workspace_id)
    if found is None:
        return None
    identity = str(found["Id"])
    if not is_running(found):
        await remove(site.engine, identity, volumes=not holds_part_of_home(found))
        return None
    if found["Config"]["Labels"].get(OPERATION) != str(request.op_id):
        raise ActionFailed(
            f"{request.name} already runs from an earlier start", hint="stop it first"
        )
    return identity


async def _launch(
    site: Site,
    request: StartRequest,
    confirm: Callable[[], Awaitable[None]],
) -> str:
    name = require_name(request.image)
    # A workspace that wakes has somebody who waits: what can be asked at once is.
    image, *_ = await asyncio.gather(
        find_image(site.engine, name),
        site.volumes.require(request.volume),
        site.volumes.require_unused(request.volume),
        site.network.ensure(),
    )
    image = image or await pull_image(site, request.workspace_id, name)
    require_clear(name, image)
    identity = await _create(site, request, name)
    try:
        await _give_home(site, request, identity, image)
        await asyncio.gather(
            site.volumes.require(request.volume),
            require_uncovered(site.engine, identity, name),
            confirm(),
        )
        await _act(site, request, lambda client: client.start(identity))
    except Unreachable:
        raise  # It may have started: whoever tries again finds out.
    except Exception:
        await _withdraw(site, request, identity)
        raise
    return identity


async def _create(site: Site, request: StartRequest, image: str) -> str:
    config = container_config(
        request,
        hub_id=site.hub_id,
        image=image,
        network=site.network.name,
        accident_labels=site.volumes.accident_labels(),
    )
    name = container_name(request.workspace_id)
    try:
        made = await _act(
            site, request, lambda client: client.create_container_from_config(config, name)
        )
    except Declined as error:
        if error.status != CONFLICT:
            raise
        raise ActionFailed(f"{request.name} was started by another meanwhile") from error
    return str(made["Id"])


async def _give_home(
    site: Site, request: StartRequest, identity: str, image: Mapping[str, Any]
) -> None:
    if request.volume.name not in site.given:
        user = (image.get("Config") or {}).get("User") or ""
        await give_home(site.engine, identity, user)
        site.given.add(request.volume.name)


async def _withdraw(site: Site, request: StartRequest, identity: str) -> None:
    """Remove what was made and never ran; by its id, and not if it runs after all."""
    with suppress(CodeHubError):
        await remove(site.engine, identity)
        await site.volumes.remove_accident(request.volume)


async def _act(site: Site, request: StartRequest, do: Callable[[docker.APIClient], Any]) -> Any:
    """The engine's words may hold values of the environment, and those may be secrets."""
    try:
        return await site.engine.act(do)
    except Declined as error:
        error.hide(request.env.values())
        raise error from None


async def _wait_for_port(site: Site, request: StartRequest, identity: str) -> None:
    """Ask the port ever less often, in step with the time that it takes; now and then the engine.

    So an answer is noticed late by a small part of the whole, whether that is short or long.
    """
    clock, pause = asyncio.get_running_loop().time, _FIRST_PAUSE
    while True:
        port = await _published(site, request, identity)
        look_again = clock() + _LOOK_EVERY
        while port is not None and clock() < look_again:
            if await answers(port):
                return
            await asyncio.sleep(pause)
            pause = min(pause * _GROWTH, _LONGEST_PAUSE)
        if port is None:
            await asyncio.sleep(_LONGEST_PAUSE)


async def _published(site: Site, request: StartRequest, identity: str) -> int | None:
    """The port of the container, which must still run."""
    found = await site.engine.find(lambda client: client.inspect_container(identity))
    if found is None:
        raise ActionFailed(f"{request.name} was stopped by another meanwhile")
    if not is_running(found):
        raise await _failure(site, request, found)
    return published_port(found)


async def _failure(site: Site, request: StartRequest, found: Mapping[str, Any]) -> ActionFailed:
    """Why it ended before its port answered."""
    state = found["State"]
    why = " for lack of memory" if state.get("OOMKilled") else ""
    output = await site.engine.find(lambda client: client.logs(found["Id"], tail=_LAST_LINES))
    said = last_words(output or b"", hide=request.env.values())
    if request.command and state["ExitCode"] == _NOT_FOUND and _NOT_RUN in said:
        return ActionFailed(
            f'the command "{request.command[0]}" was not found in the image {request.image}',
            hint="correct the command or the image",
        )
    return ActionFailed(
        f"the command ended{why} with exit code {state['ExitCode']} before its port answered"
        + (f": {said}" if said else " and said nothing"),
        hint=f"see 'codehub logs {request.name}'",
    )
