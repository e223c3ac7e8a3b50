"""What the process runtime and the local store do to a machine, file by file.

The tests of crashes strike at the calls of `crash_points.CHANGING`. Whatever changes something in
another way must not come to be unnoticed: it is struck at as well, or says here why not.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

from tests.contract.crash_points import CHANGING
from tests.touches import source_of, touches

KNOWN = {
    "codehub.adapters.process": {
        "durable": {"os.fdopen", "os.fsync", "os.open", "replace", "unlink"},
        "find": {"os.getpid"},
        "logs": {"open", "os.fstat", "os.truncate", "replace", "unlink", "write_bytes"},
        "measure": {"os.sysconf"},
        "probe": {"socket.socket"},
        "root": {"fcntl.flock", "mkdir", "os.close", "os.open", "touch"},
        "spawn": {
            *("os.close", "os.get_inheritable", "os.kill", "os.listdir", "os.open", "os.pipe"),
            *("os.posix_spawn", "os.waitpid", "os.waitstatus_to_exitcode", "os.write"),
            *("shutil.which", "signal.valid_signals"),
        },
        "start": {"open"},
        "stop": {"os.close", "os.kill", "os.pidfd_open", "signal.pidfd_send_signal"},
        "surround": {"os.environ", "os.getuid", "pwd.getpwuid"},
        "volumes": {"chmod", "mkdir", "os.scandir", "rename", "rmdir", "unlink"},
    },
    "codehub.adapters.localstore": {
        "listing": {"os.scandir"},
        "root": {"mkdir", "os.close", "os.fsync", "os.open", "os.write", "rmdir"},
        "store": {"os.close", "os.fstat", "os.open", "os.read", "unlink"},
        "writer": {
            *("os.close", "os.fdatasync", "os.link", "os.open", "os.write", "rename", "unlink"),
        },
    },
}
NOT_STRUCK = {
    # Looking.
    *("os.environ", "os.fstat", "os.get_inheritable", "os.getpid", "os.getuid", "os.listdir"),
    *("os.pidfd_open", "os.read", "os.scandir", "os.sysconf", "os.waitstatus_to_exitcode"),
    *("pwd.getpwuid", "shutil.which", "signal.valid_signals"),
    # Gone with the process; a probe says nothing to whom it reaches.
    *("fcntl.flock", "os.close", "os.pipe", "socket.socket"),
    # A dead process takes nothing back that it has written: syncs are for power cuts.
    *("os.fdatasync", "os.fsync"),
    # Over a descriptor of `os.open`, which is struck at; `touch` is one as well.
    *("os.fdopen", "touch"),
    # To read a log, and the gate of a start, which writes into its pipe.
    "open",
    # The draft of a log, which counts for nothing until it takes its name.
    "write_bytes",
}


@pytest.mark.parametrize("package", KNOWN)
def test_every_touch_of_the_machine_is_known(package: str) -> None:
    inside = pkgutil.iter_modules(import_module(package).__path__)
    names = [package, *(f"{package}.{each.name}" for each in inside)]
    found = {each: touches(source_of(each)) for each in names}
    known = {f"{package}.{name}": each for name, each in KNOWN[package].items()}
    assert {name: each for name, each in found.items() if each} == known


def test_every_touch_is_struck_at_or_has_a_reason() -> None:
    struck = {f"{module.__name__}.{name}" for module, names in CHANGING.items() for name in names}
    struck |= {name for names in CHANGING.values() for name in names} - {"open"}
    known = {each for package in KNOWN.values() for uses in package.values() for each in uses}
    assert known - struck == NOT_STRUCK
