"""Catching a hub in the middle of something: a start that waits, a storage job that stands still.

What workspaces write about themselves goes outside of their homes, so that those can be compared.
"""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from codehub.model.states import DesiredState
from tests.end_to_end.hub import until
from tests.end_to_end.tree import Found, processes_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.hub import Hub

NEVER = "ttl: {standby: never, archive: never}"
STEP = 0.003


def gate(hub: Hub) -> Path:
    """While this file is missing, a start of a gated workspace does not come to its end."""
    return hub.directory / "gate"


def starts(hub: Hub) -> list[str]:
    """The pid of every process that was ever started for a gated workspace."""
    noted = hub.directory / "starts"
    return noted.read_text().split() if noted.exists() else []


def gated(hub: Hub) -> str:
    """The command of one."""
    wait = f"until [ -e {gate(hub)} ]; do sleep 0.05; done"
    note = f"echo $$ >> {hub.directory / 'starts'}"
    return f"command: [sh, -c, '{note}; {wait}; exec python -P -m codehub.demo']"


def until_starting(hub: Hub, name: str) -> None:
    """Until its command runs, and the hub waits for its port."""

    def waits() -> bool:
        claimed = hub.rows()[name].operation == "STARTING"
        return claimed and any(str(pid) in starts(hub) for pid in leaders(hub))

    until(waits, "a start under way")


def halt_archive(hub: Hub, name: str) -> Found | None:
    """Ask for an archive, and hold its job when it has begun to write."""
    hub.want(name, DesiredState.ARCHIVED)
    partial = "archives/*/*/*/*/.*.partial"
    return _halt(hub, "archive", lambda: any(hub.data.glob(partial)))


def halt_restore(hub: Hub, name: str) -> Found | None:
    """Ask for the home, and hold the job when some of it is there."""
    hub.want(name, DesiredState.STANDBY)
    until(lambda: hub.rows()[name].operation == "RESTORING", "a restore")
    home = hub.home(name)
    return _halt(hub, "restore", lambda: any(home.iterdir()))


def _halt(hub: Hub, verb: str, has_begun: Callable[[], bool]) -> Found | None:
    """Let a job run in small steps until it has moved some of the data, and stop it there.

    Should it have come to its end within a step, then that is the moment, and there is no job.
    """

    def job() -> Found | None:
        found = processes_of(hub.data, lambda each: f"codehub.jobs {verb}" in each.command)
        return found[0] if found else None

    found: Found | None = until(job, f"a job that is to {verb}")
    while found and not has_begun():
        with suppress(ProcessLookupError):
            os.kill(found.pid, signal.SIGCONT)
            time.sleep(STEP)
            os.kill(found.pid, signal.SIGSTOP)
        found = job()
    print(f"{verb}: {'held in its middle' if found else 'had come to its end'}")  # noqa: T201
    return found


def leaders(hub: Hub) -> set[int]:
    """The first process of each workspace that runs."""
    records = (hub.data / "workspaces" / "records").glob("*.json")
    found = [json.loads(each.read_text())["leader"] for each in records]
    return {leader[0] for leader in found if leader}
