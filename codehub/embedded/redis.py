"""A private Redis for `codehub up` and for tests; see server.py for its files and its life.

It keeps nothing on disk: whatever is in Redis may be forgotten at any time, so a stop forgets all.
After a `kill -9` of codehub it runs on, and the next `codehub up` finds it and goes on with it; one
that died is started anew, and so is one that is found but does not answer, at the same address.

Beside the files of every embedded server there is `DIRECTORY/socket`, which names the socket.
"""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final
from urllib.parse import quote

from codehub.embedded import processes
from codehub.embedded.launch import launch
from codehub.embedded.redis_program import choose_program
from codehub.embedded.server import EmbeddedServer, Running
from codehub.embedded.sockets import make_socket_directory
from codehub.errors import Unreachable

if TYPE_CHECKING:
    import subprocess

    from codehub.embedded.account import Account
    from codehub.errors import CodeHubError

PROGRAMS: Final = frozenset({"redis-server", "redis-check-rdb", "valkey-server"})
"""What a process that is a Redis server may run: in Debian the server is a link to the second."""
SOCKET: Final = "redis.sock"
ANSWER_SECONDS: Final = 1.0


class EmbeddedRedis(EmbeddedServer):
    """The hub's Redis, where no REDIS_URL names one. `options` are for `redis-server`
    ("--maxmemory", "100mb")."""

    name: ClassVar[str] = "Redis"
    problem: ClassVar[type[CodeHubError]] = Unreachable
    patience: ClassVar[float] = 20.0
    tolerance: ClassVar[float | None] = 5.0
    endings: ClassVar[tuple[signal.Signals, ...]] = (signal.SIGTERM, signal.SIGKILL)

    def running(self) -> Running | None:
        """Found by its pid file, else by looking at all processes: it may just have begun."""
        pid = self._noted_pid()
        if pid is None or not processes.works_in(pid, self.data, PROGRAMS):
            pid = next(iter(processes.found_in(self.data, PROGRAMS)), None)
        if pid is None:
            return None
        place = self._noted_socket() or self.home / "run" / SOCKET
        return Running(pid, place.parent, f"unix://{quote(str(place))}")

    def _noted_pid(self) -> int | None:
        try:
            return int((self.data / "redis.pid").read_text())
        except (OSError, ValueError):
            return None

    def _noted_socket(self) -> Path | None:
        try:
            return Path((self.home / "socket").read_text())
        except OSError:
            return None

    def _accepts(self, running: Running) -> bool:
        answer = _ping(running.socket_directory / SOCKET)
        return answer != b"" and not answer.startswith(b"-LOADING")

    def _tell(self, pid: int, number: signal.Signals) -> None:
        processes.tell(pid, self.data, PROGRAMS, number)

    def _launch(self, home: Path, account: Account, deadline: float) -> subprocess.Popen[bytes]:
        del deadline
        program = choose_program(account, home / "programs")
        self.data.mkdir(mode=0o700, exist_ok=True)
        account.own(self.data)
        former = self._noted_socket()
        sockets = make_socket_directory(home, account, former.parent if former else None)
        _note(home / "socket", sockets / SOCKET)
        settings = _settings(self.data, sockets / SOCKET)
        # In its data from the first moment: by that it is known, even if we die right now.
        return launch(
            [program, *settings, *self.options], account, cwd=self.data, log=home / "server.log"
        )


def _settings(data: Path, place: Path) -> list[str]:
    """Reached by its socket alone; whoever gets to that is trusted. Nothing is saved."""
    settings = {
        "port": "0",
        "unixsocket": str(place),
        "unixsocketperm": "700",
        "dir": str(data),
        "pidfile": str(data / "redis.pid"),
        "daemonize": "no",
        "supervised": "no",
        "save": "",
        "appendonly": "no",
        # Where there is no /proc, the command line is how the server is known.
        "set-proc-title": "no",
    }
    return [each for name, value in settings.items() for each in (f"--{name}", value)]


def _note(file: Path, place: Path) -> None:
    partial = file.with_name(f"{file.name}.partial")
    partial.write_bytes(os.fsencode(place))
    partial.rename(file)


def _ping(place: Path) -> bytes:
    """What the server at a socket says to a PING; nothing if nobody answers in time."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as conn:
        conn.settimeout(ANSWER_SECONDS)
        try:
            conn.connect(str(place))
            conn.sendall(b"PING\r\n")
            return conn.recv(64)
        except OSError:
            return b""
