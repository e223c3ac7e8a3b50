"""A visit asks for a workspace: through the intent service, like everybody who asks.

Whose it is gets looked at where it is asked for, with the row locked: since the visitor was let in
it may have become another's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from codehub.errors import LimitReached, NotFound, Refused
from codehub.model.states import DesiredState, IntentSource
from codehub.service.asking import held_still
from codehub.service.intent import set_desired
from codehub.service.limits import DEFAULTS
from codehub.telemetry.instruments import TRAFFIC
from codehub.telemetry.traffic import Waking

if TYPE_CHECKING:
    from codehub.model.access import Person
    from codehub.service.limits import LimitDefaults
    from codehub.store.pool import Pool


@dataclass(frozen=True, slots=True)
class WakeAnswer:
    """Whether the workspace will come; if not, why, and what a person can do about it.

    `limit` is the limit that keeps it, which names those that run.
    """

    coming: bool
    message: str = ""
    hint: str = ""
    limit: LimitReached | None = None


class Wake(Protocol):
    """Asks for a workspace by its name, for somebody; where they came from is for the audit.

    NotFound where it is not there for them.
    """

    async def __call__(self, name: str, by: Person, address: str = "") -> WakeAnswer: ...


def waker(pool: Pool, limits: LimitDefaults = DEFAULTS) -> Wake:
    """The way to wake workspaces of the hub in this database."""

    async def wake(name: str, by: Person, address: str = "") -> WakeAnswer:
        try:
            async with (
                pool.connection() as conn,
                held_still(conn, name, by.sees, counted=True) as found,
            ):
                await set_desired(
                    conn,
                    found.workspace.name,
                    DesiredState.RUNNING,
                    source=IntentSource.VISIT,
                    by=by.name,
                    reason=f"visited from {address}" if address else "visited",
                    limits=limits,
                )
        except NotFound:
            raise
        except Refused as error:
            limit = error if isinstance(error, LimitReached) else None
            TRAFFIC.wakes[Waking.LIMITED if limit is not None else Waking.REFUSED] += 1
            return WakeAnswer(False, error.message, error.hint or "", limit)
        TRAFFIC.wakes[Waking.ASKED] += 1
        return WakeAnswer(True)

    return wake
