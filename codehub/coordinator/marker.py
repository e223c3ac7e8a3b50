"""How a hub knows its archive store again, and how the store knows a database that is too old.

`{hub_id}/marker.json` says whose store it is. Without it "no such object" means nothing: the bucket
may be another one, or an empty one behind the right name. `{hub_id}/epochs/{n}` says that
collection n has begun; a database that counts fewer was restored from a backup. The store's objects
are written once and never replaced, so the highest of these counts, and the lower ones are removed.

The mark must be there before the first archive is, and must be ours before one is deleted: whoever
does either calls `meet_store` right before.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final
from uuid import UUID

from codehub.core.collect import NO_MARK
from codehub.core.keys import epoch_key, epoch_of, epoch_prefix, marker_key
from codehub.errors import ActionFailed, NameConflict, Unreachable
from codehub.model.collection import Marker
from codehub.service.collecting import call_store
from codehub.store.gc import holds_archives as any_archives

if TYPE_CHECKING:
    from codehub.coordinator.lead import Lead
    from codehub.ports import ObjectStore

LARGEST_MARKER: Final = 4096


async def meet_store(lead: Lead, store: ObjectStore) -> Marker:
    """Know the store again, or mark it as ours while no archive is recorded."""
    async with lead.pool.connection() as conn:
        recorded = await any_archives(conn)
    return await check_store(store, lead.hub_id, holds_archives=recorded)


async def check_store(store: ObjectStore, hub_id: UUID, *, holds_archives: bool) -> Marker:
    """The store's mark; made where it is missing, unless there should be archives.

    Raises Unreachable when it is missing then, cannot be read, or is another hub's.
    """
    marker = await read_marker(store, hub_id)
    if marker is not None:
        return marker
    if holds_archives:
        raise Unreachable(NO_MARK.message, hint=NO_MARK.hint)
    return await create_marker(store, hub_id)


async def read_marker(store: ObjectStore, hub_id: UUID) -> Marker | None:
    """What the store says of itself; None when it says nothing."""
    return await call_store(_read, store, hub_id)


async def create_marker(store: ObjectStore, hub_id: UUID) -> Marker:
    """Mark the store as this hub's; somebody else who did so first is fine."""
    return await call_store(_create, store, hub_id)


async def raise_epoch(store: ObjectStore, hub_id: UUID, epoch: int) -> None:
    """Note in the store that this collection has begun."""
    await call_store(_raise, store, hub_id, epoch)


def _read(store: ObjectStore, hub_id: UUID) -> Marker | None:
    try:
        text = _content(store, marker_key(hub_id))
        epochs = [epoch_of(each.key) or 0 for each in store.list(epoch_prefix(hub_id))]
    except ActionFailed as error:
        # The answer "no" leaves open what is there, so it is as good as none.
        raise Unreachable(error.message, hint=error.hint) from error
    if text is None:
        return None
    _require_ours(text, hub_id)
    return Marker(hub_id, max(epochs, default=0))


def _content(store: ObjectStore, key: str) -> bytes | None:
    reader = store.open_reader(key)
    if reader is None:
        return None
    data = b""
    with reader:
        while len(data) <= LARGEST_MARKER and (piece := reader.read(LARGEST_MARKER)):
            data += piece
    return data


def _require_ours(text: bytes, hub_id: UUID) -> None:
    try:
        named = UUID(json.loads(text)["hub"])
    except (ValueError, TypeError, KeyError, AttributeError):
        raise Unreachable(
            f"the mark of the archive store cannot be read ({marker_key(hub_id)})",
            hint="restore it from a backup of the store",
        ) from None
    if named != hub_id:
        raise Unreachable(
            f"the archive store is marked as that of another hub ({named})",
            hint="correct the address of the store",
        )


def _create(store: ObjectStore, hub_id: UUID) -> Marker:
    _write_once(store, marker_key(hub_id), {"hub": str(hub_id)})
    marker = _read(store, hub_id)
    if marker is None:
        raise Unreachable("the archive store did not keep the mark it was given")
    return marker


def _raise(store: ObjectStore, hub_id: UUID, epoch: int) -> None:
    """The new one is there before the old ones go: at no moment does the store know less."""
    _write_once(store, epoch_key(hub_id, epoch), {"hub": str(hub_id), "epoch": epoch})
    for each in list(store.list(epoch_prefix(hub_id))):
        passed = epoch_of(each.key)
        if passed is not None and passed < epoch:
            store.delete(each.key)


def _write_once(store: ObjectStore, key: str, content: dict[str, object]) -> None:
    try:
        writer = store.open_writer(key)
        try:
            writer.write(json.dumps(content).encode())
            writer.commit()
        except BaseException:
            writer.abort()
            raise
    except NameConflict:
        return
