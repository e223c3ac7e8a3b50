"""Bringing a hub back from its archives after its database was lost.

Called by `codehub import --from-bucket`. Reading comes first and is all or nothing: a store that
breaks off, or that refuses to give an object, ends it before anything is written, since a commit
marker that was not read could be the newest one. Rows are written in one transaction, which may be
repeated at any time: what is in the database already stays as it is.
"""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from codehub.core.collect import sort_objects
from codehub.core.keys import archive_of, hub_prefix, meta_key, parse_key
from codehub.core.rebuild import rebuild, workspace_of
from codehub.core.seal import LARGEST_META, unseal
from codehub.errors import ActionFailed, Conflict, NotFound, UsageError
from codehub.model.salvage import Committed, Flawed, Salvage
from codehub.store.clock import read_now
from codehub.store.declare import loader_lock
from codehub.store.rebuild import adopt_hub, insert_workspaces, keep_leaders_out, read_known

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.archive import ArchiveMeta
    from codehub.model.collection import StoredArchive
    from codehub.model.runtime import ObjectInfo
    from codehub.model.salvage import Known, Rebuild
    from codehub.model.workspace import Runtime, Source
    from codehub.ports import ObjectStore

    Shelves = Mapping[UUID, Sequence[ObjectInfo]]
    Tell = Callable[[str], None]

READERS: Final = 8
"""Commit markers read at once."""
EVERY: Final = 1000
"""How many are done between two words about it."""
ADDRESS: Final = "see that ARCHIVE_STORE_URL and the S3_ settings are those of the lost hub"


def list_archives(store: ObjectStore, hub_id: UUID | None, tell: Tell) -> Shelves:
    """What belongs to archives, by hub: of one, or of all that the store has."""
    shelves: dict[UUID, list[ObjectInfo]] = defaultdict(list)
    prefix = "" if hub_id is None else hub_prefix(hub_id)
    for number, each in enumerate(store.list(prefix), 1):
        key = parse_key(archive_of(each.key) or each.key)
        if key is not None:
            shelves[key.hub_id].append(each)
        if number % (10 * EVERY) == 0:
            tell(f"{number} objects listed")
    return shelves


def choose_hub(shelves: Shelves, asked: UUID | None) -> UUID:
    """The hub that was asked for, or the only one; hubs that never archived are none."""
    counts = {hub: sum(map(_is_marker, objects)) for hub, objects in shelves.items()}
    hubs = {hub: count for hub, count in counts.items() if count and asked in (None, hub)}
    if not hubs:
        whose = "" if asked is None else f" of the hub {asked}"
        raise NotFound(f"the archive store holds no archive{whose}", hint=ADDRESS)
    if len(hubs) > 1:
        listed = ", ".join(f"{hub} ({hubs[hub]})" for hub in sorted(hubs))
        raise UsageError(
            f"the archive store holds archives of {len(hubs)} hubs: {listed}",
            hint="say which one was yours with --hub-id",
        )
    return next(iter(hubs))


def read_salvage(
    store: ObjectStore, hub_id: UUID, objects: Sequence[ObjectInfo], tell: Tell
) -> Salvage:
    """Every commit marker of a hub, read and checked against what was listed."""
    archives = sort_objects(hub_id, objects).archives
    marked = [each for each in archives if _is_marker(each.objects[0])]
    found: list[Committed | Flawed] = []
    with ThreadPoolExecutor(READERS, thread_name_prefix="codehub-import") as readers:
        try:
            for each in readers.map(lambda archive: _examine(store, archive), marked):
                found.append(each)
                if len(found) % EVERY == 0:
                    tell(f"{len(found)} of {len(marked)} archives looked at")
        except BaseException:
            readers.shutdown(wait=False, cancel_futures=True)
            raise
    return Salvage(
        hub_id,
        tuple(each for each in found if isinstance(each, Committed)),
        tuple(each for each in found if isinstance(each, Flawed)),
        unfinished=len(archives) - len(marked),
    )


async def preview_import(
    conn: AsyncConnection[DictRow], salvage: Salvage, runtime: Runtime, renames: Mapping[UUID, str]
) -> tuple[Known, Rebuild]:
    """What the database holds, and what an import would do to it; Refused where it cannot."""
    known = await read_known(conn)
    return known, rebuild(salvage, known, runtime, renames)


async def write_import(
    conn: AsyncConnection[DictRow],
    salvage: Salvage,
    runtime: Runtime,
    renames: Mapping[UUID, str],
    *,
    sources: Mapping[UUID, Source],
    guard: int,
    by: str,
) -> Rebuild:
    """Write the rows that are missing.

    `guard` is the count of collections that the store holds: it must be above the database's, so
    that nothing is collected until a person has vouched for what was imported.
    """
    async with loader_lock(conn, author=by):
        known, plan = await preview_import(conn, salvage, runtime, renames)
        if plan.homes:
            await keep_leaders_out(conn, by)
            if known.collections >= guard or any(each.id not in sources for each in plan.homes):
                raise Conflict("the hub was changed meanwhile", hint="import again")
            now = await read_now(conn)
            await adopt_hub(conn, salvage.hub_id)
            rows = (workspace_of(each, sources[each.id], by, now) for each in plan.homes)
            await insert_workspaces(conn, rows, by)
    return plan


def _is_marker(info: ObjectInfo) -> bool:
    return archive_of(info.key) is not None


def _examine(store: ObjectStore, archive: StoredArchive) -> Committed | Flawed:
    """One archive; an error of the store itself is not one of the archive."""
    data = _content(store, meta_key(archive.key))
    at = archive.objects[0].modified_at
    try:
        meta = unseal(data, archive.key)
    except ActionFailed as error:
        return Flawed(archive.key, archive.workspace_id, at, error.message)
    why = _misfit(meta, [each.size for each in archive.objects[1:]])
    return Flawed(archive.key, archive.workspace_id, at, why) if why else Committed(meta, at)


def _misfit(meta: ArchiveMeta, sizes: Sequence[int]) -> str:
    if not sizes:
        return "its commit marker is there, but the archive itself is not"
    if sizes != [meta.bytes]:
        return f"the archive has {sizes[0]} bytes and should have {meta.bytes}"
    return "" if meta.created_at.tzinfo else "its commit marker has a time without a zone"


def _content(store: ObjectStore, key: str) -> bytes:
    """An object of a few hundred bytes; of a longer one so much that it cannot be taken for it."""
    reader = store.open_reader(key)
    if reader is None:
        raise Conflict(f"{key} was deleted while it was about to be read", hint="import again")
    data = b""
    with reader:
        while len(data) <= LARGEST_META and (piece := reader.read(LARGEST_META)):
            data += piece
    return data
