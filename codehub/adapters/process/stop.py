"""Ending all processes of a workspace: ask, wait, kill, and look again until there is nothing.

A signal goes through a pidfd to a process whose start time was checked after the pidfd was
opened, so a recycled pid is never hit. Looking again catches what was forked while we signalled.
The last look is under the root's lock, where nobody starts, and only then the record goes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codehub.adapters.process import spawn
from codehub.adapters.process.find import read_process
from codehub.errors import ActionFailed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from codehub.adapters.process.find import Process
    from codehub.adapters.process.site import Site

KILL_SECONDS: Final = 30.0
"""Longer than this, only a process that waits for a dead disk outlives SIGKILL."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25


async def stop(site: Site, workspace_id: UUID, grace: float) -> None:
    """End every process of the workspace, then remove its record; absent is fine."""
    await end(site, workspace_id, grace)
    while not await site.act(_remove, site, workspace_id):
        await end(site, workspace_id, 0)


async def end(site: Site, workspace_id: UUID, grace: float) -> None:
    """SIGTERM, grace, SIGKILL; returns when no process of the workspace is left."""
    asked: set[tuple[int, int]] = set()
    deadline = time.monotonic() + grace
    while members := await site.act(site.members, workspace_id):
        if time.monotonic() >= deadline:
            await _kill(site, workspace_id)
            return
        new = [each for each in members if (each.pid, each.start_ticks) not in asked]
        for each in new:
            # A stopped process reads its SIGTERM only after a SIGCONT.
            send(each, signal.SIGTERM, signal.SIGCONT)
        asked.update((each.pid, each.start_ticks) for each in new)
        await _wait(members, deadline)


async def _kill(site: Site, workspace_id: UUID) -> None:
    deadline = time.monotonic() + KILL_SECONDS
    while members := await site.act(site.members, workspace_id):
        if time.monotonic() >= deadline:
            pids = ", ".join(str(each.pid) for each in members)
            raise ActionFailed(
                f"processes that cannot be killed: {pids}",
                hint="another user's, or waiting for a disk or network drive that is gone",
            )
        for each in members:
            send(each, signal.SIGKILL)
        await _wait(members, min(deadline, time.monotonic() + 1))


async def _wait(processes: Iterable[Process], deadline: float) -> None:
    """Until these have ended, or the deadline."""
    pause = _FIRST_PAUSE
    while any(_lives(each) for each in processes) and time.monotonic() < deadline:
        await asyncio.sleep(max(0.0, min(pause, deadline - time.monotonic())))
        pause = min(pause * 1.5, _LONGEST_PAUSE)


def send(process: Process, *signals: signal.Signals) -> None:
    """Signal exactly this process; gone or another user's is found out by looking again."""
    with suppress(ProcessLookupError, PermissionError):
        handle = _open(process.pid)
        try:
            if not _lives(process):
                return
            for each in signals:
                _send(handle, process.pid, each)
        finally:
            if handle is not None:
                os.close(handle)


def _open(pid: int) -> int | None:
    """A pidfd; None on a kernel that has none, where the check of the start time must do."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):
        return None


def _send(handle: int | None, pid: int, signum: signal.Signals) -> None:
    if handle is None:
        os.kill(pid, signum)
    else:
        signal.pidfd_send_signal(handle, signum)


def _lives(process: Process) -> bool:
    now = read_process(process.pid)
    return now is not None and now.alive and now.start_ticks == process.start_ticks


def _remove(site: Site, workspace_id: UUID) -> bool:
    with site.root.locked():
        if site.members(workspace_id):
            return False
        record = site.records.read(workspace_id)
        site.records.remove(workspace_id)
    spawn.forget_exit(record.leader if record else None)
    return True
