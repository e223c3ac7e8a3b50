"""A private PostgreSQL for `codehub up` and for tests, in a directory of its own.

    DIRECTORY/data        the database, made by initdb, owned by the account that runs it
    DIRECTORY/run         its socket; there is no TCP, and nobody else may enter
    DIRECTORY/server.log  what the server says
    DIRECTORY/lock*       who uses it: see lease.py
    DIRECTORY/location    where the rest is, if it cannot be here: see home.py

The server lives in a session of its own, so Ctrl-C does not reach it before codehub is done with
it, and it survives a crash of codehub; the next start finds it and goes on with it. No process is
signalled that is not surely a postgres on this data directory, and no mode of a directory that
was there before is changed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from codehub.embedded.account import choose_account
from codehub.embedded.cluster import (
    ENVIRONMENT,
    USER,
    clear_stale_pid_file,
    made_by,
    make_cluster,
    open_log,
)
from codehub.embedded.home import find_home, make_directory, make_home
from codehub.embedded.lease import Lease
from codehub.embedded.postmaster import Postmaster, running_postmaster, tell
from codehub.embedded.programs import choose_programs
from codehub.errors import DatabaseProblem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from codehub.embedded.account import Account

PATIENCE: Final = 60.0
"""Seconds to wait for a server to start or stop; recovery after a crash may take some."""
LONGEST_SOCKET_DIRECTORY: Final = 80
"""Bytes. The system allows about 100 for the whole path of a socket."""
_left_running: Final[list[subprocess.Popen[bytes]]] = []
"""Servers that others still use. Kept, because Popen complains of a child it loses sight of."""


class EmbeddedPostgres:
    """One private server, which several processes may use at once.

    The first to `start` launches it, the last to `stop` stops it. `options` are more arguments for
    `postgres` ("-c", "fsync=off"); they count for the one who launches.
    """

    def __init__(self, directory: Path, *, options: Sequence[str] = ()) -> None:
        self.directory = directory.absolute()
        self.options = tuple(options)
        self._lease = Lease(self.directory)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> str:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def home(self) -> Path:
        """Where its files really are."""
        return find_home(self.directory)

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def url(self) -> str:
        """Where the running server is reached, whoever started it."""
        running = running_postmaster(self.data)
        if running is None:
            raise DatabaseProblem(
                f"the embedded PostgreSQL in {self.directory} is not running",
                hint="start the hub with 'codehub up'",
            )
        return _url(running)

    def start(self) -> str:
        """Starts the server, or joins those who use it; returns its URL."""
        with _explained(self.directory):
            make_directory(self.directory, choose_account())
            with self._lease.turn(2 * PATIENCE):
                if not self._lease.held:
                    self._lease.take()
                try:
                    return self._start_and_wait()
                except BaseException:
                    self._leave()
                    raise

    def stop(self) -> None:
        """Leaves the server; the last one stops it cleanly: sessions end, data is flushed."""
        if self._lease.held:
            with self._lease.turn(2 * PATIENCE):
                self._leave()

    def log_tail(self, lines: int = 12) -> str:
        """The last lines the server said."""
        try:
            said = (self.home / "server.log").read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join(said.splitlines()[-lines:])

    def _start_and_wait(self) -> str:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            running = running_postmaster(self.data)
            if running and _accepts(_url(running)):
                return _url(running)
            if self._process and self._process.poll() is not None:
                raise self._failed("did not start")
            if running is None and self._process is None:
                self._launch(deadline)
            time.sleep(0.02)
        raise self._failed(f"did not answer within {PATIENCE:.0f} seconds")

    def _failed(self, what: str) -> DatabaseProblem:
        said = self.log_tail()
        return DatabaseProblem(
            f"the embedded PostgreSQL in {self.directory} {what}" + (f":\n{said}" if said else ""),
            hint=f"all it said is in {self.home / 'server.log'}",
        )

    def _launch(self, deadline: float) -> None:
        account = choose_account(self.data)
        home = make_home(self.directory, account)
        programs = choose_programs(account, home / "programs", major=made_by(self.data))
        if made_by(self.data) is None:
            make_cluster(self.data, programs, account)
        clear_stale_pid_file(self.data, deadline)
        settings = _settings(_socket_directory(home, account))
        with open_log(home / "server.log") as log:
            self._process = subprocess.Popen(
                [programs.directory / "postgres", "-D", self.data, *settings, *self.options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=ENVIRONMENT,
                umask=0o077,
                start_new_session=True,
                **account.popen_arguments(),
            )

    def _leave(self) -> None:
        try:
            if self._lease.is_last():
                self._end()
            elif self._process:
                _left_running.append(self._process)
        finally:
            self._process = None
            self._lease.give_back()

    def _end(self) -> None:
        for number in (signal.SIGINT, signal.SIGQUIT):
            running = running_postmaster(self.data)
            if running:
                tell(running.pid, self.data, number)
            elif self._process:
                self._process.send_signal(number)
            if self._gone(time.monotonic() + PATIENCE):
                _remove_sockets(running, self.home)
                return
        raise self._failed("did not stop")

    def _gone(self, deadline: float) -> bool:
        while time.monotonic() < deadline:
            ended = self._process is None or self._process.poll() is not None
            if ended and running_postmaster(self.data) is None:
                return True
            time.sleep(0.02)
        return False


def _url(server: Postmaster) -> str:
    where = urlencode({"host": server.socket_directory, "port": server.port})
    return f"postgresql://{USER}@/postgres?{where}"


def _accepts(url: str) -> bool:
    import psycopg

    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


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


def _socket_directory(home: Path, account: Account) -> Path:
    """A directory that only the server's account enters, with a path that is short enough."""
    sockets = home / "run"
    if len(os.fsencode(sockets)) > LONGEST_SOCKET_DIRECTORY:
        sockets = Path(tempfile.mkdtemp(prefix="codehub-", dir="/tmp"))
    sockets.mkdir(mode=0o700, exist_ok=True)
    sockets.chmod(0o700)
    account.own(sockets)
    return sockets


def _remove_sockets(server: Postmaster | None, home: Path) -> None:
    """A socket directory that was made for one run goes with it."""
    if server and Path(server.socket_directory).parent != home:
        shutil.rmtree(server.socket_directory, ignore_errors=True)


@contextmanager
def _explained(directory: Path) -> Iterator[None]:
    """What the file system refuses becomes one sentence."""
    try:
        yield
    except OSError as error:
        where = error.filename or directory
        raise DatabaseProblem(
            f"the embedded PostgreSQL cannot be kept in {directory}: {error.strerror} ({where})",
            hint="choose another directory with --data",
        ) from error
