"""Commit markers in the store: an archive exists when its marker does, and not before."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from codehub.core.keys import archive_of, meta_key
from codehub.core.seal import LARGEST_META, seal, unseal
from codehub.errors import ActionFailed, CodeHubError

if TYPE_CHECKING:
    from codehub.model.archive import ArchiveMeta
    from codehub.ports import ObjectStore


def read_meta(store: ObjectStore, key: str) -> ArchiveMeta | None:
    """The marker of the archive `key`; None when there is none, so the archive does not exist."""
    reader = store.open_reader(meta_key(key))
    if reader is None:
        return None
    data = b""
    with reader:
        while len(data) <= LARGEST_META and (piece := reader.read(LARGEST_META)):
            data += piece
    return unseal(data[: LARGEST_META + 1], key)


def write_meta(store: ObjectStore, meta: ArchiveMeta) -> None:
    """Commit. Read back too: a marker that cannot be read is an archive that is lost."""
    writer = store.open_writer(meta_key(meta.key))
    try:
        writer.write(seal(meta))
        writer.commit()
    except BaseException:
        with suppress(CodeHubError):
            writer.abort()
        raise
    if read_meta(store, meta.key) != meta:
        raise ActionFailed("the archive store did not keep the commit marker as it was sent")


def find_committed(store: ObjectStore, prefix: str) -> ArchiveMeta | None:
    """The newest archive below a prefix whose marker is good and whose object has its size.

    One that is damaged does not count: another attempt may still succeed.
    """
    found: list[ArchiveMeta] = []
    for info in store.list(prefix):
        key = archive_of(info.key)
        meta = None if key is None else _read_good(store, key)
        if meta is not None:
            found.append(meta)
    return max(found, key=lambda meta: meta.created_at, default=None)


def _read_good(store: ObjectStore, key: str) -> ArchiveMeta | None:
    try:
        meta = read_meta(store, key)
    except ActionFailed:
        return None
    info = store.head(key)
    return meta if meta is not None and info is not None and info.size == meta.bytes else None
