"""A proxy that ends tells what it knows: who was active since its last flush is in the database."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from codehub.store.connect import connect
from tests.integration.stored import live
from tests.proxy.whole_world import PATIENCE, whole

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from tests.proxy.whole_world import Whole

pytestmark = pytest.mark.anyio

NOWHERE = "redis://127.0.0.1:1/0"
"""Without Redis, what is told is in Postgres, and can be read there."""
RARELY = 3600


async def last_access(conn: AsyncConnection[DictRow]) -> datetime | None:
    return (await live(conn, "api")).activity.last_access_at


async def save(proxy: Whole) -> None:
    said = (proxy.cookie, "Origin: http://localhost", "Content-Length: 0")
    answer = await proxy.ask(proxy.get("/w/api/save", *said, method="POST"))
    assert answer.startswith(b"HTTP/1.1 200"), answer


async def test_what_was_not_flushed_yet_is_told_at_the_end(
    database_url: str, tmp_path: Path
) -> None:
    async with await connect(database_url) as conn:
        async with whole(database_url, NOWHERE, tmp_path, activity_flush_interval=RARELY) as proxy:
            await save(proxy)
            async with asyncio.timeout(PATIENCE):
                while (came := await last_access(conn)) is None:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await save(proxy)
            assert await last_access(conn) == came, "who goes on is told of by the flushes"
        ended = await last_access(conn)
    assert ended is not None
    assert ended > came
