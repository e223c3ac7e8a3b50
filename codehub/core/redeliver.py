"""What a try to deliver leads to: done, once more at some time, or given up."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from codehub.core.backoff import backoff
from codehub.model.webhook import Answer

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.errors import CodeHubError
    from codehub.model.webhook import Delivery

GONE: Final = 410
"""The receiver says that it will never want anything again."""


@dataclass(frozen=True, slots=True)
class Patience:
    """The waits between tries, from the first to the longest, and how long it is tried at all."""

    first: timedelta = timedelta(seconds=10)
    limit: timedelta = timedelta(hours=1)
    lasts: timedelta = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Settled:
    """What is kept of a try: delivered, failed for good, or due again at `next_at`."""

    delivered: bool = False
    failed: bool = False
    next_at: datetime | None = None
    status: int | None = None
    error: str = ""


def settle(
    delivery: Delivery,
    came: Answer | CodeHubError,
    now: datetime,
    jitter: float,
    patience: Patience,
) -> Settled:
    """What follows from what came of a try; `jitter` in [0, 1) spreads the next ones.

    The last try is at the very end of the time: a receiver that comes back late still gets it.
    """
    status = came.status if isinstance(came, Answer) else None
    if status is not None and 200 <= status < 300:
        return Settled(delivered=True, status=status)
    error = describe(came)
    if status == GONE or now >= delivery.expires_at:
        return Settled(failed=True, status=status, error=error)
    wait = backoff(delivery.attempts + 1, jitter, first=patience.first, limit=patience.limit)
    asked = came.retry_after if isinstance(came, Answer) else None
    return Settled(
        next_at=min(now + max(wait, asked or wait), delivery.expires_at),
        status=status,
        error=error,
    )


def describe(came: Answer | CodeHubError) -> str:
    """What went wrong, in words; nothing that the receiver wrote is repeated."""
    if not isinstance(came, Answer):
        return came.message
    if came.status == GONE:
        return "it answered 410: gone for good, so it is not tried again"
    if 300 <= came.status < 400:
        return f"it answered {came.status}: redirects are not followed, declare where it leads"
    if came.status in (401, 403):
        return f"it answered {came.status}: it refuses this sender or the signature"
    return f"it answered {came.status}"
