"""Checks of the Docker engine. It is asked once; each check judges a part of its answer.

A check has nothing to say (None) where another one has said already why it could not look.
"""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING, Final

from codehub.core.gauge import amount
from codehub.errors import CodeHubError, UsageError
from codehub.model.checkup import problem, warning, well
from codehub.service.check_machine import FULL, SCARCE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codehub.adapters.docker.survey import Survey
    from codehub.model.checkup import Verdict
    from codehub.service.check_identity import Known

    Ask = Callable[[], Awaitable[Survey]]
    AskKnown = Callable[[], Awaitable[Known | None]]

OLDEST: Final = (1, 41)
OLDEST_VERSION: Final = "20.10"
"""The engine that first spoke the API above; others that speak it count their own versions."""
SAFE: Final = (28, 3, 3)
"""Docker before it lets its network's neighbours reach ports that are published on loopback."""
SYSTEM: Final = "linux"


async def survey(host: str | None, known: AskKnown) -> Survey:
    """What the engine says of itself; raises CodeHubError, saying why it says nothing."""
    try:
        from codehub.adapters.docker.survey import survey_engine
    except ImportError as error:
        raise UsageError(
            f"the Docker client cannot be imported: {error.name}", hint="pip install 'docker>=7.1'"
        ) from error
    hub = await known()
    return await survey_engine(host, str(hub.hub_id) if hub else None)


async def look_at_engine(ask: Ask, known: AskKnown, *, asked_for: bool) -> Verdict:
    """Whether it answers, and is one that we can use."""
    hub = await known()
    needed = asked_for or bool(hub and hub.needs_docker)
    try:
        found = await ask()
    except CodeHubError as error:
        return judge_silence(error, needed=needed)
    return judge_engine(found, needed=needed)


async def look_at_space(ask: Ask) -> Verdict | None:
    found = await _answer(ask)
    return judge_space(found, free_at(found)) if found else None


async def look_at_mark(ask: Ask, known: AskKnown) -> Verdict | None:
    """Whether it is the engine of this hub; without a hub there is nothing to be compared."""
    found, hub = await _answer(ask), await known()
    return judge_mark(found, hub) if found and hub else None


async def look_at_homes(ask: Ask) -> Verdict | None:
    found = await _answer(ask)
    return judge_homes(found, direct=is_open(found)) if found else None


def judge_silence(error: CodeHubError, *, needed: bool) -> Verdict:
    """A machine without Docker is in order as long as nobody wants to use it.

    With an address that is a mistake no hub starts, whether it would be used or not.
    """
    if needed or isinstance(error, UsageError):
        return problem(error.message, error.hint or "")
    if getattr(error, "absent", False):
        return well(f"{error.message}; this hub needs none, its workspaces run as processes")
    return warning(f"{error.message}; workspaces run as processes", error.hint or "")


def judge_engine(found: Survey, *, needed: bool) -> Verdict:
    api = ".".join(str(part) for part in found.api)
    text = f"Docker {found.version}, API {api or 'unknown'}, at {found.address}"
    if found.system != SYSTEM:
        return problem(
            f"{text}: it runs containers of {found.system or 'an unknown system'}",
            "use an engine that runs Linux containers",
        )
    if found.api < OLDEST:
        return problem(
            f"{text}: older than {OLDEST_VERSION}", f"use Docker {OLDEST_VERSION} or newer"
        )
    if found.remaps_users:
        from codehub.adapters.docker.numbering import REMAPS, REMEDY

        return problem(f"{text}: {REMAPS}", REMEDY)
    if needed and found.is_docker and _release(found.version) < SAFE:
        safe = ".".join(str(part) for part in SAFE)
        return warning(
            f"{text}: older than {safe}, so machines in the same network can reach ports that it "
            "publishes on loopback, and with them workspaces past the hub's login",
            f"use Docker {safe} or newer, or keep other machines out of this one's network",
        )
    return well(text)


def _release(version: str) -> tuple[int, ...]:
    """`(20, 10, 24)` of `20.10.24+dfsg1`; nothing of what is no number."""
    numbers = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in numbers[0].split(".")) if numbers else ()


def free_at(found: Survey) -> int | None:
    """Bytes free where the engine keeps its data; None where that cannot be seen from here."""
    if not found.is_local or found.root is None:
        return None
    try:
        return shutil.disk_usage(found.root).free
    except OSError:
        return None


def judge_space(found: Survey, free: int | None) -> Verdict:
    where = found.root or "the engine's data"
    if free is None:
        return well(f"not to be seen from here: look at {where} on the engine's machine")
    text = f"{where}, {amount(free)} free"
    if free < FULL:
        return problem(text, "make room: images ('docker image prune') and homes do not fit")
    return (
        warning(text, "make room soon, as with 'docker image prune'")
        if free < SCARCE
        else well(text)
    )


def judge_mark(found: Survey, hub: Known) -> Verdict:
    if found.stranger is None:
        return well("it bears this hub's mark")
    if found.is_marked or hub.has_docker_homes:
        return problem(found.stranger.message, found.stranger.hint or "")
    return well("not marked yet: the coordinator does so when a workspace first needs it")


def is_open(found: Survey) -> bool:
    """Whether homes can be moved in the engine's file system: as the runtime itself decides it.

    They hold files of many owners, which only the superuser reads and gives back.
    """
    if not found.is_local or found.homes is None or os.geteuid() != 0:
        return False
    return os.access(found.homes, os.R_OK | os.W_OK | os.X_OK)


def judge_homes(found: Survey, *, direct: bool) -> Verdict:
    if direct:
        return well("read and written directly, so archives keep everything")
    where = found.root / "volumes" if found.root else "the engine's volumes"
    return warning(
        "only through the engine's copy API, so archives lose extended attributes, the holes of "
        "sparse files and fractions of a second, and take longer",
        f"run the hub on the engine's machine, as root, where {where} is",
    )


async def _answer(ask: Ask) -> Survey | None:
    try:
        return await ask()
    except CodeHubError:
        return None
