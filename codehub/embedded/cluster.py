"""The files of a server: makes a new database, and clears what a crash left in the way.

PostgreSQL calls such a directory a cluster. Everything here runs before the server does.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Final

from codehub.embedded.launch import ENVIRONMENT
from codehub.embedded.postmaster import leftovers, read_pid_file, running_postmaster
from codehub.embedded.processes import is_alive
from codehub.errors import DatabaseProblem

if TYPE_CHECKING:
    from pathlib import Path

    from codehub.embedded.account import Account
    from codehub.embedded.programs import Programs

USER: Final = "codehub"
INITDB: Final = ("--encoding=UTF8", "--locale=C", "--auth-local=trust", "--auth-host=reject")


def made_by(data: Path) -> int | None:
    """The major version that made the data, None where there is none yet."""
    try:
        return int((data / "PG_VERSION").read_text())
    except FileNotFoundError:
        return None


def make_cluster(data: Path, programs: Programs, account: Account) -> None:
    """Runs initdb beside the final place: a crash in the middle leaves nothing half made."""
    partial = data.with_name("data.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o700)
    account.own(partial)
    made = subprocess.run(
        [programs.directory / "initdb", "-D", partial, "-U", USER, *INITDB],
        capture_output=True,
        text=True,
        cwd="/",
        env=ENVIRONMENT,
        check=False,
        timeout=600,
        **account.popen_arguments(),
    )
    if made.returncode != 0:
        shutil.rmtree(partial, ignore_errors=True)
        said = "\n".join((made.stderr or made.stdout).splitlines()[-6:])
        raise DatabaseProblem(
            f"the embedded PostgreSQL could not make its database in {data.parent}:\n{said}",
            hint="check the free space and the permissions of that directory",
        )
    partial.rename(data)


def clear_stale_files(data: Path, sockets: Path, deadline: float) -> None:
    """Removes files whose number is somebody else's now; PostgreSQL would refuse to start.

    A dead number is left to PostgreSQL, which knows it as stale. Orphans of a killed server end by
    themselves, and until then the data is not ours. The socket's lock counts for nothing beside
    the one on the data: no other server uses that directory.
    """
    while (left := leftovers(data)) and time.monotonic() < deadline:
        time.sleep(0.02)
    if left or running_postmaster(data):
        return
    noted = read_pid_file(data)
    if noted and is_alive(noted.pid):
        (data / "postmaster.pid").unlink()
    for each in sockets.glob(".s.PGSQL.*"):
        each.unlink()
