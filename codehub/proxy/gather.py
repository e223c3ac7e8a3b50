"""Many who ask at once, one question at a time: what is asked meanwhile goes into the next one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from codehub.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

K = TypeVar("K")

BATCH: Final = 500
MOST_WAITING: Final = 10_000
PATIENCE: Final = 3.0
"""Seconds that somebody waits for an answer; the question itself may take longer."""


class Gathered(Generic[K]):
    """`answer` settles a batch of keys; what it raises, everybody who asked for them gets."""

    def __init__(self, answer: Callable[[Sequence[K]], Awaitable[None]]) -> None:
        self._answer = answer
        self._waiting: dict[K, asyncio.Future[None]] = {}
        self._worker: asyncio.Task[None] | None = None

    async def ask(self, keys: Iterable[K]) -> None:
        """Returns when all of them are settled. Raises Unreachable when that takes too long."""
        futures = {self._future(key) for key in keys}
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        done, late = await asyncio.wait(futures, timeout=PATIENCE)
        if late:
            raise Unreachable("the database gives no answer", hint="see whether its server runs")
        for each in done:
            each.result()

    async def close(self) -> None:
        """Ask nothing more; those who wait are told."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)

    def _future(self, key: K) -> asyncio.Future[None]:
        if len(self._waiting) >= MOST_WAITING:
            raise Unreachable("too many ask at once", hint="try again in a few seconds")
        future = self._waiting.get(key)
        if future is None:
            future = self._waiting[key] = asyncio.get_running_loop().create_future()
            # Whoever asked may be gone when it fails.
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
        return future

    async def _work(self) -> None:
        while self._waiting:
            batch = {key: self._waiting.pop(key) for key in list(self._waiting)[:BATCH]}
            failure: BaseException | None = None
            try:
                await self._answer(list(batch))
            except asyncio.CancelledError:
                failure = Unreachable("the hub is closing")
                raise
            except Exception as error:
                failure = error
            finally:
                _settle(batch.values(), failure)


def _settle(futures: Iterable[asyncio.Future[None]], failure: BaseException | None) -> None:
    for future in futures:
        if future.done():
            continue
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)
