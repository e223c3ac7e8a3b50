"""Steps of a stream that work at the same time, each in its own thread, with little in between."""

from __future__ import annotations

from functools import partial
from queue import Queue
from threading import Thread
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

Piece = TypeVar("Piece")

CHUNK: Final = 1024 * 1024
_DEPTH: Final = 4


class Stage(Generic[Piece]):
    """Takes pieces in order. An error of its work is raised at the next `put` or at `close`."""

    def __init__(
        self, take: Callable[[Piece], None], finish: Callable[[], None] | None = None
    ) -> None:
        self._take = take
        self._finish = finish
        self._queue: Queue[Piece | None] = Queue(_DEPTH)
        self._error: BaseException | None = None
        self._given_up = False
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> Stage[Piece]:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Left early, the rest is thrown away and nothing is finished."""
        if self._thread.is_alive():
            self._given_up = True
            self._queue.put(None)
            self._thread.join()

    def put(self, piece: Piece) -> None:
        if self._error is not None:
            raise self._error
        self._queue.put(piece)

    def close(self) -> None:
        """Wait until everything is done."""
        self._queue.put(None)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        """After an error it goes on taking, so that nobody waits for ever at a full queue."""
        while (piece := self._queue.get()) is not None:
            self._attempt(partial(self._take, piece))
        if self._finish is not None:
            self._attempt(self._finish)

    def _attempt(self, work: Callable[[], None]) -> None:
        if self._error is not None or self._given_up:
            return
        try:
            work()
        except BaseException as error:
            self._error = error
