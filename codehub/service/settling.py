"""Following workspaces until they settle, or for as long as somebody watches.

Called by the commands that wait (`--wait`) or watch (`status --watch`). Changes are heard of
through NOTIFY; a look every second stands behind that. A database that goes away is waited for: the
hub goes on by itself, so whoever only watches has no reason to give up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from codehub.core.settle import outcome
from codehub.core.suggest import did_you_mean
from codehub.errors import NotFound, Unreachable
from codehub.model.decision import Drain
from codehub.model.outcome import Followed, Snapshot
from codehub.service.limits import DEFAULTS, LimitDefaults
from codehub.store.follow import hear, listen, look, resolve
from codehub.store.workspaces import read_names

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from datetime import datetime
    from uuid import UUID

    from codehub.model.workspace import Workspace
    from codehub.store.follow import Look

ConnectionSource: TypeAlias = Callable[[], AbstractAsyncContextManager[AsyncConnection[DictRow]]]
"""Opens a connection: at the beginning, and again whenever the last one was lost."""

PACE: Final = 1.0
"""Seconds between looks when nothing is heard."""

GATHER: Final = 0.1
"""Seconds in which changes count as one."""


@dataclass(frozen=True, slots=True)
class Customs:
    """The settings that an outcome depends on."""

    drain: Drain = Drain()
    limits: LimitDefaults = DEFAULTS


_CUSTOMS: Final = Customs()


async def follow(
    source: ConnectionSource,
    names: Sequence[str] | None = None,
    *,
    customs: Customs = _CUSTOMS,
    patience: float | None = None,
    endless: bool = False,
) -> AsyncGenerator[Snapshot, None]:
    """What is seen of these workspaces (None: of all), at every change and every second.

    Ends when none of them is on its way any more, or after `patience` seconds: then the last
    snapshot is not `over`. `endless` is for watching. Raises NotFound for a name that never was.
    Close it when done.
    """
    eye = _Eye(names, customs)
    watch = _Watch(patience, endless)
    seen: Snapshot | None = None
    while True:
        try:
            async with source() as conn:
                await listen(conn)
                while True:
                    began = watch.clock()
                    seen = await eye.look(conn)
                    took = watch.clock() - began
                    yield seen
                    if watch.ends(seen):
                        return
                    # A large fleet takes long to read: looking must stay the smaller part.
                    await hear(conn, watch.pause(), max(GATHER, 3 * took))
        except Unreachable as error:
            if seen is None:
                raise
            seen = replace(seen, lost=error.message)
        yield seen
        if watch.ends(seen):
            return
        await asyncio.sleep(watch.pause())


class _Watch:
    """When to stop, and how long to rest before."""

    def __init__(self, patience: float | None, endless: bool) -> None:
        self.clock = asyncio.get_running_loop().time
        self._end = None if patience is None else self.clock() + patience
        self._endless = endless

    def ends(self, snapshot: Snapshot) -> bool:
        late = self._end is not None and self.clock() >= self._end
        return late or (snapshot.over and not self._endless)

    def pause(self) -> float:
        left = PACE if self._end is None else self._end - self.clock()
        return max(0.0, min(PACE, left))


class _Eye:
    """Remembers who is followed: by id, since names can be given away meanwhile."""

    def __init__(self, names: Sequence[str] | None, customs: Customs) -> None:
        self._names = names
        self._customs = customs
        self._ids: list[UUID] | None = None
        self._since: datetime | None = None

    async def look(self, conn: AsyncConnection[DictRow]) -> Snapshot:
        if self._names is not None and self._ids is None:
            self._ids = await _find(conn, self._names)
        limits = self._customs.limits
        seen = await look(
            conn,
            self._ids,
            since=self._since,
            per_user=limits.max_running_per_user,
            everybody=limits.max_running_global,
        )
        self._since = self._since or seen.at
        followed = tuple(self._judged(each, seen) for each in seen.workspaces)
        return Snapshot(seen.at, followed, seen.led)

    def _judged(self, workspace: Workspace, seen: Look) -> Followed:
        limit = _limit(workspace, seen)
        drain = self._customs.drain
        return Followed(workspace, outcome(workspace, seen.at, drain=drain, limit=limit))


def _limit(workspace: Workspace, seen: Look) -> str:
    """The limit that leaves it no place to start; empty while somebody is about to make room."""
    place, owner = seen.places.get(workspace.id), workspace.declaration.owner
    if place is None or place.fits:
        return ""
    if place.own > place.own_limit:
        text = f"{owner} may run {place.own_limit} at once, and this is number {place.own}"
        return "" if owner in seen.leaving else f"held by a limit: {text}"
    text = f"this hub runs {place.overall_limit} at once, and this is number {place.overall}"
    return "" if seen.leaving else f"held by a limit: {text}"


async def _find(conn: AsyncConnection[DictRow], names: Sequence[str]) -> list[UUID]:
    found = await resolve(conn, names)
    for name in names:
        if name not in found:
            raise NotFound(
                f'there is no workspace "{name}"{did_you_mean(name, await read_names(conn))}',
                hint="'codehub status' lists the workspaces there are",
            )
    return list(found.values())
