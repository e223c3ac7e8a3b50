"""Blocking work in threads that nobody waits for at the end.

`asyncio.to_thread` would, and so would the executors of the standard library, closed or not: a
thread that hangs, on a dead disk or a silent store perhaps, would keep the whole process from
ending.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import partial
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")

FAREWELL: Final = 5.0
"""Seconds that what is under way in threads gets when a process ends."""
DEFAULT_THREADS: Final = 32


async def in_thread(work: Callable[[], T]) -> T:
    """What `work` gives or raises; cancelled, its thread is left to itself."""
    return await Threads("codehub-look", 1).call(work)


class Threads:
    """At most so many at once; each lives as long as there is work, and what hangs keeps its place.

    Belongs to no event loop.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._lock = Lock()
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._begun: set[Future[Any]] = set()
        self._threads = 0
        self._closed = False

    async def call(self, work: Callable[[], T]) -> T:
        """What `work` gives or raises. Cancelled, it never begins, or goes on for nobody."""
        return await asyncio.wrap_future(self.submit(partial(copy_context().run, work)))

    def submit(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError(f"{self._name}: closed")
            self._waiting.append((future, work))
            if self._threads == self._most:
                return future
            self._threads += 1
        Thread(target=self._work, daemon=True, name=self._name).start()
        return future

    def close(self, patience: float = 0.0) -> None:
        """Nothing more begins; what is under way is awaited for so many seconds."""
        with self._lock:
            self._closed = True
            dropped, self._waiting = self._waiting, deque()
            begun = set(self._begun)
        for future, _ in dropped:
            future.cancel()
        wait(begun, patience)

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            future, work = taken
            if future.set_running_or_notify_cancel():
                _settle(future, work)
            with self._lock:
                self._begun.discard(future)

    def _take(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        with self._lock:
            if not self._waiting:
                self._threads -= 1
                return None
            future, work = self._waiting.popleft()
            self._begun.add(future)
            return future, work


class LooseExecutor(ThreadPoolExecutor):
    """An event loop's default executor whose threads are awaited a moment at the end, not longer.

    A ThreadPoolExecutor only by name, since an event loop takes no other.
    """

    def __init__(self) -> None:
        super().__init__(1)
        self._loose = Threads("codehub-thread", DEFAULT_THREADS)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return self._loose.submit(partial(fn, *args, **kwargs))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        self._loose.close(FAREWELL if wait else 0.0)


def _settle(future: Future[T], work: Callable[[], T]) -> None:
    try:
        result = work()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
