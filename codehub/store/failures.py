"""Failed logins in SQL: counters that all proxies share.

A try is counted before its password is looked at, under the counters' row locks: of many that come
at once, in however many processes, no more are let through than of the same ones in a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.core.throttle import Tally, count, wait
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.core.throttle import Pace

ADD: Final = """
INSERT INTO login_failures (key) SELECT key FROM unnest(%(keys)s::text[]) AS key ORDER BY key
ON CONFLICT DO NOTHING
"""

# Those who waited for the lock must see the time of now, not that of their transaction's start.
LOCK: Final = """
WITH locked AS (
    SELECT key, failures, last_at FROM login_failures WHERE key = ANY(%(keys)s)
    ORDER BY key FOR UPDATE
)
SELECT key, failures, extract(epoch FROM clock_timestamp() - last_at)::float8 AS ago FROM locked
"""

COUNT: Final = """
UPDATE login_failures f SET failures = given.failures, last_at = clock_timestamp()
FROM unnest(%(keys)s::text[], %(failures)s::float8[]) AS given (key, failures)
WHERE f.key = given.key
"""

# It was no failure after all. The pair starts anew; the others only take this one back, or anybody
# with an account of their own could wipe out what they did to others.
TAKE_BACK: Final = """
UPDATE login_failures
SET failures = CASE WHEN key LIKE 'pair %%' THEN 0 ELSE GREATEST(failures - 1, 0) END
WHERE key IN (SELECT key FROM login_failures WHERE key = ANY(%(keys)s) ORDER BY key FOR UPDATE)
"""

FORGET: Final = """
DELETE FROM login_failures WHERE key IN (
    SELECT key FROM login_failures WHERE last_at < now() - interval '1 day'
    FOR UPDATE SKIP LOCKED)
"""


async def count_try(conn: AsyncConnection[DictRow], paces: Mapping[str, Pace]) -> float:
    """Count a try as failed, within the caller's transaction; or the seconds it must wait."""
    keys = sorted(paces)
    await conn.execute(ADD, {"keys": keys})
    rows = await fetch(conn, LOCK, {"keys": keys})
    tallies = {row["key"]: Tally(row["failures"], row["ago"]) for row in rows}
    longest = max(wait(tally, paces[key]) for key, tally in tallies.items())
    if longest <= 0:
        counted = [count(tallies[key], paces[key]) for key in tallies]
        await conn.execute(COUNT, {"keys": list(tallies), "failures": counted})
    return max(longest, 0)


async def take_back(conn: AsyncConnection[DictRow], keys: Iterable[str]) -> None:
    """The try with these counters was a success."""
    await conn.execute(TAKE_BACK, {"keys": sorted(keys)})


async def forget_failures(conn: AsyncConnection[DictRow]) -> None:
    """Delete counters that have nothing to say any more."""
    await conn.execute(FORGET)
