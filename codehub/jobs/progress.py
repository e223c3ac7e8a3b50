"""Saying how far a job is, often enough to show it and to tell slow from stuck."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EVERY_BYTES: Final = 8 * 1024 * 1024
EVERY_SECONDS: Final = 2.0


class Progress:
    """Reports `bytes` and `entries` of the stage under way; silence means that nothing moves."""

    def __init__(
        self, report: Callable[[Mapping[str, object]], None], clock: Callable[[], float]
    ) -> None:
        self._report = report
        self._clock = clock
        self._stage = ""
        self._total: int | None = None
        self._told = (0, 0)
        self._told_at = clock()

    def begin(self, stage: str, total: int | None = None) -> None:
        """Enter a stage, of so many bytes where that is known."""
        self._stage = stage
        self._total = total
        self._tell(0, 0)

    def at(self, count: int, entries: int) -> None:
        """So many bytes and entries of this stage are done."""
        far = count - self._told[0] >= EVERY_BYTES
        moved = (count, entries) != self._told
        if far or (moved and self._clock() - self._told_at >= EVERY_SECONDS):
            self._tell(count, entries)

    def _tell(self, count: int, entries: int) -> None:
        self._told = (count, entries)
        self._told_at = self._clock()
        total = {} if self._total is None else {"total": self._total}
        self._report(
            {"event": "progress", "stage": self._stage, "bytes": count, "entries": entries} | total
        )
