"""Looking at the world in bulk: one list call per runtime and pass, never one per workspace."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from codehub.coordinator.seen import Seen, index
from codehub.errors import CodeHubError, Unreachable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codehub.model.runtime import Listing
    from codehub.model.workspace import Runtime as RuntimeName
    from codehub.ports import Runtime

log: Final = logging.getLogger("codehub.coordinator")

PATIENCE: Final = 20.0
"""Seconds that a listing may take; then it is unknown what the runtime holds."""


async def observe(runtimes: Mapping[RuntimeName, Runtime]) -> Seen:
    """What every runtime holds. One that does not answer is unknown and delays no other."""
    names = list(runtimes)
    answers = await asyncio.gather(*(_list(runtimes[name]) for name in names))
    listed = dict(zip(names, answers, strict=True))
    return Seen(
        {name: index(each) for name, each in listed.items() if not isinstance(each, str)},
        {name: each for name, each in listed.items() if isinstance(each, str)},
    )


async def _list(runtime: Runtime) -> Listing | str:
    try:
        async with asyncio.timeout(PATIENCE):
            return await runtime.list()
    except TimeoutError:
        return f"the runtime did not answer within {PATIENCE:.0f} s"
    except Unreachable as error:
        return error.message
    except CodeHubError as error:
        return f"the runtime cannot be listed: {error.message}"
    except Exception as error:
        log.error("a runtime cannot be listed", exc_info=error)
        return f"the runtime cannot be listed: unexpected {type(error).__name__}"
