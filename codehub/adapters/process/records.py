"""What was started, one small durable file for each workspace.

A record is written before a process is spawned and again with its pid before the process may run
the command, so a crash between any two lines leaves something that can be found and cleaned up. It
holds no environment: secrets stay out of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from codehub.adapters.process.durable import remove_durably, write_durably

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Leader:
    """A process, told apart from every other one that ever had or will have its pid."""

    pid: int
    start_ticks: int
    boot_id: str


@dataclass(frozen=True, slots=True)
class Record:
    """One start. `token` tells this attempt from another one of the same operation.

    `exited`: the leader has ended. `deserted`: and nobody of its session was left then, so whoever
    has that number later is a stranger.
    """

    workspace_id: UUID
    op_id: UUID
    token: str
    template_digest: str
    volume: str
    port: int
    started_at: datetime
    leader: Leader | None = None
    exited: bool = False
    exit_code: int | None = None
    deserted: bool = False

    def to_json(self) -> bytes:
        leader = self.leader and [self.leader.pid, self.leader.start_ticks, self.leader.boot_id]
        fields = {
            "workspace": str(self.workspace_id),
            "op_id": str(self.op_id),
            "token": self.token,
            "template_digest": self.template_digest,
            "volume": self.volume,
            "port": self.port,
            "started_at": self.started_at.isoformat(),
            "leader": leader,
            "exited": self.exited,
            "exit_code": self.exit_code,
            "deserted": self.deserted,
        }
        return json.dumps(fields, indent=1).encode()

    @classmethod
    def from_json(cls, content: bytes) -> Record:
        """Raises ValueError, LookupError or TypeError for what is not a record."""
        fields: dict[str, Any] = json.loads(content)
        leader = fields["leader"]
        return cls(
            workspace_id=UUID(fields["workspace"]),
            op_id=UUID(fields["op_id"]),
            token=str(fields["token"]),
            template_digest=str(fields["template_digest"]),
            volume=str(fields["volume"]),
            port=int(fields["port"]),
            started_at=datetime.fromisoformat(fields["started_at"]),
            leader=Leader(int(leader[0]), int(leader[1]), str(leader[2])) if leader else None,
            exited=bool(fields["exited"]),
            exit_code=None if fields["exit_code"] is None else int(fields["exit_code"]),
            deserted=bool(fields.get("deserted")),
        )


class Records:
    """The directory of records. Changes are made under the root's lock."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, workspace_id: UUID) -> Path:
        return self.directory / f"{workspace_id}.json"

    def exists(self, workspace_id: UUID) -> bool:
        return self.path(workspace_id).exists()

    def read(self, workspace_id: UUID) -> Record | None:
        """The record; None when there is none or when its content is damaged."""
        try:
            content = self.path(workspace_id).read_bytes()
        except FileNotFoundError:
            return None
        try:
            return Record.from_json(content)
        except (ValueError, LookupError, TypeError):
            return None

    def read_all(self) -> dict[UUID, Record | None]:
        """All records; None for a damaged one, so that one poisoned workspace hides no other."""
        ids = (_workspace(path) for path in self.directory.iterdir())
        found = {each: self.read(each) for each in ids if each}
        return {each: record for each, record in found.items() if record or self.exists(each)}

    def write(self, record: Record) -> None:
        write_durably(self.path(record.workspace_id), record.to_json())

    def remove(self, workspace_id: UUID) -> None:
        """Absent is fine."""
        remove_durably(self.path(workspace_id))


def _workspace(path: Path) -> UUID | None:
    if path.suffix != ".json" or path.name.startswith("."):
        return None
    try:
        return UUID(path.stem)
    except ValueError:
        return None
