"""Commit markers: written and read whole, or not at all."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.core.keys import build_key
from codehub.core.seal import meta_fields, seal, unseal
from codehub.errors import ActionFailed, ArchiveCorrupted
from codehub.model.archive import ArchiveKey, ArchiveMeta, Fidelity

HUB, WORKSPACE = UUID(int=1), UUID(int=2)
KEY = build_key(ArchiveKey(HUB, WORKSPACE, UUID(int=3), "1"))
META = ArchiveMeta(
    key=KEY,
    sha256="ab" * 32,
    bytes=1000,
    unpacked_bytes=5000,
    entries=3,
    skipped=1,
    hub=HUB,
    workspace_id=WORKSPACE,
    workspace_name="payments-api",
    owner="alice",
    generation=4,
    created_at=datetime(2026, 11, 1, 12, 0, tzinfo=UTC),
)
SEALED = seal(META)


def sealed(**fields: object) -> bytes:
    """A marker with other fields and a seal that fits them."""
    written = {**meta_fields(META), **fields}
    text = json.dumps(written, sort_keys=True, separators=(",", ":"))
    return json.dumps({**written, "seal": hashlib.sha256(text.encode()).hexdigest()}).encode()


def test_a_marker_comes_back_as_it_was() -> None:
    assert unseal(SEALED, KEY) == META
    copied = replace(META, fidelity=Fidelity.COPY)
    assert unseal(seal(copied), KEY) == copied


def test_a_marker_is_json_that_says_everything() -> None:
    read = json.loads(SEALED)
    assert read.pop("seal")
    assert read == {
        "key": KEY,
        "format": "tar.zst/1",
        "fidelity": "full",
        "sha256": "ab" * 32,
        "bytes": 1000,
        "unpacked_bytes": 5000,
        "entries": 3,
        "skipped": 1,
        "hub": str(HUB),
        "workspace_id": str(WORKSPACE),
        "workspace_name": "payments-api",
        "owner": "alice",
        "generation": 4,
        "created_at": "2026-11-01T12:00:00+00:00",
    }


@settings(max_examples=200)
@given(st.integers(0, len(SEALED) - 1), st.integers(1, 255))
def test_no_flipped_bit_gives_another_marker(position: int, flip: int) -> None:
    """Refused, or white space: never a marker that says something else."""
    damaged = bytearray(SEALED)
    damaged[position] ^= flip
    with suppress(ArchiveCorrupted):
        assert unseal(bytes(damaged), KEY) == META


@pytest.mark.parametrize("length", [0, 1, len(SEALED) // 2, len(SEALED) - 1])
def test_half_a_marker_is_none(length: int) -> None:
    with pytest.raises(ArchiveCorrupted, match="commit marker"):
        unseal(SEALED[:length], KEY)


@pytest.mark.parametrize(
    "data", [b"[]", b"null", b"{}", b"\xff\xfe", b'"seal"', b"[" * 5000, b"{" + b'"a":1,' * 9]
)
def test_garbage_is_no_marker(data: bytes) -> None:
    with pytest.raises(ArchiveCorrupted):
        unseal(data, KEY)


@pytest.mark.parametrize(
    "fields",
    [
        {"bytes": -1},
        {"bytes": "1000"},
        {"entries": 1.5},
        {"entries": True},
        {"sha256": None},
        {"owner": ["alice"]},
        {"hub": 1},
        {"hub": "hub"},
        {"created_at": "yesterday"},
        {"created_at": None},
        {"fidelity": "some"},
        {"more": 1},
        {"workspace_id": str(UUID(int=9))},
        {"key": KEY.replace("/1/", "/2/")},
    ],
)
def test_a_marker_must_make_sense(fields: dict[str, object]) -> None:
    with pytest.raises(ArchiveCorrupted):
        unseal(sealed(**fields), KEY)


def test_a_marker_of_another_archive_is_none_of_this() -> None:
    with pytest.raises(ArchiveCorrupted, match="another archive"):
        unseal(SEALED, KEY.replace("/1/", "/2/"))


def test_a_newer_format_is_not_called_damaged() -> None:
    with pytest.raises(ActionFailed, match=r"tar\.zst/9") as caught:
        unseal(sealed(format="tar.zst/9"), KEY)
    assert not isinstance(caught.value, ArchiveCorrupted)
