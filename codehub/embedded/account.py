"""The account an embedded server runs as: never root, so root lends it another.

PostgreSQL insists on that, and Redis needs no more rights either. A person who is not root runs
them as themselves and none of this matters to them.
"""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codehub.errors import DatabaseProblem

if TYPE_CHECKING:
    from pathlib import Path

UNPRIVILEGED = ("codehub", "postgres", "nobody")
"""Accounts to lend, the most private first. initdb wants one that is in the user database."""


@dataclass(frozen=True, slots=True)
class Account:
    """Who the server runs as. `lent` says that we are root and it is somebody else."""

    name: str
    uid: int
    gid: int
    lent: bool

    def popen_arguments(self) -> dict[str, Any]:
        """What makes subprocess run a program as this account, and as nobody more."""
        if not self.lent:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        if self.lent:
            os.chown(path, self.uid, self.gid)

    def may_enter(self, directory: Path) -> bool:
        """Whether the mode bits let this account pass through a directory."""
        found = directory.stat()
        if not self.lent or found.st_uid == self.uid:
            return bool(found.st_mode & stat.S_IXUSR)
        bit = stat.S_IXGRP if found.st_gid == self.gid else stat.S_IXOTH
        return bool(found.st_mode & bit)

    def barred_at(self, path: Path) -> Path | None:
        """The first directory on the way to `path` that this account may not enter."""
        if not self.lent:
            return None
        way = [each for each in reversed((path, *path.parents)) if each.is_dir()]
        return next((each for each in way if not self.may_enter(each)), None)


def choose_account(data: Path | None = None) -> Account:
    """The account to run as: one's own, or an unprivileged one for root.

    Root goes on with whoever owns `data` already, since the server insists on that.
    """
    if os.geteuid() != 0:
        return Account(str(os.geteuid()), os.geteuid(), os.getegid(), lent=False)
    if data is not None and data.exists() and (owner := data.stat()).st_uid != 0:
        return Account(str(owner.st_uid), owner.st_uid, owner.st_gid, lent=True)
    for name in UNPRIVILEGED:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, found.pw_uid, found.pw_gid, lent=True)
    raise DatabaseProblem(
        "the embedded servers do not run as root, and there is no account to run them as",
        hint="run codehub as another user, or create one named 'codehub'",
    )
