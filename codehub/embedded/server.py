"""A private server in a directory of its own: what the embedded PostgreSQL and Redis share.

    DIRECTORY/data        its data, owned by the account that runs it
    DIRECTORY/run         its socket; there is no TCP, and nobody else may enter
    DIRECTORY/server.log  what the server says
    DIRECTORY/lock*       who uses it: see lease.py
    DIRECTORY/location    where the rest is, if it cannot be here: see home.py

The server lives in a session of its own, so Ctrl-C does not reach it before codehub is done with
it, and it survives a crash of codehub; the next start finds it and goes on with it. No process is
signalled that is not surely this server on this data directory, and no mode of a directory that
was there before is changed.
"""

from __future__ import annotations

import signal
import time
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from codehub.embedded.account import choose_account
from codehub.embedded.home import find_home, make_directory, make_home, what_bars
from codehub.embedded.lease import Lease
from codehub.embedded.sockets import remove_socket_directory

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from codehub.embedded.account import Account
    from codehub.errors import CodeHubError

_left_running: Final[list[subprocess.Popen[bytes]]] = []
"""Servers that others still use. Kept, because Popen complains of a child it loses sight of."""


@dataclass(frozen=True, slots=True)
class Running:
    """A server that runs: its process and how it is reached."""

    pid: int
    socket_directory: Path
    url: str


class EmbeddedServer(ABC):
    """One private server, which several processes may use at once.

    The first to `start` launches it, the last to `stop` stops it; a `start` again revives one that
    died. `options` are more arguments for its program; they count for the one who launches.
    """

    name: ClassVar[str]
    problem: ClassVar[type[CodeHubError]]
    patience: ClassVar[float]
    """Seconds to wait for it to start or stop."""
    tolerance: ClassVar[float | None] = None
    """Seconds after which one that was found, and does not answer, is replaced; None for never."""
    endings: ClassVar[tuple[signal.Signals, ...]]
    """The signals that stop it, the gentle one first."""

    def __init__(self, directory: Path, options: Sequence[str] = ()) -> None:
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
        running = self.running()
        if running is None:
            raise self.problem(
                f"the embedded {self.name} in {self.directory} is not running",
                hint="start the hub with 'codehub up'",
            )
        return running.url

    def start(self) -> str:
        """Starts the server, or joins those who use it; returns its URL."""
        with self._explained():
            make_directory(self.directory, choose_account())
            with self._lease.turn(2 * self.patience):
                if not self._lease.held:
                    self._lease.take()
                try:
                    return self._start_and_wait()
                except BaseException:
                    self._leave()
                    raise

    def stop(self) -> None:
        """Leaves the server; the last one stops it cleanly."""
        if self._lease.held:
            with self._lease.turn(2 * self.patience):
                self._leave()

    def log_tail(self, lines: int = 12) -> str:
        """The last lines the server said."""
        try:
            said = (self.home / "server.log").read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join(said.splitlines()[-lines:])

    @abstractmethod
    def running(self) -> Running | None:
        """The server that runs on our data, None when there is none."""

    @abstractmethod
    def _accepts(self, running: Running) -> bool:
        """Whether it answers by now."""

    @abstractmethod
    def _launch(self, home: Path, account: Account, deadline: float) -> subprocess.Popen[bytes]:
        """Makes what it needs, and launches it."""

    @abstractmethod
    def _tell(self, pid: int, number: signal.Signals) -> None:
        """Signals this process if it is surely our server."""

    def _start_and_wait(self) -> str:
        begun, launched = time.monotonic(), False
        while time.monotonic() < begun + self.patience:
            running = self.running()
            if running and self._accepts(running):
                return running.url
            if self._process and self._process.poll() is not None:
                if launched:
                    raise self._failed("did not start")
                self._process = None
            if running is None and self._process is None:
                account = choose_account(self.data)
                home = self._make_home(account)
                self._process = self._launch(home, account, begun + self.patience)
                launched = True
            elif running and not launched and self._is_hopeless(begun):
                self._tell(running.pid, signal.SIGKILL)
            time.sleep(0.02)
        raise self._failed(f"did not answer within {self.patience:.0f} seconds")

    def _is_hopeless(self, since: float) -> bool:
        return self.tolerance is not None and time.monotonic() > since + self.tolerance

    def _make_home(self, account: Account) -> Path:
        home = make_home(self.directory, account, self.name.lower())
        bar = what_bars(home, account)
        if bar:
            raise self.problem(
                f"the embedded {self.name} runs as the account {account.name}, which {bar}",
                hint="choose another directory with --data, or run codehub as an ordinary user",
            )
        return home

    def _failed(self, what: str) -> CodeHubError:
        said = self.log_tail()
        return self.problem(
            f"the embedded {self.name} in {self.directory} {what}" + (f":\n{said}" if said else ""),
            hint=f"all it said is in {self.home / 'server.log'}",
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
        for number in self.endings:
            running = self.running()
            if running:
                self._tell(running.pid, number)
            elif self._process:
                self._process.send_signal(number)
            if self._gone(time.monotonic() + self.patience):
                if running:
                    remove_socket_directory(running.socket_directory, self.home)
                return
        raise self._failed("did not stop")

    def _gone(self, deadline: float) -> bool:
        while time.monotonic() < deadline:
            ended = self._process is None or self._process.poll() is not None
            if ended and self.running() is None:
                return True
            time.sleep(0.02)
        return False

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """What the file system refuses becomes one sentence."""
        try:
            yield
        except OSError as error:
            where = error.filename or self.directory
            raise self.problem(
                f"the embedded {self.name} cannot be kept in {self.directory}: "
                f"{error.strerror} ({where})",
                hint="choose another directory with --data",
            ) from error
