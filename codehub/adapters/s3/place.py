"""Giving an object its name: once, and never over another one.

Servers that know conditional writes refuse a second object by themselves; many ignore the
condition. So we look before, and where the answer was lost we look after: an object carries the
token of the upload that made it, which tells ours from another's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from codehub.adapters.s3.bucket import TOKEN
from codehub.adapters.s3.faults import NOT_IMPLEMENTED, RAW, code_of
from codehub.errors import CodeHubError, NameConflict

if TYPE_CHECKING:
    from collections.abc import Callable

    from codehub.adapters.s3.bucket import Bucket


def place(bucket: Bucket, key: str, token: str, send: Callable[[bool], object]) -> None:
    """Let `send` make the object appear, conditionally or not, where there is none.

    Returns only when it is known to be there and ours.
    """
    require_free(bucket, key)
    try:
        _send(bucket, send)
    except RAW as error:
        owner = _owner(bucket, key)
        if owner is None:
            raise
        if owner != token:
            raise _taken(key) from error


def require_free(bucket: Bucket, key: str) -> None:
    if bucket.find(key) is not None:
        raise _taken(key)


def _send(bucket: Bucket, send: Callable[[bool], object]) -> None:
    try:
        send(bucket.conditional)
    except ClientError as error:
        if code_of(error) != NOT_IMPLEMENTED or not bucket.conditional:
            raise
        bucket.conditional = False
        send(False)


def _owner(bucket: Bucket, key: str) -> str | None:
    """The token of the object that is there; None when there is none, or nobody can tell."""
    try:
        found = bucket.find(key)
    except (*RAW, CodeHubError):
        return None
    if found is None:
        return None
    # Some servers give the names of metadata back in other letters.
    kept = {name.lower(): value for name, value in found.get("Metadata", {}).items()}
    return kept.get(TOKEN, "")


def _taken(key: str) -> NameConflict:
    return NameConflict(f"the archive store has something under {key} already; it was kept")
