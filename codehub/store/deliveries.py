"""The outbox of webhooks: from what happened to what is on its way, and what came of it.

A trigger keeps what may matter in `webhook_events`, in the transaction in which it happens. The
leader turns that into deliveries and removes it, in one transaction: each event becomes one
delivery for each webhook, however often a leader dies over it. Then it posts, and records what
came of it; what dies in between is posted once more, under the same id. Every write is fenced.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from psycopg.types.json import Jsonb

from codehub.errors import NotFound
from codehub.model.webhook import Cause, Delivery, Due, FailedLoad, Happening, Moved
from codehub.store.events import event_of
from codehub.store.fence import HOLDS, fenced
from codehub.store.revisions import read_revision
from codehub.store.webhooks import COLUMNS, receiver_of
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.core.redeliver import Settled
    from codehub.model.webhook import Parcel
    from codehub.store.fence import Fence

LOOK: Final = """
SELECT EXISTS (SELECT FROM webhook_events) AS waiting, EXISTS (
    SELECT FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook_id
    WHERE d.delivered_at IS NULL AND d.failed_at IS NULL AND w.removed_at IS NOT NULL
) AS orphaned
"""

READ_WAITING: Final = """
SELECT id AS number, revision_id FROM webhook_events ORDER BY id LIMIT %(limit)s
"""

# With the line of the audit before it that says why; rows and the audit outlive their workspaces.
READ_MOVED: Final = """
SELECT q.id AS number, w.phase, u.name AS owner, e.*, c.new AS cause_new,
    c.source AS cause_source, c.by AS cause_by, c.reason AS cause_reason
FROM webhook_events q
JOIN workspace_events e ON e.id = q.event_id
JOIN workspaces w ON w.id = e.workspace_id
JOIN users u ON u.id = w.owner_user_id
LEFT JOIN LATERAL (
    SELECT * FROM workspace_events
    WHERE workspace_id = e.workspace_id AND id < e.id AND e.kind = 'phase'
    AND kind = CASE e.new WHEN 'ERROR' THEN 'error' ELSE 'desired' END
    ORDER BY id DESC LIMIT 1
) AS c ON true
WHERE q.id = ANY(%(numbers)s)
"""

TAKE_OUT: Final = f"DELETE FROM webhook_events WHERE id = ANY(%(numbers)s) AND {HOLDS}"

ENQUEUE: Final = f"""
INSERT INTO webhook_deliveries (id, webhook_id, kind, payload, expires_at)
SELECT p.id, p.webhook_id, p.kind, p.payload, now() + %(lasts)s
FROM jsonb_populate_recordset(NULL::webhook_deliveries, %(parcels)s) AS p
WHERE {HOLDS}
ON CONFLICT (id) DO NOTHING
"""

# What nobody declares any more is not sent, and says so.
END_REMOVED: Final = f"""
UPDATE webhook_deliveries d
SET failed_at = now(), last_error = 'the webhook was removed from the specs'
FROM webhooks w
WHERE w.id = d.webhook_id AND w.removed_at IS NOT NULL
AND d.delivered_at IS NULL AND d.failed_at IS NULL AND {HOLDS}
"""

# The payload stays out where it is not asked for.
_DELIVERY: Final = f"""
SELECT d.id, d.kind, d.created_at, d.expires_at, d.attempts, d.next_at, d.delivered_at,
    d.failed_at, d.last_status, d.last_error, {COLUMNS}
FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook_id
"""

WHO_IS_DUE: Final = """
SELECT DISTINCT d.webhook_id FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook_id
WHERE d.delivered_at IS NULL AND d.failed_at IS NULL AND d.next_at <= now()
AND w.removed_at IS NULL
"""

# News first: what was tried in vain waits for it.
READ_DUE: Final = f"""
SELECT due.*, p.payload, now() AS now
FROM ({_DELIVERY}
    WHERE d.webhook_id = %(webhook)s AND w.removed_at IS NULL
    AND d.delivered_at IS NULL AND d.failed_at IS NULL AND d.next_at <= now()
    ORDER BY d.attempts, d.next_at, d.id LIMIT %(limit)s
) AS due JOIN webhook_deliveries p ON p.id = due.id
ORDER BY due.attempts, due.next_at, due.id
"""

# What has ended meanwhile (its webhook was removed) keeps its end.
RECORD: Final = f"""
UPDATE webhook_deliveries
SET attempts = attempts + 1, last_status = %(status)s, last_error = %(error)s,
    delivered_at = CASE WHEN %(delivered)s THEN now() END,
    failed_at = CASE WHEN %(failed)s THEN now() END,
    next_at = COALESCE(%(next_at)s, next_at)
