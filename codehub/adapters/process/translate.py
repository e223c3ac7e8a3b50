"""OSError into our errors: which of them are an answer, and which mean that nobody knows.

A full disk or a missing permission is an answer about this action. Anything else (a failing disk,
too many open files, a directory that is gone) says nothing about the workspace: Unreachable.
"""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from codehub.errors import ActionFailed, CodeHubError, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_ANSWERS: Final = frozenset({errno.E2BIG, errno.EBUSY, errno.ENAMETOOLONG})


@contextmanager
def acting(root: Path) -> Iterator[None]:
    """Inside, something is done below `root`; an OSError becomes what it means for the action."""
    try:
        yield
    except OSError as error:
        raise explain(error, root) from error


@contextmanager
def looking(root: Path) -> Iterator[None]:
    """Inside, facts are read; whatever goes wrong, the fact is unknown and never absent."""
    try:
        yield
    except OSError as error:
        raise Unreachable(f"the data root {root} cannot be read: {_reason(error)}") from error


def explain(error: OSError, root: Path) -> CodeHubError:
    """What an OSError met while acting below `root` means to the person who asked."""
    if error.errno in _FULL:
        return ActionFailed(f"the disk that holds {root} is full", hint="make room there")
    if error.errno in _FORBIDDEN:
        return ActionFailed(
            f"the hub may not do this below {root}: {_reason(error)}",
            hint="the hub's user must own everything there",
        )
    if error.errno in _ANSWERS:
        return ActionFailed(f"the system refused: {_reason(error)}")
    return Unreachable(f"the data root {root} cannot be used: {_reason(error)}")


def _reason(error: OSError) -> str:
    text = error.strerror or type(error).__name__
    return f"{text} ({error.filename})" if error.filename else text
