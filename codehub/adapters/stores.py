"""Which object store an address means. The only place that knows the kinds there are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from codehub.adapters.localstore import LocalStore
from codehub.errors import UsageError

if TYPE_CHECKING:
    from codehub.ports import ObjectStore

_HINT = "give an absolute path, such as file:///var/lib/codehub/archives"


def open_store(url: str) -> ObjectStore:
    """The store at an address. The address may hold a secret, so errors show its scheme alone."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise UsageError("the address of the archive store cannot be read", hint=_HINT) from None
    if parts.scheme != "file":
        kind = parts.scheme or "no scheme"
        raise UsageError(f"archive stores of this kind are not supported: {kind}", hint=_HINT)
    path = Path(unquote(parts.path))
    if parts.netloc or parts.query or parts.fragment or not parts.path.startswith("/"):
        raise UsageError("the address of the archive store is not an absolute path", hint=_HINT)
    return LocalStore(path)
