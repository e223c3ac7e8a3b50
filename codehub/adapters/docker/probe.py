"""Whether a published port answers.

The engine listens on a published port itself and takes every connection, also while nothing
listens inside; it closes such a one at once. So a connection counts only when something comes back
on it, or when it stays open: then somebody inside has it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

HOST: Final = "127.0.0.1"
PATIENCE: Final = 1.0
"""Seconds after which a connection that was neither answered nor closed counts as taken."""

_REQUEST: Final = b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def answers(port: int) -> bool:
    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(HOST, port)
    except (OSError, TimeoutError):
        return False
    try:
        # From the range that outgoing connections use, one could meet itself.
        if writer.get_extra_info("sockname") == writer.get_extra_info("peername"):
            return False
        return await _comes_back(reader, writer)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _comes_back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    try:
        async with asyncio.timeout(PATIENCE):
            writer.write(_REQUEST)
            return await reader.read(1) != b""
    except TimeoutError:
        return True
    except OSError:
        return False
