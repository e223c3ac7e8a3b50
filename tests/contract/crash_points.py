"""Processes that die where they are told: one action each, up to a crash point.

Started once as a process of its own, one forks for every order it reads, so that a crash costs some
milliseconds. In the fork, every call that changes the world is two points, before and after it. At
the wanted one the process is gone, as after SIGKILL.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    Order = dict[str, Any]

REPOSITORY = Path(__file__).resolve().parents[2]
CRASHED, ENDED, FAILED = 77, 0, 1
CHANGING: dict[ModuleType, tuple[str, ...]] = {
    os: (
        *("open", "write", "link", "replace", "rename", "truncate", "unlink", "mkdir", "rmdir"),
        *("chmod", "posix_spawn", "waitpid", "kill"),
    ),
    signal: ("pidfd_send_signal",),
}


@dataclass
class Mortal:
    """Gives orders to what dies; `place` is where it did last."""

    process: subprocess.Popen[str]
    place: str = ""

    def dies(self, order: Order) -> bool:
        """Whether it died at the point; False when the action was over before."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        outcome = json.loads(self.process.stdout.readline())
        self.place = outcome["said"]
        assert outcome["code"] != FAILED, self.place
        return bool(outcome["code"] == CRASHED)


@contextmanager
def mortal(module: str) -> Iterator[Mortal]:
    """The program of this module, which calls `obey`."""
    with subprocess.Popen(
        [sys.executable, "-m", module],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Mortal(process)
        process.communicate(timeout=60)


def obey(prepare: Callable[[Order], Callable[[], None]]) -> None:
    """One order is one line of JSON in; what became of it is one line out.

    What `prepare` returns is the action; in it the process may die.
    """
    for line in sys.stdin:
        order = json.loads(line)
        entry, exit_ = os.pipe()
        pid = os.fork()
        if pid == 0:
            _die_in(prepare, order, exit_)
        os.close(exit_)
        with os.fdopen(entry) as pipe:
            said = pipe.read()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        sys.stdout.write(json.dumps({"code": code, "said": said}) + "\n")
        sys.stdout.flush()


def _die_in(prepare: Callable[[Order], Callable[[], None]], order: Order, pipe: int) -> None:
    try:
        act = prepare(order)
        _watch(order["point"], pipe)
        act()
    except BaseException as error:
        os.write(pipe, repr(error).encode())
        os._exit(FAILED)
    os._exit(ENDED)


def _watch(last: int, pipe: int) -> None:
    write, passed = os.write, 0

    def point(name: str) -> None:
        nonlocal passed
        passed += 1
        if passed == last:
            write(pipe, f"{passed}, {name}".encode())
            os._exit(CRASHED)

    def watched(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            if name == "open" and not args[1] & os.O_CREAT:
                return call(*args, **kwargs)
            point(f"before {name}{args[:2]}")
            outcome = call(*args, **kwargs)
            point(f"after {name}{args[:2]}")
            return outcome

        return run

    for module, names in CHANGING.items():
        for name in names:
            setattr(module, name, watched(name, getattr(module, name)))
