"""Reading an object whole, for its hash: the only proof of what the store holds."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from codehub.jobs.pipeline import CHUNK, Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from codehub.ports import ObjectStore


def hash_object(store: ObjectStore, key: str, tell: Callable[[int], None]) -> str | None:
    """Its sha256, telling how many bytes are done; None when there is no such object."""
    reader = store.open_reader(key)
    if reader is None:
        return None
    digest = hashlib.sha256()
    size = 0
    with reader, Stage[bytes](digest.update) as hashing:
        while piece := reader.read(CHUNK):
            hashing.put(piece)
            size += len(piece)
            tell(size)
        hashing.close()
    return digest.hexdigest()
