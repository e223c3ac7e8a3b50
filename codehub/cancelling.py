"""Cancellations that get lost in libraries, found again.

In Python 3.11 `wait_for` drops one that comes when its work is just done; the pool of Postgres
connections uses it, and the client of Redis for every command. And the driver of Postgres replaces
a cancellation by the error of a connection that dies at that moment. Whoever then goes on in a loop
goes on for ever, and whoever waits for its end as well.
"""

from __future__ import annotations

import asyncio


def cancellations() -> int:
    """How often the current task was cancelled so far; more than none while it cleans up."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs here: there is nothing to cancel
        return 0
    return task.cancelling() if task else 0


def heed(since: int = 0) -> None:
    """Raise a cancellation that came `since` this count and was lost on its way."""
    if cancellations() > since:
        raise asyncio.CancelledError
