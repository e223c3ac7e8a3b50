"""Sorting admissions into what the loader has to write, so that what is not listed is not written.

Pure, and apart from the SQL, because "a no-op writes nothing" is decided here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from codehub.model.admission import Admission
    from codehub.model.workspace import Declaration, Workspace


@dataclass(frozen=True, slots=True)
class Writes:
    """What is to be written, by statement; an admission may stand in several lists.

    `created` are new rows, `updated` rows whose declaration, place or orphan mark differs,
    `undeleted` those of them that were deleted, `orphaned` rows to mark, `moved` and `pruned` rows
    whose desired state changes, up or down and to DELETED.
    """

    created: tuple[Admission, ...]
    updated: tuple[Admission, ...]
    undeleted: tuple[Admission, ...]
    orphaned: tuple[Admission, ...]
    moved: tuple[Admission, ...]
    pruned: tuple[Admission, ...]

    @property
    def empty(self) -> bool:
        return not (self.created or self.ids)

    @property
    def ids(self) -> list[UUID]:
        """The rows that exist and will be written."""
        groups = (self.updated, self.undeleted, self.orphaned, self.moved, self.pruned)
        found = {one.existing.id for group in groups for one in group if one.existing}
        return sorted(found)

    @property
    def renamed(self) -> list[UUID]:
        return [
            one.existing.id
            for one in self.updated
            if one.existing and one.declaration and one.existing.name != one.declaration.name
        ]

    @property
    def summary(self) -> Mapping[str, int]:
        """How many workspaces each action touches; those that only moved in the files are none."""
        touched = (
            *self.created,
            *self.undeleted,
            *self.orphaned,
            *self.pruned,
            *(one for one in self.updated if one.changed and one not in self.undeleted),
        )
        return dict(sorted(Counter(one.action.value for one in touched).items()))


def sort_admissions(admissions: Iterable[Admission]) -> Writes:
    """Put every admission where its writes belong; one that changes nothing is in no list."""
    every = tuple(admissions)
    known = [(one, one.existing) for one in every if one.existing is not None]
    return Writes(
        created=tuple(one for one in every if one.existing is None),
        updated=tuple(one for one, row in known if _rewritten(one, row)),
        undeleted=tuple(one for one, row in known if one.declaration and row.status.deleted_at),
        orphaned=tuple(one for one, row in known if one.orphaned and not row.orphaned),
        moved=tuple(one for one, row in known if one.declaration and _moved(one, row)),
        pruned=tuple(one for one, row in known if not one.declaration and _moved(one, row)),
    )


def _rewritten(one: Admission, row: Workspace) -> bool:
    if one.declaration is None:
        return False
    moved = _place(one.declaration) != _place(row.declaration)
    return one.changed or moved or row.orphaned != one.orphaned


def _place(declaration: Declaration) -> tuple[object, ...]:
    """What is kept for people only: where it is written, and the name its TTL goes by."""
    return (declaration.source, declaration.ttl.policy)


def _moved(one: Admission, row: Workspace) -> bool:
    return one.desired is not None and one.desired is not row.intent.desired
