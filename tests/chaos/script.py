"""One leader's calls to the outside, counted; and what happens at chosen ones of them."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

T = TypeVar("T")

LONGEST_PAUSE = 60.0
"""Seconds after which a thread that nobody resumes goes on, so that a failed test ends."""


class Crash(BaseException):
    """The process is gone: nothing it would still do happens."""


class Fault(StrEnum):
    """What happens at a call."""

    BEFORE = "crash before"
    AFTER = "crash after"
    LATE = "done, but timed out"
    FAILED = "failed"
    PAUSE = "paused"
    PAUSE_AFTER = "paused after"
    HOLD = "held up"


FAULTS = (Fault.BEFORE, Fault.AFTER, Fault.LATE, Fault.FAILED)
AFTERWARDS = (Fault.AFTER, Fault.LATE)
"""What happens once the call was made."""


class Script:
    """Strikes at the calls named by number. After a crash every further call crashes as well.

    A pause holds all calls from that one on, as a stopped process does, until `resume`. A hold is
    one slow call, until `release`; `named` strikes once at the next call of that name.
    """

    def __init__(self, strikes: Mapping[int, Fault] | None = None) -> None:
        self.strikes = dict(strikes or {})
        self.named: dict[str, Fault] = {}
        self.calls: list[str] = []
        self.struck: list[str] = []
        self.dead = False
        self.paused = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._go = asyncio.Event()
        self._go.set()
        self._go_threads = threading.Event()
        self._go_threads.set()
        self._lock = threading.Lock()
        self._under_way = 0
        self._held: list[asyncio.Event] = []

    async def call(
        self, name: str, done: Callable[[], Awaitable[T]], error: Callable[[str, bool], Exception]
    ) -> T:
        """Make the call, or what the script makes of it."""
        fault = self._enter(name, error)
        try:
            await self._go.wait()
            if fault is Fault.HOLD:
                await self._hold_up()
            self._require_alive()
            result = await done()
            if fault is Fault.PAUSE_AFTER:
                self._stop()
                await self._go.wait()
            return self._leave(fault, result, name, error)
        finally:
            self._done()

    def call_in_thread(
        self, name: str, done: Callable[[], T], error: Callable[[str, bool], Exception]
    ) -> T:
        """The same for calls that block."""
        fault = self._enter(name, error)
        try:
            self._go_threads.wait(LONGEST_PAUSE)
            self._require_alive()
            return self._leave(fault, done(), name, error)
        finally:
            self._done()

    @property
    def awake(self) -> bool:
        """Whether calls are answered."""
        return self._go_threads.is_set()

    def resume(self) -> None:
        self._go.set()
        self._go_threads.set()

    @property
    def holding(self) -> int:
        """How many calls are held up."""
        return len(self._held)

    def release(self, most: int | None = None) -> None:
        """Let those that were held up first go on."""
        for each in self._held[:most]:
            each.set()

    def kill(self) -> None:
        """The process ends here, wherever it is."""
        self.dead = True
        self.resume()
        self.release()

    async def idle(self, but: int = 0) -> None:
        """Until no call is under way, but for so many that wait themselves."""
        while self._under_way > but:  # noqa: ASYNC110  (threads count it too)
            await asyncio.sleep(0.0005)

    def _enter(self, name: str, error: Callable[[str, bool], Exception]) -> Fault | None:
        with self._lock:
            self._require_alive()
            fault = self.strikes.get(len(self.calls)) or self.named.pop(name, None)
            self.calls.append(name)
            if fault is not None:
                self.struck.append(f"{fault} at {name} (call {len(self.calls) - 1})")
            if fault is Fault.BEFORE:
                self.dead = True
                raise Crash
            if fault is Fault.FAILED:
                raise error(name, False)
            self._under_way += 1
        if fault is Fault.PAUSE:
            self._stop()
        return fault

    def _stop(self) -> None:
        self._go_threads.clear()
        self._loop.call_soon_threadsafe(self._hold)
        if threading.current_thread() is threading.main_thread():
            self._go.clear()

    async def _hold_up(self) -> None:
        released = asyncio.Event()
        self._held.append(released)
        try:
            await released.wait()
        finally:
            self._held.remove(released)

    def _hold(self) -> None:
        if not self._go_threads.is_set():
            self._go.clear()
        self.paused.set()

    def _leave(
        self,
        fault: Fault | None,
        result: T,
        name: str,
        error: Callable[[str, bool], Exception],
    ) -> T:
        self._require_alive()
        if fault is Fault.AFTER:
            self.dead = True
            raise Crash
        if fault is Fault.LATE:
            raise error(name, True)
        return result

    def _done(self) -> None:
        with self._lock:
            self._under_way -= 1

    def _require_alive(self) -> None:
        if self.dead:
            raise Crash


@contextmanager
def telling(struck: list[str]) -> Iterator[None]:
    """What fails is told with what had struck."""
    try:
        yield
    except AssertionError as error:
        error.add_note("; ".join(struck))
        raise
