"""What an operating system's error means for the store: "no", or no answer."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from codehub.errors import ActionFailed, CodeHubError, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator

_SILENT: Final = frozenset(
    {
        errno.EIO,
        errno.ENODEV,
        errno.ENXIO,
        errno.ENOTCONN,
        errno.ESTALE,
        errno.ETIMEDOUT,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ESHUTDOWN,
        errno.EMFILE,
        errno.ENFILE,
    }
)
"""The disk or its server did not answer (or we could not ask): nothing is known."""

_REFUSALS: Final = {
    errno.ENOSPC: ("no space is left in the archive store", "free space there, or make it larger"),
    errno.EDQUOT: ("the archive store's quota is used up", "free space there, or raise the quota"),
    errno.EROFS: ("the archive store is read-only", "mount it writable"),
    errno.EFBIG: ("the archive store takes no file this large", "raise its limit on file sizes"),
    errno.EACCES: ("the archive store does not let us in", "give the hub's user access to it"),
    errno.EPERM: ("the archive store does not let us in", "give the hub's user access to it"),
}


def translate(error: OSError, doing: str) -> CodeHubError:
    """The error for people, saying what was being done."""
    if error.errno in _SILENT:
        return Unreachable(f"the archive store gave no answer while {doing}: {error.strerror}")
    if error.errno in _REFUSALS:
        sentence, hint = _REFUSALS[error.errno]
        return ActionFailed(f"{sentence} ({doing})", hint=hint)
    return ActionFailed(f"the archive store failed while {doing}: {error.strerror or error}")


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Let no OSError out of here."""
    try:
        yield
    except OSError as error:
        raise translate(error, doing) from error
