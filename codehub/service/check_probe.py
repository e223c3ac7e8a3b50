"""The whole life of one small object: a store is of use only if all of it works.

The object never outlives the look at it. It is removed when something fails, and when a person or a
time limit interrupts; where even that was cut short, a later run finds and removes it.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from codehub.adapters.localstore import LocalStore
from codehub.core.keys import hub_prefix
from codehub.errors import CodeHubError
from codehub.model.checkup import Health, problem, warning, well
from codehub.service.threads import in_thread
from codehub.store.session import forget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from uuid import UUID

    from codehub.model.checkup import Verdict
    from codehub.model.runtime import ObjectInfo
    from codehub.ports import ObjectStore

    Compares = Callable[[str], bool]

PROBE: Final = b"written by codehub doctor, to be removed at once\n" * 2700
"""Some network packets long, about 130 KB: damage on the way is not only in the first."""
LEFT_BEHIND: Final = timedelta(minutes=10)
"""Older than any probe of a run that still goes on."""
GRACE: Final = 5.0
"""Seconds to remove the probe when the look at it is interrupted."""


def new_key(hub_id: UUID) -> str:
    return f"{hub_prefix(hub_id)}doctor/{token_hex(8)}"


async def probe(store: ObjectStore, key: str, compares: Compares | None = None) -> Verdict:
    """Try the store in a thread. `compares` says whether it refuses a wrong checksum."""
    trying = asyncio.ensure_future(in_thread(partial(_try_all, store, key, compares)))
    forget(trying)
    try:
        return await asyncio.shield(trying)
    except asyncio.CancelledError:
        # The thread itself may hang while it reads; its own removal would come too late.
        removing = asyncio.ensure_future(in_thread(partial(_remove_all, store, key)))
        forget(removing)
        await asyncio.wait({trying, removing}, timeout=GRACE)
        raise


def _try_all(store: ObjectStore, key: str, compares: Compares | None) -> Verdict:
    verdict = try_store(store, key)
    if verdict.health is not Health.OK or compares is None or compares(_second(key)):
        return verdict
    return warning(
        f"{verdict.message}, but a wrong checksum was not refused: damage on the way there shows "
        "only when an archive is read back",
        "use a server that compares Content-MD5",
    )


def try_store(store: ObjectStore, key: str) -> Verdict:
    """Write, read back and remove it; then remove what earlier runs have left behind."""
    folder = f"{key.rpartition('/')[0]}/"
    before = list(store.list(folder))
    try:
        wrong = _write_and_read(store, key)
        written = store.head(key)
    finally:
        left = _remove(store, key)
    if wrong is not None:
        return wrong
    if left is not None:
        return warning(
            f"the probe {key} could not be removed ({left.message})",
            left.hint or "allow the hub to delete objects",
        )
    removed = _remove_old(store, folder, before, written.modified_at) if written else 0
    also = f"; {removed} that an interrupted run had left too" if removed else ""
    return well(f"an object was written, read back and removed{also}")


def _write_and_read(store: ObjectStore, key: str) -> Verdict | None:
    writer = store.open_writer(key)
    try:
        writer.write(PROBE)
        writer.commit()
    finally:
        writer.abort()
    reader = store.open_reader(key)
    if reader is None:
        return problem("what was written is not there", "see whether the store is writable")
    back = b""
    with reader:
        while len(back) <= len(PROBE) and (piece := reader.read(len(PROBE) + 1)):
            back += piece
    if back != PROBE:
        return problem(
            "what was read is not what was written", "check the store's disk, and the way there"
        )
    return None


def _remove(store: ObjectStore, key: str) -> CodeHubError | None:
    """Why it is still there; None when it is gone."""
    try:
        store.delete(key)
        found = store.head(key)
    except CodeHubError as error:
        return error
    return None if found is None else CodeHubError("it is still there")


def _remove_old(
    store: ObjectStore, folder: str, objects: Sequence[ObjectInfo], now: datetime
) -> int:
    """`now` by the store's clock, as the times of objects are."""
    old = [each.key for each in objects if now - each.modified_at > LEFT_BEHIND]
    for each in old:
        store.delete(each)
    # On a disk, a writer that was killed leaves a file; in a bucket, one so small leaves nothing.
    if isinstance(store, LocalStore):
        store.abort_unfinished(folder, now - LEFT_BEHIND)
    return len(old)


def _remove_all(store: ObjectStore, key: str) -> None:
    for each in (key, _second(key)):
        store.delete(each)


def _second(key: str) -> str:
    return f"{key}-checksum"
