"""A private PostgreSQL for `codehub up` and for tests; see server.py for its files and its life.

`DIRECTORY/data` is made by initdb at the first start. A server that is found after a crash of
codehub is used on; one that crashed itself recovers by its own means when it is started again.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlencode

from codehub.embedded.cluster import USER, clear_stale_files, made_by, make_cluster
from codehub.embedded.launch import launch
from codehub.embedded.postmaster import (
    Postmaster,
    read_pid_file,
    running_postmaster,
    tell,
)
from codehub.embedded.programs import choose_programs
from codehub.embedded.server import EmbeddedServer, Running
from codehub.embedded.sockets import make_socket_directory
from codehub.errors import DatabaseProblem

if TYPE_CHECKING:
    import subprocess

    from codehub.embedded.account import Account
    from codehub.errors import CodeHubError


class EmbeddedPostgres(EmbeddedServer):
    """The hub's database, where no DATABASE_URL names one. `options` are for `postgres`
    ("-c", "fsync=off")."""

    name: ClassVar[str] = "PostgreSQL"
    problem: ClassVar[type[CodeHubError]] = DatabaseProblem
    patience: ClassVar[float] = 60.0  # Recovery after a crash may take some.
    # At SIGINT sessions end and data is flushed.
    endings: ClassVar[tuple[signal.Signals, ...]] = (signal.SIGINT, signal.SIGQUIT)

    def running(self) -> Running | None:
        found = running_postmaster(self.data)
        if found is None:
            return None
        return Running(found.pid, Path(found.socket_directory), _url(found))

    def _accepts(self, running: Running) -> bool:
        import psycopg

        try:
            psycopg.connect(running.url, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _tell(self, pid: int, number: signal.Signals) -> None:
        tell(pid, self.data, number)

    def _launch(self, home: Path, account: Account, deadline: float) -> subprocess.Popen[bytes]:
        programs = choose_programs(account, home / "programs", major=made_by(self.data))
        if made_by(self.data) is None:
            make_cluster(self.data, programs, account)
        former = read_pid_file(self.data)
        sockets = make_socket_directory(
            home, account, Path(former.socket_directory) if former else None
        )
        clear_stale_files(self.data, sockets, deadline)
        return launch(
            [programs.directory / "postgres", "-D", self.data, *_settings(sockets), *self.options],
            account,
            cwd=Path("/"),
            log=home / "server.log",
        )


def _url(server: Postmaster) -> str:
    where = urlencode({"host": server.socket_directory, "port": server.port})
    return f"postgresql://{USER}@/postgres?{where}"


def _settings(sockets: Path) -> list[str]:
    """Reached by its socket alone; whoever gets to that is trusted."""
    quoted = str(sockets).replace('"', '""')
    settings = {
        "listen_addresses": "",
        "port": "5432",
        "unix_socket_directories": f'"{quoted}"',
        "unix_socket_permissions": "0600",
    }
    return [each for name, value in settings.items() for each in ("-c", f"{name}={value}")]
