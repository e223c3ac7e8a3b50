"""Blocking work in a thread that nobody waits for at the end.

`asyncio.to_thread` would: a thread that hangs, on a dead disk perhaps, would keep the whole command
from ending after its time limit.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """What `work` gives or raises; cancelled, its thread is left to itself."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: Exception | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result: T | None = None
        failure: Exception | None = None
        try:
            result = work()
        except Exception as error:
            failure = error
        # The loop is closed when this comes too late, and nobody wants it any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, failure)

    Thread(target=run, daemon=True, name="codehub-look").start()
    return await done
