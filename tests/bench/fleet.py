"""Converged workspaces by the thousand: rows made in SQL, and a machine and a store that know them.

Ids look random, as real ones do, and follow from a number, so that the processes which fill and
measure need not talk. What a listing gives is made anew for each, as a real runtime's is.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import md5
from itertools import chain
from typing import TYPE_CHECKING, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from codehub.adapters.localstore import LocalStore
from codehub.core.judge import judge
from codehub.core.keys import build_key, hub_prefix, meta_key
from codehub.core.record import record
from codehub.model.archive import ArchiveKey
from codehub.model.conditions import ContainerFact, Facts, Presence
from codehub.model.decision import Nothing
from codehub.model.runtime import ContainerSeen, Listing, ObjectInfo, VolumeRef, VolumeSeen
from codehub.model.states import DesiredState, IntentSource, Phase
from codehub.model.workspace import Activity, Intent, Status, Workspace
from codehub.store.columns import row_of
from codehub.store.users import read_user_ids, upsert_users
from tests.coordination.fast_runtime import FastRuntime
from tests.make import user, workspace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator
    from pathlib import Path

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.runtime import StartRequest

    Conn = AsyncConnection[DictRow]

MIXED: Final = (Phase.RUNNING, Phase.STANDBY, Phase.ARCHIVED)
AT_ONCE: Final = 50_000
BYTES: Final = 123_456
SOMEBODY: Final = UUID(int=0xC0DE)
"""The id in the row that all others are made from."""

# Each row with its own id and the names made of it, and with words that no other row has.
OWN: Final = {
    "id": "md5(i::text)::uuid",
    "name": "'ws-' || i",
    "description": "'Workspace ' || i || ' of many'",
    "env": "t.env || jsonb_build_object('NUMBER', i::text)",
    "spec_source": "'specs/ws-' || i || '.yaml:1'",
    "home_store_key": f"replace(t.home_store_key, '{SOMEBODY}', md5(i::text)::uuid::text)",
    "archive_key": f"replace(t.archive_key, '{SOMEBODY}', md5(i::text)::uuid::text)",
    "standby_ttl_seconds": "CASE WHEN i %% 2 = 0 THEN 10800 + i %% 3600 END",
    "archive_ttl_seconds": "CASE WHEN i %% 2 = 0 THEN 86400 + i %% 3600 END",
}

FILL: Final = """
INSERT INTO workspaces ({columns})
SELECT {values} FROM jsonb_populate_record(NULL::workspaces, %(row)s) AS t,
    generate_series(%(first)s::bigint, %(last)s::bigint, %(step)s::bigint) AS i
