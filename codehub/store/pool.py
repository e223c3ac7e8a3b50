"""Connections to share: a coordinator's components and acts write at once, on few connections."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

from codehub.cancelling import cancellations, heed
from codehub.store.connect import arguments, translated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

PATIENCE: Final = 10.0
"""Seconds to wait for a connection before the database counts as unreachable."""

RECONNECT: Final = 2.0
"""Seconds in which the pool tries by itself to replace a lost connection. It waits ever longer
between its tries; after this time whoever next asks for a connection makes it try at once."""

CLOSING: Final = 3.0
"""Seconds to wait for a connection that is just being made, before the pool closes without it."""


class Pool:
    """Connections in autocommit with rows as dicts, like those of `connect`.

    Use it as a context manager. `checked` asks each connection for a sign of life before it is
    given out, for those that outlive a restart of the server. `connection_class` is for tests that
    inject faults.
    """

    def __init__(
        self,
        url: str,
        *,
        size: int = 6,
        checked: bool = False,
        connection_class: type[AsyncConnection[DictRow]] = AsyncConnection[DictRow],
    ) -> None:
        self._pool = AsyncConnectionPool(
            arguments(url),
            connection_class=connection_class,
            kwargs={"autocommit": True, "row_factory": dict_row},
            min_size=1,
            max_size=size,
            timeout=PATIENCE,
            reconnect_timeout=RECONNECT,
            open=False,
            check=AsyncConnectionPool.check_connection if checked else None,
            name="codehub",
        )

    async def __aenter__(self) -> Pool:
        with translated():
            await self._pool.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._pool.close(timeout=CLOSING)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[DictRow]]:
        """A connection for a while. Raises Unreachable when the database gives none."""
        since = cancellations()
        with translated():
            async with self._pool.connection() as conn:
                heed(since)
                yield conn
