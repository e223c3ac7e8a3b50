"""A coordinator of its own process for the failover tests: it writes a row ten times a second.

    python -m tests.integration.leading URL HOLDER

Each write is fenced. One more is tried after the component was cancelled, as a leader would that
has not yet heard of its successor. What the fence refuses is noted without it.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codehub.coordinator.leader import Leader
from codehub.coordinator.pace import Failures
from codehub.errors import FenceLost
from codehub.store.fence import HOLDS, fenced

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from codehub.coordinator.lead import Lead
    from codehub.coordinator.pace import Component

TABLES = """
CREATE TABLE written (n bigserial, holder text, epoch int);
CREATE TABLE refused (n bigserial, holder text, epoch int);
"""
WRITE = f"INSERT INTO written (holder, epoch) SELECT %(holder)s, %(epoch)s WHERE {HOLDS}"
REFUSED = "INSERT INTO refused (holder, epoch) VALUES (%(holder)s, %(epoch)s)"
INTERVAL = 0.2


@dataclass(slots=True)
class Writer:
    lead: Lead
    holder: str
    name: str = "writer"

    async def run(self) -> None:
        try:
            while True:
                await self.write()
                await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            await self.write()
            raise

    async def write(self) -> None:
        values = {"holder": self.holder, "epoch": self.lead.fence.epoch}
        async with self.lead.pool.connection() as conn:
            try:
                await fenced(conn, self.lead.fence, WRITE, values)
            except FenceLost:
                await conn.execute(REFUSED, values)
                raise


async def main(url: str, holder: str) -> None:
    @asynccontextmanager
    async def components(lead: Lead) -> AsyncIterator[Sequence[Component]]:
        yield [Writer(lead, holder)]

    leader = Leader(url, holder, interval=INTERVAL, components=components, failures=Failures())
    await leader.run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(main(*sys.argv[1:]))
