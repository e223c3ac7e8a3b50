"""The names of objects in the store: built, taken apart and checked in one place.

    {hub_id}/marker.json                                            the hub's identity
    {hub_id}/epochs/{n}                                             its last collections of archives
    {hub_id}/{workspace_id}/{op_id}/{attempt}/home.tar.zst          an archive
    {hub_id}/{workspace_id}/{op_id}/{attempt}/home.tar.zst.meta     its commit marker

Every store takes the same narrow set of keys, so that one which works on a disk works in a bucket
and none can name a place outside.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from uuid import UUID

from codehub.errors import ActionFailed
from codehub.model.archive import ArchiveKey

if TYPE_CHECKING:
    from collections.abc import Sequence

ARCHIVE_NAME: Final = "home.tar.zst"
META_SUFFIX: Final = ".meta"
MARKER_NAME: Final = "marker.json"
EPOCHS: Final = "epochs"
LONGEST_KEY: Final = 900

_PART: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_EPOCH: Final = re.compile(r"[1-9][0-9]{0,17}")
_ATTEMPT: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


def build_key(key: ArchiveKey) -> str:
    """The object that holds this attempt's archive."""
    if _ATTEMPT.fullmatch(key.attempt) is None:
        raise ActionFailed(f'an attempt cannot be named "{key.attempt}"')
    return (
        f"{operation_prefix(key.hub_id, key.workspace_id, key.op_id)}{key.attempt}/{ARCHIVE_NAME}"
    )


def parse_key(text: str) -> ArchiveKey | None:
    """The attempt an archive's key stands for; None for every other key."""
    parts = text.split("/")
    if len(parts) != 5 or parts[4] != ARCHIVE_NAME or _ATTEMPT.fullmatch(parts[3]) is None:
        return None
    ids = _uuids(parts[:3])
    return ArchiveKey(ids[0], ids[1], ids[2], parts[3]) if ids else None


def meta_key(archive: str) -> str:
    """The commit marker of an archive."""
    return archive + META_SUFFIX


def archive_of(meta: str) -> str | None:
    """The archive a commit marker speaks of; None when the key is no commit marker."""
    archive = meta.removesuffix(META_SUFFIX)
    return archive if archive != meta and parse_key(archive) is not None else None


def marker_key(hub_id: UUID) -> str:
    """The object by which a hub knows its store again."""
    return f"{hub_prefix(hub_id)}{MARKER_NAME}"


def epoch_key(hub_id: UUID, epoch: int) -> str:
    """The object that says that this collection has begun."""
    return f"{epoch_prefix(hub_id)}{epoch}"


def epoch_prefix(hub_id: UUID) -> str:
    return f"{hub_prefix(hub_id)}{EPOCHS}/"


def epoch_of(key: str) -> int | None:
    """The collection that an object speaks of; None for every other key."""
    parts = key.split("/")
    if len(parts) != 3 or parts[1] != EPOCHS or _EPOCH.fullmatch(parts[2]) is None:
        return None
    return int(parts[2])


def hub_prefix(hub_id: UUID) -> str:
    return f"{hub_id}/"


def workspace_prefix(hub_id: UUID, workspace_id: UUID) -> str:
    return f"{hub_prefix(hub_id)}{workspace_id}/"


def operation_prefix(hub_id: UUID, workspace_id: UUID, op_id: UUID) -> str:
    """Where all attempts of one operation lie."""
    return f"{workspace_prefix(hub_id, workspace_id)}{op_id}/"


def is_part(name: str) -> bool:
    """Whether a key may have this between two slashes. Names with a leading dot are the store's."""
    return _PART.fullmatch(name) is not None


def require_key(key: str) -> str:
    """The key itself, if a store may take it."""
    if len(key) > LONGEST_KEY or not all(is_part(part) for part in key.split("/")):
        raise ActionFailed(f"not the key of an object: {key[:80]!r}")
    return key


def require_prefix(prefix: str) -> str:
    """The prefix itself, if keys can begin with it. The empty one stands for all."""
    *folders, last = prefix.split("/")
    if len(prefix) > LONGEST_KEY or not all(is_part(part) for part in (*folders, last or "x")):
        raise ActionFailed(f"no key begins with {prefix[:80]!r}")
    return prefix


def _uuids(parts: Sequence[str]) -> list[UUID] | None:
    """The ids in their canonical spelling; another spelling is another key, so not ours."""
    try:
        ids = [UUID(part) for part in parts]
    except ValueError:
        return None
    return ids if [str(one) for one in ids] == list(parts) else None
