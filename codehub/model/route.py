"""The way to a running workspace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID

    from codehub.model.runtime import Upstream
    from codehub.model.workspace import ActivityPolicy, PathPrefix


@dataclass(frozen=True, slots=True)
class Route:
    """What the proxy knows of a workspace that can be reached: whose it is, where, and how."""

    id: UUID
    name: str
    owner_id: UUID
    upstream: Upstream
    path_prefix: PathPrefix
    inject: bool
    activity: ActivityPolicy
    standby_ttl: int | None = None
    """Idle seconds after which it is stopped; NEVER, or None for the hub's setting."""
