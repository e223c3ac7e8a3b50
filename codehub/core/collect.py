"""Which archives nothing needs any more: each one's fate, and why.

An archive is kept, first match wins, when its workspace
    is unknown to the database, which may be an older one (until an admin says that it is right),
    has no record of the operation that committed it (until then as well),
    names it as its archive,
    is in ERROR,
    has an operation in flight or failed under whose id it lies,
    has no archive that is there and younger: then this one may be all there is.
A purged workspace keeps nothing that was recorded. Rows of workspaces are never removed, so an
unknown one means that the database was restored from a time before it was made. So does an archive
that was committed without a record: each operation is noted before its job can start, so what a job
leaves that outlived its leader is known by it. All other archives are orphans. An orphan goes when
an earlier collection has seen it as one and enough time has passed since the first did.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codehub.core.keys import archive_of, epoch_of, marker_key, parse_key
from codehub.model.collection import Fate, Inventory, Obstacle, StoredArchive, Verdict, Why

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID

    from codehub.model.collection import Holder, Ledger, Marker
    from codehub.model.runtime import ObjectInfo

ORPHANED: Final = frozenset({Why.OLDER, Why.PURGED, Why.GIVEN_UP})

CONFIRM_HINT: Final = (
    "if this database and this store belong together, say so with 'codehub gc --confirm-restored'"
)
ADDRESS_HINT: Final = "mount the store, or correct ARCHIVE_STORE_URL"
NO_MARK: Final = Obstacle(
    "the archive store does not have this hub's mark: it is another bucket or an empty one",
    f"{ADDRESS_HINT}; {CONFIRM_HINT}",
)


def sort_objects(hub_id: UUID, objects: Iterable[ObjectInfo]) -> Inventory:
    """A listing as archives with their commit markers. Another hub's objects are not looked at."""
    parts: dict[str, list[ObjectInfo]] = defaultdict(list)
    others = []
    for each in objects:
        meta_of = archive_of(each.key)
        archive = meta_of or each.key
        key = parse_key(archive)
        if key is None:
            others.append(each.key)
        elif key.hub_id == hub_id:
            # A commit marker goes before its archive: half an archive must not seem to be one.
            parts[archive].insert(0 if meta_of else len(parts[archive]), each)
    return Inventory(
        tuple(_archive(key, found) for key, found in sorted(parts.items())), tuple(others)
    )


def _archive(text: str, objects: Sequence[ObjectInfo]) -> StoredArchive:
    key = parse_key(text)
    assert key is not None  # only such keys are gathered
    return StoredArchive(text, key.workspace_id, key.op_id, tuple(objects))


def is_mark(hub_id: UUID, key: str) -> bool:
    """Whether an object is the hub's own, by which it knows its store again."""
    return key == marker_key(hub_id) or epoch_of(key) is not None


def weigh(inventory: Inventory, ledger: Ledger, patience: timedelta) -> tuple[Verdict, ...]:
    """The fate of every archive, in the order of keys."""
    there = {each.key: each for each in inventory.archives}
    return tuple(_weigh(each, there, ledger, patience) for each in inventory.archives)


def _weigh(
    archive: StoredArchive,
    there: Mapping[str, StoredArchive],
    ledger: Ledger,
    patience: timedelta,
) -> Verdict:
    holder = ledger.holders.get(archive.workspace_id)
    why = _reason(archive, there, ledger, holder)
    name = holder.name if holder else ""
    if why not in ORPHANED:
        return Verdict(archive, name, Fate.KEPT, why)
    since = ledger.candidates.get(archive.key)
    due_at = (since or ledger.now) + patience
    fate = Fate.DUE if since is not None and due_at <= ledger.now else Fate.WAITING
    return Verdict(archive, name, fate, why, since, due_at)


def _reason(
    archive: StoredArchive,
    there: Mapping[str, StoredArchive],
    ledger: Ledger,
    holder: Holder | None,
) -> Why:
    vouched = ledger.confirmed_at is not None and archive.ended_at <= ledger.confirmed_at
    if holder is None:
        return Why.GIVEN_UP if vouched else Why.UNKNOWN_WORKSPACE
    if _is_unrecorded(archive, ledger, holder) and not vouched:
        return Why.UNRECORDED
    if holder.purged:
        return Why.PURGED
    if archive.key == holder.archive_key:
        return Why.CURRENT
    if holder.in_error:
        return Why.IN_ERROR
    if archive.op_id == holder.op_id:
        return Why.OPERATION
    return Why.OLDER if _is_older(archive, there.get(holder.archive_key or "")) else Why.NEWER


def _is_unrecorded(archive: StoredArchive, ledger: Ledger, holder: Holder) -> bool:
    """Whether the database should have seen the operation that committed it, and has not.

    It may be newer than a backup that the database was restored from, and then hold what the
    archive in use lacks, even where that one was written later.
    """
    if len(archive.objects) < 2 or str(archive.op_id) in holder.noted:
        return False
    return ledger.noted_since is not None and archive.ended_at >= ledger.noted_since


def _is_older(archive: StoredArchive, current: StoredArchive | None) -> bool:
    """Surely older than the archive in use: stores keep whole seconds, so equal is not older.

    Where the archive in use is missing or has no commit marker, nothing is older.
    """
    if current is None or len(current.objects) < 2:
        return False
    return archive.ended_at < current.begun_at


def expire(ledger: Ledger, retention: timedelta) -> Ledger:
    """The ledger as purging would leave it: for a look ahead, never before deleting anything."""
    gone = {each.id: replace(each, purged=True) for each in purgeable(ledger, retention)}
    return replace(ledger, holders={**ledger.holders, **gone})


def purgeable(ledger: Ledger, retention: timedelta) -> tuple[Holder, ...]:
    """The deleted workspaces whose retention has ended; not those that are wanted again."""
    return tuple(
        each
        for each in ledger.holders.values()
        if each.deleted_at is not None
        and not each.purged
        and not each.wanted
        and each.deleted_at + retention <= ledger.now
    )


def find_obstacle(
    marker: Marker | None, ledger: Ledger, verdicts: Iterable[Verdict]
) -> Obstacle | None:
    """Why nothing may be collected: the database or the store is not what it should be."""
    if marker is None and ledger.recorded:
        return NO_MARK
    if marker is not None and marker.epoch > ledger.epoch:
        return Obstacle(
            f"the database was restored from a backup: it knows of {ledger.epoch} collections, "
            f"the archive store of {marker.epoch}",
            CONFIRM_HINT,
        )
    if ledger.recorded and not any(each.why is Why.CURRENT for each in verdicts):
        return Obstacle(
            "the archive store holds none of the archives that the database knows "
            f"({ledger.recorded} in all)",
            ADDRESS_HINT,
        )
    return None


def choose(verdicts: Iterable[Verdict], most: int) -> tuple[Verdict, ...]:
    """The archives to delete now, longest known first, of at most so many objects in all.

    The last may lose its commit marker only; the rest of it stays an orphan.
    """
    due = sorted(
        (each for each in verdicts if each.fate is Fate.DUE),
        key=lambda each: (each.since, each.archive.key),
    )
    chosen = []
    for each in due:
        objects = each.archive.objects[:most]
        if not objects:
            break
        chosen.append(replace(each, archive=replace(each.archive, objects=objects)))
        most -= len(objects)
    return tuple(chosen)
