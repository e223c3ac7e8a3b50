"""Which object store an address means. The only place that knows the kinds there are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from codehub.adapters.localstore import LocalStore
from codehub.adapters.s3.address import SCHEME as S3
from codehub.adapters.s3.address import parse_address
from codehub.errors import UsageError

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from codehub.ports import ObjectStore

_HINT = (
    "give an absolute path, such as file:///var/lib/codehub/archives, or a bucket, such as "
    "s3://my-bucket/codehub"
)


def open_store(url: str) -> ObjectStore:
    """The store at an address. The address may hold a secret, so errors show its scheme alone."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise UsageError("the address of the archive store cannot be read", hint=_HINT) from None
    if parts.scheme == S3:
        return _open_bucket(url)
    if parts.scheme == "file":
        return _open_directory(parts)
    kind = parts.scheme or "no scheme"
    raise UsageError(f"archive stores of this kind are not supported: {kind}", hint=_HINT)


def _open_directory(parts: SplitResult) -> LocalStore:
    if parts.netloc or parts.query or parts.fragment or not parts.path.startswith("/"):
        raise UsageError("the address of the archive store is not an absolute path", hint=_HINT)
    return LocalStore(Path(unquote(parts.path)))


def _open_bucket(url: str) -> ObjectStore:
    """boto3 is heavy, and only needed here."""
    address = parse_address(url)
    try:
        from codehub.adapters.s3.store import S3Store
    except ImportError as error:
        raise UsageError(
            f"the S3 client cannot be imported: {error.name}", hint="pip install 'boto3>=1.36'"
        ) from error
    return S3Store(address)
