"""What a reboot does to a hub's notes: the numbers of its processes belong to somebody else."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from codehub.adapters.process.find import read_process
from codehub.embedded.account import choose_account
from tests.end_to_end.hub import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.end_to_end.hub import Hub


def rewrite_numbers(hub: Hub, pid: int, ticks: int) -> None:
    """Wherever a process is noted, note this one, in a boot of the past."""
    for record in (hub.data / "workspaces" / "records").glob("*.json"):
        fields = json.loads(record.read_text())
        record.write_text(json.dumps({**fields, "leader": [pid, ticks, str(uuid4())]}))
    sockets = Path(_replace_number(hub.data / "postgres/data/postmaster.pid", pid)[4])
    _replace_number(sockets / ".s.PGSQL.5432.lock", pid)
    _replace_number(hub.data / "redis/data/redis.pid", pid)


def _replace_number(noted: Path, pid: int) -> list[str]:
    """Put this number in the place of the one that is noted; the lines of the file."""
    _, *lines = noted.read_text().split("\n")
    noted.write_text("\n".join([str(pid), *lines]))
    return [str(pid), *lines]


@contextmanager
def bystander() -> Iterator[tuple[int, int]]:
    """A process of the account that runs the services, but none of ours: its pid and start."""
    arguments = choose_account().popen_arguments()
    with subprocess.Popen(["sleep", "600"], cwd="/", **arguments) as process:
        try:
            found = read_process(process.pid)
            assert found is not None
            yield process.pid, found.start_ticks
            assert process.poll() is None, "it was left alone"
        finally:
            process.kill()
            process.wait(timeout=PATIENCE)
