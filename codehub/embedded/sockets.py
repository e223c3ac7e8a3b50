"""Where a server's socket is: in a directory that only its account enters, with a short path."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from codehub.embedded.account import Account

LONGEST: Final = 80
"""Bytes of a socket's directory. The system allows about 100 for the whole path of a socket."""


def make_socket_directory(home: Path, account: Account, former: Path | None = None) -> Path:
    """`run` in the server's home, or one below /tmp where that would be too long.

    `former` is the one of an earlier run: used again if it is still what it was, so that the
    address stays the same for those who know it.
    """
    sockets = home / "run"
    if len(os.fsencode(sockets)) > LONGEST:
        if former and _is_private(former, account):
            return former
        sockets = Path(tempfile.mkdtemp(prefix="codehub-", dir="/tmp"))
    sockets.mkdir(mode=0o700, exist_ok=True)
    sockets.chmod(0o700)
    account.own(sockets)
    return sockets


def remove_socket_directory(sockets: Path, home: Path) -> None:
    """A directory that was made elsewhere goes with the server it was made for."""
    if sockets.parent != home:
        shutil.rmtree(sockets, ignore_errors=True)


def _is_private(directory: Path, account: Account) -> bool:
    """Whether it is the account's own: below /tmp, anybody may have taken a name that got free."""
    try:
        found = directory.lstat()
    except OSError:
        return False
    mine = stat.S_ISDIR(found.st_mode) and found.st_uid == account.uid
    return mine and stat.S_IMODE(found.st_mode) == 0o700
