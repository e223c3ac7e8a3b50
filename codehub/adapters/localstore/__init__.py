"""The `file://` object store: archives as files below one directory, with a bucket's semantics."""

from codehub.adapters.localstore.store import LocalStore

__all__ = ["LocalStore"]
