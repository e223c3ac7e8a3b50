"""What a hub's database says that checks of other parts go by: whose they are, and what they hold.

That it cannot be read is the finding of the database's own checks; here it is merely not known.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codehub.errors import CodeHubError
from codehub.model.workspace import Runtime
from codehub.store.connect import connect, translated
from codehub.store.gc import holds_archives
from codehub.store.homes import holds_homes
from codehub.store.hubs import read_hub_id
from codehub.store.rows import BACKENDS
from codehub.store.schema import require_schema
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from uuid import UUID

PATIENCE: Final = 10.0

LIVE: Final = """
SELECT EXISTS (
    SELECT FROM workspaces WHERE instance_backend = %(backend)s AND deleted_at IS NULL
) AS any
"""


@dataclass(frozen=True, slots=True)
class Known:
    """A hub that has an id. `needs_docker`: some workspace is declared to run there."""

    hub_id: UUID
    has_archives: bool
    has_docker_homes: bool
    needs_docker: bool


async def read_known(url: str | None) -> Known | None:
    """None where there is no hub yet, or where its database gives no answer."""
    if url is None:
        return None
    try:
        async with asyncio.timeout(PATIENCE):
            return await _read(url)
    except (CodeHubError, TimeoutError):
        return None


async def _read(url: str) -> Known | None:
    async with await connect(url) as conn:
        await require_schema(conn)
        hub_id = await read_hub_id(conn)
        if hub_id is None:
            return None
        with translated():
            homes = bool(await holds_homes(conn, Runtime.DOCKER))
            live = await fetch(conn, LIVE, {"backend": BACKENDS[Runtime.DOCKER][0]})
        return Known(hub_id, await holds_archives(conn), homes, homes or bool(live[0]["any"]))
