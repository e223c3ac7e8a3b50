"""Where running workspaces are reached, as the controller recorded it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.model.route import Route
from codehub.model.runtime import Upstream
from codehub.model.workspace import ActivityPolicy, PathPrefix

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

_ROUTES: Final = """
SELECT id, name, owner_user_id, path_prefix, inject, activity_policy, upstream_host, upstream_port,
       standby_ttl_seconds
FROM workspaces
WHERE phase = 'RUNNING' AND operation = 'NONE' AND upstream_host IS NOT NULL
    AND desired_state <> 'DELETED' AND deleted_at IS NULL
"""
READ_ROUTES: Final = _ROUTES
READ_SOME_ROUTES: Final = f"{_ROUTES} AND id = ANY(%(ids)s)"


async def read_routes(
    conn: AsyncConnection[DictRow], ids: Iterable[UUID] | None = None
) -> list[Route]:
    """Of all that can be reached, or of those among `ids` that can."""
    if ids is None:
        cursor = await conn.execute(READ_ROUTES)
    else:
        cursor = await conn.execute(READ_SOME_ROUTES, {"ids": list(ids)})
    return [_route(row) for row in await cursor.fetchall()]


def _route(row: Mapping[str, Any]) -> Route:
    return Route(
        id=row["id"],
        name=row["name"],
        owner_id=row["owner_user_id"],
        upstream=Upstream(row["upstream_host"], row["upstream_port"]),
        path_prefix=PathPrefix(row["path_prefix"]),
        inject=row["inject"],
        activity=ActivityPolicy(row["activity_policy"]),
        standby_ttl=row["standby_ttl_seconds"],
    )
