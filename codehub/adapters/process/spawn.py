"""Spawning behind a gate, and reaping what was spawned.

The child is a shell that carries the marker and waits for one line on its standard input before it
becomes the command. The hub writes that line after the record with the child's pid is on the disk.
If the hub dies before, the input ends and so does the child: no command ever runs that no record
names, and none in the moment between fork and exec, when a process carries no marker yet.

Nothing connects a running workspace with the hub: its input is /dev/null, its output a file, its
session its own. Children are reaped by asking for them (`collect`); a hub that restarts leaves
them to init, and where there is no init a zombie counts as gone.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codehub.adapters.process.find import read_boot_id, read_process
from codehub.adapters.process.records import Leader
from codehub.errors import ActionFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHELL: Final = "/bin/sh"
_GATE: Final = 'cd && unset OLDPWD && read -r CODEHUB_GATE && exec "$@" </dev/null'
_SIGNALS: Final = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}

_guard: Final = threading.Lock()
_children: Final[dict[int, Leader]] = {}
"""Those of this process: to reap them is a duty of the process, whichever runtime spawned them."""
_exits: Final[dict[Leader, int]] = {}


class Gate:
    """A spawned child that waits; `open` lets it become the command, leaving shuts it."""

    def __init__(self, command: tuple[str, ...], env: Mapping[str, str], log: Path) -> None:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        entry, self._handle = os.pipe()
        self._opened = False
        try:
            self.leader = _identify(_spawn(command, env, entry, output))
        except BaseException:
            os.close(self._handle)
            raise
        finally:
            os.close(entry)
            os.close(output)
        with _guard:
            _children[self.leader.pid] = self.leader

    def __enter__(self) -> Gate:
        return self

    def open(self) -> None:
        """Let the command run. Should the child be dead already, whoever waits for it notices."""
        self._opened = True
        with suppress(BrokenPipeError):
            os.write(self._handle, b"\n")

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)
        if not self._opened:
            _discard(self.leader.pid)


def resolve_command(
    command: tuple[str, ...], env: Mapping[str, str], home: Path
) -> tuple[str, ...]:
    """The command with its program as an absolute path; ActionFailed when there is no such."""
    program = command[0] if command else ""
    place = str(home / program) if "/" in program else program
    found = shutil.which(place, path=env.get("PATH", os.defpath)) if program else None
    if found:
        return (str(Path(found).absolute()), *command[1:])
    if "/" in program and Path(place).is_file():
        raise ActionFailed(
            f'the command "{program}" is not executable', hint="set its executable bit"
        )
    raise ActionFailed(
        f'the command "{program}" was not found',
        hint="install it on the hub's machine, or correct the command in the spec",
    )


def collect() -> None:
    """Reap every child of this process that has ended, and remember how."""
    with _guard:
        for pid, leader in list(_children.items()):
            try:
                done, status = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                del _children[pid]
                continue
            if done:
                del _children[pid]
                _exits[leader] = _exit_code(status)


def peek_exit(leader: Leader | None) -> int | None:
    """The exit code of a child that was reaped here; None for anybody else's."""
    with _guard:
        return _exits.get(leader) if leader else None


def forget_exit(leader: Leader | None) -> None:
    """Its exit code is written down, or nobody will ask for it any more."""
    with _guard:
        if leader:
            _exits.pop(leader, None)


def _discard(pid: int) -> None:
    """End a child that never was let through; as long as it is not reaped, its pid is its own."""
    with _guard:
        if _children.pop(pid, None):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _spawn(command: tuple[str, ...], env: Mapping[str, str], entry: int, output: int) -> int:
    try:
        return os.posix_spawn(
            _SHELL,
            [_SHELL, "-c", _GATE, _SHELL, *command],
            {name.encode(): value.encode() for name, value in env.items()},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, entry, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
                *((os.POSIX_SPAWN_CLOSE, each) for each in _inherited()),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=_SIGNALS,
        )
    except ValueError:
        raise ActionFailed(
            "the command or its environment holds a character that no program can be given"
        ) from None


def _inherited() -> list[int]:
    """What the hub itself was handed open, a pipe to its terminal perhaps: not to be outlived."""
    found = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with suppress(OSError):
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(int(name))
    return found


def _identify(pid: int) -> Leader:
    process = read_process(pid)
    assert process is not None, "a child stays visible until it is reaped"
    return Leader(pid, process.start_ticks, read_boot_id())


def _exit_code(status: int) -> int:
    """As shells and Docker count: 128 and the signal's number for one that was killed."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
