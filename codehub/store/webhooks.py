"""The webhooks that the specs declare, as rows with an identity and a beginning.

The loader writes them with the hub, in its transaction. A webhook is known by its address: one
whose address changes is another one, and what was on its way to the old address ends.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from psycopg.types.json import Jsonb

from codehub.core.notify import name_webhooks
from codehub.model.webhook import Backlog, Receiver, Sender
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.people import Webhook

REMOVE_OTHERS: Final = """
UPDATE webhooks SET removed_at = now() WHERE removed_at IS NULL AND url <> ALL(%(urls)s::text[])
"""

# Rows that would not change are not written. The loader is the only writer, so none comes between.
CHANGE: Final = """
UPDATE webhooks w SET name = d.name, events = d.events, secret = d.secret
FROM jsonb_populate_recordset(NULL::webhooks, %(declared)s) AS d
WHERE w.url = d.url AND w.removed_at IS NULL
AND (w.name, w.events, w.secret) IS DISTINCT FROM (d.name, d.events, d.secret)
"""

ADD: Final = """
INSERT INTO webhooks (name, url, events, secret)
SELECT d.name, d.url, d.events, d.secret
FROM jsonb_populate_recordset(NULL::webhooks, %(declared)s) AS d
WHERE NOT EXISTS (SELECT FROM webhooks w WHERE w.url = d.url AND w.removed_at IS NULL)
"""

COLUMNS: Final = "w.id AS webhook_id, w.name, w.url, w.events, w.secret, w.since"

READ_RECEIVERS: Final = f"SELECT {COLUMNS} FROM webhooks w WHERE w.removed_at IS NULL ORDER BY name"

READ_SENDER: Final = "SELECT id, name FROM hub"

READ_BACKLOGS: Final = f"""
SELECT {COLUMNS}, d.*
FROM webhooks w CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE delivered_at IS NULL AND failed_at IS NULL) AS pending,
        count(*) FILTER (WHERE delivered_at IS NULL AND failed_at IS NULL AND attempts > 0)
            AS failing,
        count(*) FILTER (WHERE failed_at IS NOT NULL) AS failed,
        count(*) FILTER (WHERE delivered_at IS NOT NULL) AS delivered,
        max(delivered_at) AS last_delivered_at
    FROM webhook_deliveries WHERE webhook_id = w.id
) AS d
WHERE w.removed_at IS NULL ORDER BY w.name
"""


async def declare_webhooks(conn: AsyncConnection[DictRow], webhooks: Sequence[Webhook]) -> None:
    """Make the rows say what the specs say, within the loader's transaction."""
    declared = [
        {"name": name, "url": each.url, "events": list(each.events), "secret": each.secret}
        for name, each in zip(name_webhooks(webhooks), webhooks, strict=True)
    ]
    await conn.execute(REMOVE_OTHERS, {"urls": [each.url for each in webhooks]})
    if declared:
        await conn.execute(CHANGE, {"declared": Jsonb(declared)})
        await conn.execute(ADD, {"declared": Jsonb(declared)})


async def read_receivers(conn: AsyncConnection[DictRow]) -> tuple[Receiver, ...]:
    """Those that are declared now."""
    return tuple(receiver_of(row) for row in await fetch(conn, READ_RECEIVERS))


async def read_sender(conn: AsyncConnection[DictRow], public_url: str | None) -> Sender | None:
    """The hub as it introduces itself; None before it has its id."""
    rows = await fetch(conn, READ_SENDER)
    return Sender(rows[0]["id"], rows[0]["name"], public_url) if rows else None


async def read_backlogs(conn: AsyncConnection[DictRow]) -> tuple[Backlog, ...]:
    """How each one's deliveries stand, of those that are still kept."""
    return tuple(
        Backlog(
            receiver_of(row),
            pending=row["pending"],
            failing=row["failing"],
            failed=row["failed"],
            delivered=row["delivered"],
            last_delivered_at=row["last_delivered_at"],
        )
        for row in await fetch(conn, READ_BACKLOGS)
    )


def receiver_of(row: Mapping[str, Any]) -> Receiver:
    """From a row with `COLUMNS`, as `fetch` gives it."""
    return Receiver(
        id=row["webhook_id"],
        name=row["name"],
        url=row["url"],
        events=tuple(json.loads(row["events"])),
        secret=row["secret"],
        since=row["since"],
    )
