"""Hints that the specs may have changed: file events, and a slow poll behind them.

Nothing is derived from an event but that it is time to look. Where there are none (network file
systems, some containers) the poll alone finds every change, only later.

The directory is listened to with all below it. What leads to it (its own name, and every link on
the way) is listened to in the directory above, so one that is removed and made again, or a link
that git-sync or a ConfigMap swaps, is followed. Listening happens in threads of its own: to begin
to listen on a network file system may hang, and must not hang the coordinator.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from watchfiles import watch

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable

    from watchfiles import Change

STEP_MS: Final = 200
"""How often a thread looks for events, and whether it is to end."""

GATHER_MS: Final = 1000
"""The longest that events of one flood are gathered before they are told."""

PATIENCE: Final = 5.0
"""Seconds to wait until all are listening; longer than any healthy file system takes."""

log: Final = logging.getLogger("codehub.specs")


async def changes(root: Path, *, poll: float) -> AsyncGenerator[None, None]:
    """Once at the start, once when listening has begun, then with every hint and every `poll`."""
    yield
    noticed = asyncio.Event()
    ears: _Ears | None = None
    try:
        while True:
            # First of all, so that whatever happens from here on gives another turn.
            noticed.clear()
            spot = await asyncio.to_thread(_locate, root)
            while ears is None or ears.outdated(spot):
                if ears is not None:
                    ears.stop()
                ears = _Ears(spot, noticed)
                await ears.open()
                # It may have come to lead elsewhere while we were not listening yet.
                spot = await asyncio.to_thread(_locate, root)
            yield
            with suppress(TimeoutError):
                async with asyncio.timeout(poll):
                    await noticed.wait()
    finally:
        if ears is not None:
            ears.stop()
            ears.join()


@dataclass(frozen=True, slots=True)
class _Spot:
    """Where a root leads at one moment; `ways` are the paths that may come to lead elsewhere."""

    real: str
    identity: tuple[int, int] | None
    ways: frozenset[str]


def _locate(root: Path) -> _Spot:
    absolute = root.absolute()
    links = [each for each in absolute.parents if os.path.islink(each)]  # noqa: PTH114
    ways = frozenset(_nearest(each) for each in (absolute, *links))
    real = os.path.realpath(absolute)
    try:
        status = Path(real).stat()
    except OSError:
        return _Spot(real, None, ways)
    return _Spot(real, (status.st_dev, status.st_ino), ways)


def _nearest(path: Path) -> str:
    """The path itself, or of what is missing above it the topmost: it has to come first."""
    while not os.path.isdir(path.parent):  # noqa: PTH112
        path = path.parent
    return str(Path(os.path.realpath(path.parent)) / path.name)


class _Ears:
    """Listens to one spot, until it is another one."""

    def __init__(self, spot: _Spot, noticed: asyncio.Event) -> None:
        self._spot = spot
        self._noticed = noticed
        self._moved = False
        self._loop = asyncio.get_running_loop()
        above = {str(Path(each).parent) for each in spot.ways}
        self._threads = [_Thread(above, spot.ways.__contains__, self._tell_moved, deep=False)]
        if spot.identity is not None:
            below = _shown_below(spot.real)
            self._threads.append(_Thread([spot.real], below, self._tell, deep=True))

    async def open(self) -> None:
        """Until all are listening; one that takes too long is not waited for."""
        for thread in self._threads:
            thread.start()
        await asyncio.to_thread(self._wait)

    def _wait(self) -> None:
        for thread in self._threads:
            thread.begun.wait(PATIENCE)

    def outdated(self, spot: _Spot) -> bool:
        """A directory made anew may even have the old one's number, so being told counts too."""
        return self._moved or spot != self._spot

    def stop(self) -> None:
        for thread in self._threads:
            thread.ended.set()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE)

    def _tell(self) -> None:
        self._call(self._noticed.set)

    def _tell_moved(self) -> None:
        self._call(self._note_move)

    def _note_move(self) -> None:
        self._moved = True
        self._noticed.set()

    def _call(self, what: Callable[[], None]) -> None:
        # The loop may have ended; then nobody listens any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(what)


class _Thread(threading.Thread):
    """Tells of events at some paths until `ended` is set; what cannot be watched is left to polls.

    A daemon, so that one that hangs in a file system does not keep the process.
    """

    def __init__(
        self,
        paths: Iterable[str],
        wanted: Callable[[str], bool],
        tell: Callable[[], None],
        *,
        deep: bool,
    ) -> None:
        super().__init__(name="codehub-specs", daemon=True)
        self.begun = threading.Event()
        self.ended = threading.Event()
        self._paths = sorted(paths)
        self._wanted = wanted
        self._tell = tell
        self._deep = deep

    def run(self) -> None:
        try:
            self._listen()
        except Exception as error:
            log.info("no file events at %s: %s", ", ".join(self._paths), error)
        finally:
            self.begun.set()

    def _listen(self) -> None:
        for events in watch(
            *self._paths,
            watch_filter=self._filter,
            debounce=GATHER_MS,
            step=STEP_MS,
            rust_timeout=STEP_MS,
            yield_on_timeout=True,
            stop_event=self.ended,
            raise_interrupt=False,
            recursive=self._deep,
            ignore_permission_denied=True,
        ):
            self.begun.set()
            if events:
                self._tell()

    def _filter(self, _: Change, path: str) -> bool:
        return self._wanted(path)


def _shown_below(real: str) -> Callable[[str], bool]:
    """Whether a path counts: not what lies in hidden directories, where git and others are busy.

    Their own names count: a hidden link is what a ConfigMap swaps.
    """
    start = len(real.rstrip("/")) + 1

    def counts(path: str) -> bool:
        return not any(part.startswith(".") for part in path[start:].split("/")[:-1])

    return counts
