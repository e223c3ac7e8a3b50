"""What a leader holds: its right to write, and the connections to do it with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codehub.store.fence import require_fence

if TYPE_CHECKING:
    from uuid import UUID

    from codehub.store.fence import Fence
    from codehub.store.pool import Pool


@dataclass(frozen=True, slots=True)
class Lead:
    """One term of leadership over one hub; every write of its components carries `fence`."""

    hub_id: UUID
    fence: Fence
    pool: Pool

    async def confirm(self) -> None:
        """Raise FenceLost unless we still lead; asked right before an act in the world."""
        async with self.pool.connection() as conn:
            await require_fence(conn, self.fence)
