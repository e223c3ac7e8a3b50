"""Writing and reading commit markers, with a seal that no flipped bit survives.

The seal is the sha256 of the other fields: a damaged marker is told from a good one before its
sizes are used for anything.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from codehub.core.keys import parse_key
from codehub.errors import ActionFailed, ArchiveCorrupted
from codehub.model.archive import ARCHIVE_FORMAT, ArchiveMeta, Fidelity

LARGEST_META: Final = 64 * 1024
_SEAL: Final = "seal"
_COUNTS: Final = ("bytes", "unpacked_bytes", "entries", "skipped", "generation")
_WORDS: Final = ("key", "sha256", "workspace_name", "owner")


def seal(meta: ArchiveMeta) -> bytes:
    """The commit marker as it is stored."""
    written = meta_fields(meta)
    return json.dumps({**written, _SEAL: _digest(written)}, indent=1, sort_keys=True).encode()


def unseal(data: bytes, key: str) -> ArchiveMeta:
    """The commit marker of the archive `key`, checked; `ArchiveCorrupted` says what is wrong."""
    read = _parse(data)
    if read.pop(_SEAL, None) != _digest(read):
        raise _damaged("its seal does not fit")
    if read.get("format") != ARCHIVE_FORMAT:
        raise ActionFailed(
            f"the archive has format {read.get('format')!r}, which this version does not know",
            hint="restore it with the version of CodeHub that wrote it",
        )
    meta = _build(read)
    place = parse_key(key)
    if (
        meta.key != key
        or place is None
        or (place.hub_id, place.workspace_id)
        != (
            meta.hub,
            meta.workspace_id,
        )
    ):
        raise _damaged("it belongs to another archive")
    return meta


def meta_fields(meta: ArchiveMeta) -> dict[str, Any]:
    """The fields as JSON has them."""
    plain = asdict(meta)
    return {
        **plain,
        "hub": str(meta.hub),
        "workspace_id": str(meta.workspace_id),
        "created_at": meta.created_at.isoformat(),
        "fidelity": meta.fidelity.value,
    }


def read_fields(read: dict[str, Any]) -> ArchiveMeta:
    """What `meta_fields` wrote, checked."""
    return _build(read)


def _parse(data: bytes) -> dict[str, Any]:
    try:
        read = json.loads(data)
    except (ValueError, RecursionError):
        raise _damaged("it is not JSON") from None
    if not isinstance(read, dict):
        raise _damaged("it is not a JSON object")
    return read


def _build(read: dict[str, Any]) -> ArchiveMeta:
    if set(read) != {field.name for field in fields(ArchiveMeta)}:
        raise _damaged("its fields are not those of this format")
    if not all(type(read[name]) is int and read[name] >= 0 for name in _COUNTS):
        raise _damaged("a count is not a number")
    if not all(isinstance(read[name], str) for name in _WORDS):
        raise _damaged("a name is not a text")
    try:
        return ArchiveMeta(
            **{
                **read,
                "hub": UUID(read["hub"]),
                "workspace_id": UUID(read["workspace_id"]),
                "created_at": datetime.fromisoformat(read["created_at"]),
                "fidelity": Fidelity(read["fidelity"]),
            }
        )
    except (ValueError, TypeError, AttributeError):
        raise _damaged("an id, time or fidelity cannot be read") from None


def _digest(written: dict[str, Any]) -> str:
    text = json.dumps(written, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _damaged(why: str) -> ArchiveCorrupted:
    return ArchiveCorrupted(
        f"the archive's commit marker is damaged: {why}",
        hint="restore an older archive, or the marker from a backup of the store",
    )
