"""How a server is launched: on its own, as its account, with nothing of a person's surroundings."""

from __future__ import annotations

import os
import subprocess
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from codehub.embedded.account import Account

ENVIRONMENT: Final = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
"""All that the programs see: a person's PGDATA or PGOPTIONS must not change them."""
LARGEST_LOG: Final = 10_000_000


def launch(
    command: Sequence[str | Path], account: Account, *, cwd: Path, log: Path
) -> subprocess.Popen[bytes]:
    """Starts a server in a session of its own, which Ctrl-C and our end do not reach."""
    with open_log(log) as file:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd=cwd,
            env=ENVIRONMENT,
            umask=0o077,
            start_new_session=True,
            **account.popen_arguments(),
        )


def open_log(path: Path) -> IO[bytes]:
    """The server's log, to be added to; a large one is put aside."""
    if path.exists() and path.stat().st_size > LARGEST_LOG:
        path.replace(path.with_name(f"{path.name}.old"))
    path.touch(mode=0o600)
    return path.open("ab")