"""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Workspaces 0 to `count`, at rest in the phases of the mix, one after the other."""

    hub_id: UUID
    count: int
    mix: tuple[Phase, ...] = MIXED

    def id_of(self, number: int) -> UUID:
        return UUID(md5(str(number).encode()).hexdigest())

    def ids(self, *phases: Phase) -> Iterator[UUID]:
        """The ids of those in these phases."""
        for place, phase in enumerate(self.mix):
            if phase in phases:
                yield from map(self.id_of, range(place, self.count, len(self.mix)))

    def archive_key(self, workspace_id: UUID) -> str:
        return build_key(ArchiveKey(self.hub_id, workspace_id, UUID(int=7), "a1"))

    async def fill(self, conn: Conn) -> None:
        """Insert them all; nothing of it is left for a controller to do or to write."""
        # Nobody listens yet, and a million notifications take longer than a million rows.
        await conn.execute("SET session_replication_role = replica")
        await upsert_users(conn, [user()])
        owner = (await read_user_ids(conn))["alice"]
        since = datetime.now(UTC) - timedelta(minutes=1)
        for place, phase in enumerate(self.mix):
            row = row_of(self._at_rest(phase, since), owner)
            values = ", ".join(OWN.get(name, f"t.{name}") for name in row)
            query = FILL.format(columns=", ".join(row), values=values)
            for first, last in _pieces(place, self.count, len(self.mix)):
                step = len(self.mix)
                await conn.execute(
                    query, {"row": Jsonb(row), "first": first, "last": last, "step": step}
                )
        await conn.execute("SET session_replication_role = DEFAULT")
        await conn.execute("SET statement_timeout = 0")
        await conn.execute("VACUUM (ANALYZE) workspaces")

    def _at_rest(self, phase: Phase, since: datetime) -> Workspace:
        home = VolumeRef(SOMEBODY, 1).name
        status = {
            Phase.RUNNING: Status(home_store_key=home, container_template="t1"),
            Phase.STANDBY: Status(home_store_key=home),
            Phase.ARCHIVED: Status(archive_key=self.archive_key(SOMEBODY), archive_bytes=BYTES),
        }[phase]
        seen = {
            Phase.RUNNING: Facts(ContainerFact.RUNNING, volume=Presence.PRESENT),
            Phase.STANDBY: Facts(ContainerFact.ABSENT, volume=Presence.PRESENT),
            Phase.ARCHIVED: Facts(ContainerFact.ABSENT, volume=Presence.ABSENT),
        }[phase]
        archive = Presence.ABSENT if status.archive_key is None else Presence.PRESENT
        made = workspace(
            number=SOMEBODY.int,
            intent=Intent(DesiredState(phase), IntentSource.TTL, since, "ttl"),
            status=replace(status, phase=phase, home_generation=1, phase_changed_at=since),
            activity=Activity(since, "input"),
            env={"LANG": "C.UTF-8"},
        )
        made = replace(made, spec_revision=None)
        judgement = judge(made, replace(seen, archive=archive), since)
        after = record(made, judgement, Nothing("at rest"), now=since, op_id=SOMEBODY)
        return replace(made, status=after)


def _pieces(first: int, count: int, step: int) -> Iterator[tuple[int, int]]:
    """First and last numbers of inserts that are each done well within a statement's time."""
    for begin in range(first, count, step * AT_ONCE):
        yield begin, min(begin + step * AT_ONCE, count) - 1


class TableRuntime(FastRuntime):
    """A machine whose volumes are entries in a table too; a start takes `start_seconds`."""

    def __init__(self, fleet: Fleet, root: Path) -> None:
        super().__init__(root)
        self.start_seconds = 0.0
        self.running: dict[UUID, UUID | None] = dict.fromkeys(fleet.ids(Phase.RUNNING))
        self.homes = dict.fromkeys(fleet.ids(Phase.RUNNING, Phase.STANDBY), 1)

    async def list(self) -> Listing:
        self.lists += 1
        containers = (
            ContainerSeen(each, True, op_id, "t1", f"ws-{each}-home-g1", started_at=_STARTED)
            for each, op_id in self.running.items()
        )
        volumes = (
            VolumeSeen(each, f"ws-{each}-home-g{generation}", generation)
            for each, generation in self.homes.items()
        )
        return Listing(tuple(containers), tuple(volumes))

    async def start(self, request: StartRequest, confirm: Callable[[], Awaitable[None]]) -> None:
        assert self.homes[request.workspace_id] == request.volume.generation
        await confirm()
        await asyncio.sleep(self.start_seconds)
        assert request.workspace_id not in self.running
        self.running[request.workspace_id] = request.op_id


_STARTED: Final = datetime(2026, 11, 1, tzinfo=UTC)


class TableStore(LocalStore):
    """A store that lists the archives of a fleet beside what it holds."""

    def __init__(self, fleet: Fleet, root: Path) -> None:
        super().__init__(root)
        self.fleet = fleet
        self.lists = 0

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        held = super().list(prefix)
        if prefix != hub_prefix(self.fleet.hub_id):
            return held
        self.lists += 1
        return chain(held, self._archives())

    def _archives(self) -> Iterable[ObjectInfo]:
        for each in self.fleet.ids(Phase.ARCHIVED):
            key = self.fleet.archive_key(each)
            yield ObjectInfo(key, BYTES, _STARTED)
            yield ObjectInfo(meta_key(key), 400, _STARTED)
