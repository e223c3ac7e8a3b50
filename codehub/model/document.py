"""A document on its way from a file to a value: read, then checked by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codehub.model.problem import Fault
    from codehub.model.spec import Document
    from codehub.model.workspace import Source


@dataclass(frozen=True, slots=True)
class Written:
    """One document as somebody wrote it.

    `data` is plain data, `source` the place where it starts, `number` its place among the
    documents of its file. `document` is what it says, None where it has `faults`.
    """

    data: Mapping[str, object]
    source: Source
    number: int = 0
    document: Document | None = None
    faults: tuple[Fault, ...] = ()

    @property
    def kind(self) -> str | None:
        kind = self.data.get("kind")
        return kind if isinstance(kind, str) else None

    @property
    def name(self) -> str | None:
        """Its name as far as it has one, also where the rest of it is wrong."""
        metadata = self.data.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        return name if isinstance(name, str) else None
