"""How storage jobs touch the world beside the store: a new way must not come to be unnoticed.

Calls of the store are struck at one by one in `tests/integration/test_job_faults.py`. What a job
does to a volume it does through tar and the few calls below; each stands beside what a crash in it
means and the tests that go there.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import codehub.jobs

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = sorted(Path(codehub.jobs.__file__).parent.glob("*.py"))
OUTSIDE = {"os", "shutil", "subprocess", "fcntl", "signal", "socket"}
WRITES = {
    "chmod",
    "hardlink_to",
    "mkdir",
    "open",
    "rename",
    "replace",
    "rmdir",
    "symlink_to",
    "touch",
    "unlink",
    "write_bytes",
    "write_text",
}
KNOWN = {
    # A connection to the engine: `test_docker_copy.py` cuts it.
    "engine.py": {"socket.socket"},
    # Who ends with whom: `test_job_crash.py` kills the leader, the job and tar.
    "leash.py": {"os.execv", "os.getppid", "signal.signal"},
    "mover.py": {"os.killpg"},
    "parent.py": {
        *("os.getpgrp", "os.getpid", "os.isatty", "os.killpg", "os.read", "os.setpgid"),
    },
    # tar and the pipe to it: `test_job_crash.py` kills it, `test_job_refuses.py` fills its disk.
    "tarchild.py": {
        *("fcntl.fcntl", "os.geteuid", "os.getpid", "os.read", "os.write"),
        *("shutil.which", "subprocess.Popen"),
    },
    # How many cores there are.
    "upload.py": {"os.sched_getaffinity"},
    # Looking and syncing change nothing. Emptying is for a volume that counts for nothing yet, and
    # one half emptied counts for as little: `test_a_restore_is_whole_or_leaves_nothing`.
    "volume.py": {
        *("os.close", "os.lstat", "os.open", "os.scandir", "os.statvfs", "os.strerror", "os.sync"),
        *("chmod", "os.chmod", "os.rename", "os.rmdir", "os.unlink"),
    },
}


def _touches(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner, name = node.func.value, node.func.attr
        if isinstance(owner, ast.Name) and owner.id in OUTSIDE:
            yield f"{owner.id}.{name}"
        elif name in WRITES:
            yield name


def test_every_touch_of_the_world_is_known() -> None:
    found = {source.name: set(_touches(source)) for source in SOURCES}
    assert {name: touches for name, touches in found.items() if touches} == KNOWN
