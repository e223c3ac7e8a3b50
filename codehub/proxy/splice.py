"""WebSockets after the handshake: bytes both ways, and an eye on what counts as activity."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codehub.proxy.body import PIECE

if TYPE_CHECKING:
    from collections.abc import Callable

GOODBYE_SECONDS: Final = 5
"""What the other side gets to end by itself once one has."""

_CONTROL: Final = 8


class FrameScanner:
    """Reads the headers of frames in one direction: data frames are activity, others are not.

    It follows the stream in pieces of any size and keeps at most one header.
    """

    def __init__(self) -> None:
        self._header = bytearray()
        self._payload = 0

    def has_data(self, piece: bytes) -> bool:
        """Whether a data frame begins in this piece (ping, pong and close are none)."""
        found, at = False, 0
        while at < len(piece):
            if self._payload:
                step = min(self._payload, len(piece) - at)
                self._payload -= step
                at += step
                continue
            self._header.append(piece[at])
            at += 1
            if len(self._header) >= 2 and len(self._header) == self._size():
                found = found or self._header[0] & 0x0F < _CONTROL
                self._payload = self._length()
                self._header.clear()
        return found

    def _size(self) -> int:
        """How long this header is, from its first two bytes."""
        mask = 4 if self._header[1] & 0x80 else 0
        return 2 + {126: 2, 127: 8}.get(self._header[1] & 0x7F, 0) + mask

    def _length(self) -> int:
        short = self._header[1] & 0x7F
        extended = {126: 2, 127: 8}.get(short, 0)
        return int.from_bytes(self._header[2 : 2 + extended], "big") if extended else short


async def splice(
    client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    seen: Callable[[], None],
) -> None:
    """Until both sides have ended, or one has and the other took too long to."""
    pumps = {
        asyncio.create_task(_pump(client[0], upstream[1], seen)),
        asyncio.create_task(_pump(upstream[0], client[1], seen)),
    }
    try:
        _, rest = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        if rest:
            await asyncio.wait(rest, timeout=GOODBYE_SECONDS)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


async def _pump(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, seen: Callable[[], None]
) -> None:
    scanner = FrameScanner()
    with suppress(ConnectionError):
        while piece := await source.read(PIECE):
            if scanner.has_data(piece):
                seen()
            sink.write(piece)
            await sink.drain()
        sink.write_eof()
