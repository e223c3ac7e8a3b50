"""What a workspace writes, in two files of bounded size: `{id}.log` and, before it, `{id}.log.1`.

A workspace writes to its file directly, so that it never depends on the hub. The hub cuts the file
whenever it looks and finds it too long; between two looks it may grow further.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

from codehub.adapters import words

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from pathlib import Path

LIMIT: Final = 4 * 2**20
KEPT: Final = 2**20
_CHUNK: Final = 64 * 2**10
_PAUSE: Final = 0.1


def rotate(log: Path) -> None:
    """Begin a new file; the last start's output stays readable before it."""
    if log.exists():
        trim(log)
        log.replace(earlier(log))


def trim(log: Path) -> None:
    """Cut a file that is too long: its end moves to the earlier file.

    The writer appends and goes on at the new end. What it writes in this moment may be lost.
    """
    try:
        if log.stat().st_size <= LIMIT:
            return
    except FileNotFoundError:
        return
    draft = log.with_suffix(".cut")
    draft.write_bytes(_read_end(log, KEPT))
    draft.replace(earlier(log))
    os.truncate(log, 0)


def remove(log: Path) -> None:
    for path in (log, earlier(log), log.with_suffix(".cut")):
        path.unlink(missing_ok=True)


def earlier(log: Path) -> Path:
    return log.with_suffix(".log.1")


def tail(log: Path, lines: int) -> tuple[bytes, _Place]:
    """The last lines of both files, and where in the newer one they end."""
    place, newer = _Place(), b""
    while chunk := place.read(log):
        newer = (newer + chunk)[-LIMIT:]
    older = _read_end(earlier(log), KEPT)
    if older and not older.endswith(b"\n"):
        older += b"\n"
    last = (older + newer).splitlines(keepends=True)[-lines:] if lines > 0 else []
    return b"".join(last), place


async def follow(log: Path, lines: int, is_running: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The last lines, then what comes, until the workspace no longer runs."""
    begin, place = await asyncio.to_thread(tail, log, lines)
    if begin:
        yield begin
    while True:
        # Asked before reading, so that the last words of one that ends now are not missed.
        running = await asyncio.to_thread(is_running)
        chunk = await asyncio.to_thread(place.read, log)
        if chunk:
            yield chunk
        elif not running:
            return
        else:
            await asyncio.sleep(_PAUSE)


def last_words(log: Path, hide: Iterable[str]) -> str:
    """The last lines as one short line for an error message, without any of the hidden values."""
    return words.last_words(_read_end(log, _CHUNK), hide)


class _Place:
    """How far a file has been read; begins again when it was cut or replaced."""

    def __init__(self) -> None:
        self._inode, self._offset = 0, 0

    def read(self, log: Path) -> bytes:
        try:
            with log.open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._inode or status.st_size < self._offset:
                    self._inode, self._offset = status.st_ino, 0
                file.seek(self._offset)
                chunk = file.read(_CHUNK)
        except FileNotFoundError:
            return b""
        self._offset += len(chunk)
        return chunk


def _read_end(path: Path, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            return file.read(size)
    except FileNotFoundError:
        return b""