WHERE id = %(id)s AND delivered_at IS NULL AND failed_at IS NULL AND {HOLDS}
"""

# With all the time it had in the beginning. One under way is not delivered twice by that.
RETRY: Final = f"""
UPDATE webhook_deliveries d
SET failed_at = NULL, attempts = 0, next_at = now(), expires_at = now() + %(lasts)s
FROM webhooks w
WHERE d.id = %(id)s AND d.delivered_at IS NULL AND w.id = d.webhook_id AND w.removed_at IS NULL
AND {HOLDS}
"""

PRUNE: Final = f"""
DELETE FROM webhook_deliveries
WHERE (delivered_at IS NOT NULL OR failed_at IS NOT NULL) AND created_at < now() - %(age)s
AND {HOLDS}
"""

FORGET_REMOVED: Final = f"""
DELETE FROM webhooks w WHERE w.removed_at < now() - %(age)s
AND NOT EXISTS (SELECT FROM webhook_deliveries d WHERE d.webhook_id = w.id) AND {HOLDS}
"""

READ_ONE: Final = f"{_DELIVERY} WHERE d.id = %(id)s"

READ_TROUBLED: Final = f"""
{_DELIVERY} WHERE w.removed_at IS NULL AND d.delivered_at IS NULL
AND (d.failed_at IS NOT NULL OR d.attempts > 0)
ORDER BY d.created_at DESC, d.id LIMIT %(limit)s
"""


async def look(conn: AsyncConnection[DictRow]) -> tuple[bool, bool]:
    """Whether anything is to be handed out, and whether anything is to be ended."""
    row = (await fetch(conn, LOOK))[0]
    return row["waiting"], row["orphaned"]


async def read_waiting(conn: AsyncConnection[DictRow], limit: int) -> tuple[Happening, ...]:
    """What is to be handed out, oldest first."""
    waiting = await fetch(conn, READ_WAITING, {"limit": limit})
    numbers = [row["number"] for row in waiting if row["revision_id"] is None]
    moved = await fetch(conn, READ_MOVED, {"numbers": numbers}) if numbers else []
    found: dict[int, Moved | FailedLoad] = {row["number"]: _moved(row) for row in moved}
    for row in waiting:
        if row["revision_id"] is not None:
            with suppress(NotFound):
                found[row["number"]] = FailedLoad(await read_revision(conn, row["revision_id"]))
    return tuple(Happening(row["number"], found.get(row["number"])) for row in waiting)


async def hand_out(
    conn: AsyncConnection[DictRow],
    fence: Fence,
    parcels: Iterable[Parcel],
    numbers: Sequence[int],
    lasts: timedelta,
) -> None:
    """Put parcels on their way and take what they came from out, within one transaction."""
    await enqueue(conn, fence, parcels, lasts)
    await fenced(conn, fence, TAKE_OUT, {"numbers": list(numbers)})


async def enqueue(
    conn: AsyncConnection[DictRow], fence: Fence, parcels: Iterable[Parcel], lasts: timedelta
) -> None:
    """Put parcels on their way; one that is there already stays as it is."""
    rows = [
        {
            "id": str(each.id),
            "webhook_id": str(each.receiver_id),
            "kind": each.kind,
            "payload": dict(each.payload),
        }
        for each in parcels
    ]
    if rows:
        await fenced(conn, fence, ENQUEUE, {"parcels": Jsonb(rows), "lasts": lasts})


async def end_removed(conn: AsyncConnection[DictRow], fence: Fence) -> int:
    """End what is on its way to webhooks that are declared no more; how many there were."""
    return (await fenced(conn, fence, END_REMOVED)).rowcount


async def who_is_due(conn: AsyncConnection[DictRow]) -> tuple[UUID, ...]:
    """The webhooks for which there is something to send now."""
    return tuple(row["webhook_id"] for row in await fetch(conn, WHO_IS_DUE))


async def read_due(conn: AsyncConnection[DictRow], webhook_id: UUID, limit: int) -> tuple[Due, ...]:
    """What is to be sent to one webhook now."""
    rows = await fetch(conn, READ_DUE, {"webhook": webhook_id, "limit": limit})
    return tuple(Due(_delivery(row), json.loads(row["payload"]), row["now"]) for row in rows)


async def record(
    conn: AsyncConnection[DictRow], fence: Fence, delivery_id: UUID, settled: Settled
) -> bool:
    """What came of a try; False where the delivery had ended meanwhile."""
    values = {
        "id": delivery_id,
        "status": settled.status,
        "error": settled.error,
        "delivered": settled.delivered,
        "failed": settled.failed,
        "next_at": settled.next_at,
    }
    return (await fenced(conn, fence, RECORD, values)).rowcount == 1


async def retry(
    conn: AsyncConnection[DictRow], fence: Fence, delivery_id: UUID, lasts: timedelta
) -> bool:
    """Try one again now that is not delivered; False where there is no such one."""
    cursor = await fenced(conn, fence, RETRY, {"id": delivery_id, "lasts": lasts})
    return cursor.rowcount == 1


async def prune(conn: AsyncConnection[DictRow], fence: Fence, age: timedelta) -> int:
    """Forget what ended and is older than that; how many there were."""
    gone = await fenced(conn, fence, PRUNE, {"age": age})
    await fenced(conn, fence, FORGET_REMOVED, {"age": age})
    return gone.rowcount


async def read_delivery(conn: AsyncConnection[DictRow], delivery_id: UUID) -> Delivery | None:
    rows = await fetch(conn, READ_ONE, {"id": delivery_id})
    return _delivery(rows[0]) if rows else None


async def read_troubled(conn: AsyncConnection[DictRow], limit: int) -> tuple[Delivery, ...]:
    """Those that were tried in vain or given up, of webhooks that are declared; newest first."""
    return tuple(_delivery(row) for row in await fetch(conn, READ_TROUBLED, {"limit": limit}))


def _delivery(row: Mapping[str, Any]) -> Delivery:
    return Delivery(
        id=row["id"],
        receiver=receiver_of(row),
        kind=row["kind"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        attempts=row["attempts"],
        next_at=row["next_at"],
        delivered_at=row["delivered_at"],
        failed_at=row["failed_at"],
        last_status=row["last_status"],
        last_error=row["last_error"],
    )


def _moved(row: Mapping[str, Any]) -> Moved:
    told = (row["cause_new"], row["cause_source"], row["cause_by"], row["cause_reason"])
    cause = None if row["cause_new"] is None else Cause(*told)
    return Moved(event_of(row), row["owner"], row["phase"], cause)
