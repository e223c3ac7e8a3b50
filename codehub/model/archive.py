"""An archive of a home: where it lies, whose it is, and what its commit marker says of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

ARCHIVE_FORMAT: Final = "tar.zst/1"
"""A POSIX tar as GNU tar writes it, members in strict path order, in one zstd stream."""


class Fidelity(StrEnum):
    """How much of the home the archive keeps."""

    FULL = "full"
    """Everything but sockets and devices, as GNU tar reads it from the volume's directory."""
    COPY = "copy"
    """All that an engine's copy calls give: no extended attributes (nor access lists), times in
    whole seconds, holes filled, and sockets left out without being counted."""


@dataclass(frozen=True, slots=True)
class ArchiveKey:
    """The name of one attempt to archive; no two jobs ever write under one.

    `attempt` is new for every start of a job: small letters, digits and hyphens.
    """

    hub_id: UUID
    workspace_id: UUID
    op_id: UUID
    attempt: str


@dataclass(frozen=True, slots=True)
class ArchiveSubject:
    """Whose home is archived: kept beside it, so that a lost database can be rebuilt."""

    workspace_name: str
    owner: str
    generation: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ArchiveMeta:
    """The commit marker: an archive exists when this lies beside it.

    `sha256` and `bytes` are those of the stored object, `unpacked_bytes` is the length of the tar
    stream within, `entries` its members. `skipped` counts the sockets and devices left out.
    """

    key: str
    sha256: str
    bytes: int
    unpacked_bytes: int
    entries: int
    skipped: int
    hub: UUID
    workspace_id: UUID
    workspace_name: str
    owner: str
    generation: int
    created_at: datetime
    format: str = ARCHIVE_FORMAT
    fidelity: Fidelity = Fidelity.FULL
