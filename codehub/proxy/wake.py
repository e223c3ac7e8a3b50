"""A visit asks for a workspace: through the intent service, like everybody who asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codehub.errors import Refused
from codehub.model.states import DesiredState, IntentSource
from codehub.service.intent import set_desired
from codehub.service.limits import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codehub.service.limits import LimitDefaults
    from codehub.store.pool import Pool

VISITOR = "visitor"
"""Who asked, in the audit, as long as nobody logs in."""


@dataclass(frozen=True, slots=True)
class WakeAnswer:
    """Whether the workspace will come; if not, why, and what a person can do about it."""

    coming: bool
    message: str = ""
    hint: str = ""


def waker(pool: Pool, limits: LimitDefaults = DEFAULTS) -> Callable[[str], Awaitable[WakeAnswer]]:
    """The front's `wake` over a database."""

    async def wake(name: str) -> WakeAnswer:
        try:
            async with pool.connection() as conn:
                await set_desired(
                    conn,
                    name,
                    DesiredState.RUNNING,
                    source=IntentSource.VISIT,
                    by=VISITOR,
                    reason="visited",
                    limits=limits,
                )
        except Refused as error:
            return WakeAnswer(False, error.message, error.hint or "")
        return WakeAnswer(True)

    return wake
