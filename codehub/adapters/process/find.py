"""One look at /proc: which processes belong to which workspace.

A process belongs to a workspace when it is the recorded leader (pid, start time and boot: a
recycled pid is somebody else), is in the leader's session, carries the marker in its environment,
or descends from one that does. So children that left the group are found, and those that overwrote
their environment (setproctitle) or cleared it.

A dead leader's session is still its own while anybody is in it: Linux gives no number to a new
process that a session bears. Once it was seen empty, the number may come to mean strangers. What
cleared its environment, began a session of its own and outlived its leader is beyond this look;
`occupants` finds it by the home that it uses.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

from codehub.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codehub.adapters.process.records import Leader, Record

MARKER: Final = "CODEHUB_PROCESS"
_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Mark:
    """What the marker in an environment says: a process of this start of this workspace."""

    workspace_id: UUID
    op_id: UUID

    def text(self, hub_id: str) -> str:
        return f"{hub_id}/{self.workspace_id}/{self.op_id}"


@dataclass(frozen=True, slots=True)
class Process:
    """A process as /proc/{pid}/stat shows it. `cpu_ticks` includes children it has waited for."""

    pid: int
    parent: int
    session: int
    start_ticks: int
    cpu_ticks: int
    resident_pages: int
    alive: bool
    mark: Mark | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Everything that ran at one moment; this process itself is `me` and belongs to nobody."""

    boot_id: str
    processes: Mapping[int, Process]
    me: Process | None = None

    def leader(self, record: Record | None) -> Process | None:
        """The process that the record names, if it is that one and lives."""
        leader = record and record.leader
        if not leader or leader.boot_id != self.boot_id:
            return None
        found = self.processes.get(leader.pid)
        return found if found and found.alive and found.start_ticks == leader.start_ticks else None

    def members(self, workspace_id: UUID, record: Record | None) -> tuple[Process, ...]:
        """Every living process of this workspace."""
        leader = self.leader(record)
        family = {each.pid for each in self.session(record)}
        family |= {
            each.pid
            for each in self.processes.values()
            if each.mark and each.mark.workspace_id == workspace_id
        }
        family |= {leader.pid} if leader else set()
        everyone = self._with_descendants(family, workspace_id)
        return tuple(each for pid in sorted(everyone) if (each := self.processes[pid]).alive)

    def session(self, record: Record | None) -> tuple[Process, ...]:
        """Who lives in the session that the recorded leader began, even if that one has ended."""
        leader = record and record.leader
        if not record or not leader or record.deserted or not self._is_from_here(leader):
            return ()
        now = self._at(leader.pid)
        if now and now.start_ticks != leader.start_ticks:
            return ()
        members = (each for each in self.processes.values() if each.session == leader.pid)
        return tuple(each for each in members if each.alive)

    def marked(self) -> dict[UUID, Mark]:
        """Workspaces of which a marked process lives, each with one of its marks."""
        living = (each.mark for each in self.processes.values() if each.alive and each.mark)
        return {mark.workspace_id: mark for mark in living}

    def _is_from_here(self, leader: Leader) -> bool:
        """A container that started anew counts its pids anew, within one boot of the machine."""
        first = self._at(1)
        return leader.boot_id == self.boot_id and (
            first is None or first.start_ticks <= leader.start_ticks
        )

    def _at(self, pid: int) -> Process | None:
        return self.me if self.me and self.me.pid == pid else self.processes.get(pid)

    def _with_descendants(self, family: set[int], workspace_id: UUID) -> set[int]:
        children: dict[int, list[Process]] = {}
        for each in self.processes.values():
            children.setdefault(each.parent, []).append(each)
        everyone, todo = set(family), list(family)
        while todo:
            for child in children.get(todo.pop(), ()):
                foreign = child.mark is not None and child.mark.workspace_id != workspace_id
                if child.pid not in everyone and not foreign:
                    everyone.add(child.pid)
                    todo.append(child.pid)
        return everyone


def scan(hub_id: str) -> Table:
    """Look once at every process; Unreachable where /proc does not show this machine's."""
    try:
        if int((_PROC / "self").readlink().name) != os.getpid():
            raise Unreachable("/proc shows the processes of another container")
        pids = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]
        boot_id = read_boot_id()
    except OSError as error:
        raise Unreachable(f"the list of processes cannot be read: {error.strerror}") from error
    seen = (_look(pid, hub_id) for pid in pids if pid != os.getpid())
    return Table(boot_id, {each.pid: each for each in seen if each}, read_process(os.getpid()))


def read_boot_id() -> str:
    """Another value after every boot of the machine."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def read_process(pid: int) -> Process | None:
    """One process, without its mark; None when there is none."""
    try:
        content = (_PROC / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name is in parentheses and may itself hold spaces and parentheses.
    fields = content[content.rindex(b")") + 2 :].split()
    return Process(
        pid=pid,
        parent=int(fields[1]),
        session=int(fields[3]),
        start_ticks=int(fields[19]),
        cpu_ticks=sum(int(each) for each in fields[11:15]),
        resident_pages=int(fields[21]),
        # A main thread that ended before the others looks like a zombie and is none.
        alive=fields[0] not in (b"Z", b"X", b"x") or int(fields[17]) > 1,
    )


def is_alive(leader: Leader | None) -> bool:
    """Whether exactly this process lives; cheap, for waiting on one."""
    if leader is None or leader.boot_id != read_boot_id():
        return False
    found = read_process(leader.pid)
    return found is not None and found.alive and found.start_ticks == leader.start_ticks


def read_mark(pid: int, hub_id: str) -> Mark | None:
    """This hub's marker in the environment that the process was started with."""
    try:
        content = b"\0" + (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None  # Gone meanwhile, or another user's.
    before, found, after = content.partition(f"\0{MARKER}={hub_id}/".encode())
    del before
    parts = after.split(b"\0", 1)[0].decode(errors="replace").split("/")
    if not found or len(parts) != 2:
        return None
    try:
        return Mark(UUID(parts[0]), UUID(parts[1]))
    except ValueError:
        return None


def _look(pid: int, hub_id: str) -> Process | None:
    process = read_process(pid)
    mark = read_mark(pid, hub_id) if process else None
    if process is None or mark is None:
        return process
    # The pid may have changed hands between the two reads.
    again = read_process(pid)
    same = again is not None and again.start_ticks == process.start_ticks
    return replace(process, mark=mark) if same else None
