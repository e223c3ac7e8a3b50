"""One term of leadership: components side by side, until the first of them ends.

Not a TaskGroup: that one waits for ever for a child that does not end, and in Python 3.11 it
forgets a cancellation that comes while a child fails. Here everything after the end is bounded, and
a cancellation always arrives. What does not end in time is left behind; the fence makes its writes
harmless.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from codehub.errors import FenceLost
from codehub.store.session import forget, insist

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence
    from contextlib import AbstractAsyncContextManager

    from codehub.coordinator.pace import Component

    Tasks = set[asyncio.Task[None]]
    Opened = asyncio.Future[Sequence[Component]]

log: Final = logging.getLogger("codehub.coordinator")

OPENING: Final = 5.0
"""Seconds after which it is said that components do not open."""
GRACE: Final = 5.0
"""Seconds that components get to clean up after they were cancelled."""
CLOSING: Final = 5.0
"""Seconds to close what the components shared."""
LAST_WORD: Final = 1.0
"""Seconds after a second cancellation: the first one may have been lost to an error."""

_left_behind: Final[Tasks] = set()


async def serve(
    opening: AbstractAsyncContextManager[Sequence[Component]],
    watch: Coroutine[Any, Any, None],
    change: Callable[[bool], None],
) -> None:
    """Open the components, run them beside `watch`, and close again when one of them ends.

    Never returns: raises what ended it. `change` is told when they run, and when that is over.
    """
    opened: Opened = asyncio.get_running_loop().create_future()
    closing = asyncio.Event()
    holder = _start(_hold(opening, opened, closing), "opening the components")
    watching = _start(watch, "the leader's watch")
    running: Tasks = set()
    try:
        await _open({holder, opened, watching})
        if opened.done():
            running |= {_start(one.run(), one.name) for one in opened.result()}
            change(True)
        ended = await _first({holder, watching, *running})
    finally:
        change(False)
        await insist(_step_down(running, watching, holder, opened, closing))
    raise _reason(task for task in (watching, *running, holder) if task in ended)


def _start(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    task = asyncio.create_task(work, name=name)
    forget(task)
    return task


async def _hold(
    opening: AbstractAsyncContextManager[Sequence[Component]],
    opened: Opened,
    closing: asyncio.Event,
) -> None:
    """Opens and closes in one task of its own, as contexts need it; so that can be bounded."""
    async with opening as components:
        opened.set_result(components)
        await closing.wait()


async def _open(awaited: set[asyncio.Future[Any]]) -> None:
    slow = asyncio.get_running_loop().call_later(OPENING, _tell_slow)
    try:
        await _first(awaited)
    finally:
        slow.cancel()


def _tell_slow() -> None:
    log.warning(
        "the components have not opened within %.0f s: the database or a runtime does not answer",
        OPENING,
    )


async def _first(awaited: set[asyncio.Future[Any]]) -> set[asyncio.Future[Any]]:
    done, _ = await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
    return done


async def _step_down(
    running: Tasks,
    watching: asyncio.Task[None],
    holder: asyncio.Task[None],
    opened: Opened,
    closing: asyncio.Event,
) -> None:
    await end(running, GRACE)
    # After them: cancelled in the middle of a question it cuts its session, and the lock is gone.
    await end({watching}, GRACE)
    # Also where it is cancelled, should it miss that.
    closing.set()
    if not opened.done():
        holder.cancel()
    await asyncio.wait({holder}, timeout=CLOSING)
    await end({holder}, LAST_WORD)


async def end(tasks: Tasks, seconds: float) -> None:
    """Cancel them, wait so long, cancel once more, and leave behind what still goes on."""
    going_on = {task for task in tasks if not task.done()}
    for patience in (seconds, LAST_WORD):
        pending = {task for task in going_on if not task.done()}
        for task in pending:
            task.cancel()
        if pending:
            await asyncio.wait(pending, timeout=patience)
    for task in going_on:
        if not task.done():
            _leave_behind(task)
        elif not task.cancelled() and (error := task.exception()):
            log.warning("%s failed while it was ending", task.get_name(), exc_info=error)


def _leave_behind(task: asyncio.Task[None]) -> None:
    log.error(
        "%s does not end; it is left behind, and the next leader fences it off", task.get_name()
    )
    _left_behind.add(task)
    task.add_done_callback(_left_behind.discard)


def _reason(ended: Iterable[asyncio.Task[None]]) -> Exception:
    """Why the term is over; a lost fence explains whatever else went wrong."""
    reasons = [_why(task) for task in ended]
    return next((each for each in reasons if isinstance(each, FenceLost)), reasons[0])


def _why(task: asyncio.Task[None]) -> Exception:
    error = None if task.cancelled() else task.exception()
    return error if isinstance(error, Exception) else RuntimeError(f"{task.get_name()} just ended")
