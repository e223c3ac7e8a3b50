"""The hub's own row, and everything a plan compares with, read in one snapshot.

Reading never writes: the hub's id comes into being with the first apply or the first leader.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from psycopg.pq import TransactionStatus
from psycopg.types.json import Jsonb

from codehub.model.people import Hub, Webhook
from codehub.model.revision import HubState
from codehub.model.workspace import Runtime
from codehub.store.columns import source_text
from codehub.store.connect import transaction, translated
from codehub.store.revisions import latest_applied, latest_failed
from codehub.store.rows import source_of
from codehub.store.users import read_users
from codehub.store.webhooks import declare_webhooks
from codehub.store.workspaces import fetch, read_workspaces

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

READ_HUB_ID: Final = "SELECT id FROM hub"

READ_HUB: Final = "SELECT id, name, spec FROM hub"

# The row that is there keeps its id: archives and volumes carry it. An equal one is not written.
WRITE_HUB: Final = """
INSERT INTO hub AS h (name, spec) VALUES (%(name)s, %(spec)s)
ON CONFLICT ((true)) DO UPDATE SET name = EXCLUDED.name, spec = EXCLUDED.spec
WHERE (h.name, h.spec) IS DISTINCT FROM (EXCLUDED.name, EXCLUDED.spec)
"""


ENSURE_HUB: Final = "INSERT INTO hub DEFAULT VALUES ON CONFLICT DO NOTHING"


async def read_hub_state(conn: AsyncConnection[DictRow], owner: str | None = None) -> HubState:
    """What the database holds, all of it as of one moment; of workspaces only the `owner`'s.

    Within a transaction of the caller it reads in that one. Under the loader's lock that is as
    good as a snapshot: the loader is the only writer of the hub, users, revisions and
    declarations, and workspaces are read by a single query.
    """
    async with _snapshot(conn):
        hub, hub_id = await _read_hub(conn)
        return HubState(
            hub=hub,
            hub_id=hub_id,
            revision=await latest_applied(conn),
            workspaces=await read_workspaces(conn, owner),
            users=await read_users(conn),
            failed=await latest_failed(conn),
        )


async def write_hub(conn: AsyncConnection[DictRow], hub: Hub) -> None:
    """Write what the specs say of the hub; the first time, this gives it its id."""
    await conn.execute(WRITE_HUB, {"name": hub.name, "spec": Jsonb(_spec(hub))})
    await declare_webhooks(conn, hub.webhooks)


async def read_hub_id(conn: AsyncConnection[DictRow]) -> UUID | None:
    """The hub's id; None before the first apply."""
    with translated():
        rows = await fetch(conn, READ_HUB_ID)
    return rows[0]["id"] if rows else None


async def ensure_hub_id(conn: AsyncConnection[DictRow]) -> UUID:
    """The hub's id, given to it now if nothing was applied yet: what a leader makes carries it."""
    found = await read_hub_id(conn)
    if found is not None:
        return found
    with translated():
        await conn.execute(ENSURE_HUB)
    made = await read_hub_id(conn)
    assert made is not None  # it was there, or is now; rows of hubs are never removed
    return made


@asynccontextmanager
async def _snapshot(conn: AsyncConnection[DictRow]) -> AsyncIterator[None]:
    if conn.info.transaction_status is not TransactionStatus.IDLE:
        yield
        return
    async with transaction(conn, snapshot=True):
        yield


async def _read_hub(conn: AsyncConnection[DictRow]) -> tuple[Hub, str | None]:
    rows = await fetch(conn, READ_HUB)
    if not rows:
        return Hub(), None
    return _hub(rows[0]["name"], json.loads(rows[0]["spec"])), str(rows[0]["id"])


def _spec(hub: Hub) -> dict[str, object]:
    return {
        "max_running_per_user": hub.max_running_per_user,
        "max_running_global": hub.max_running_global,
        "default_ttl": hub.default_ttl,
        "default_runtime": hub.default_runtime and hub.default_runtime.value,
        "prune": hub.prune,
        "webhooks": [
            {
                "url": each.url,
                "events": list(each.events),
                "secret": each.secret,
                "name": each.name,
            }
            for each in hub.webhooks
        ],
        "source": source_text(hub.source),
    }


def _hub(name: str, spec: dict[str, Any]) -> Hub:
    runtime = spec.get("default_runtime")
    return Hub(
        name=name,
        max_running_per_user=spec.get("max_running_per_user"),
        max_running_global=spec.get("max_running_global"),
        default_ttl=spec.get("default_ttl"),
        default_runtime=None if runtime is None else Runtime(runtime),
        prune=spec.get("prune", True),
        webhooks=tuple(
            Webhook(each["url"], tuple(each["events"]), each["secret"], each.get("name"))
            for each in spec.get("webhooks", ())
        ),
        source=source_of(spec.get("source", "")),
    )
