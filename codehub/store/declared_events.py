"""The audit of a load: one event for each declaration that came, changed or went.

Old and new are declared states, nothing where there was or is no declaration; the reason names the
fields, never their values, since some are secret. What moved in the files only is no event.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Final

from codehub.model.events import EventKind
from codehub.model.states import IntentSource, Phase
from codehub.model.workspace import Declaration
from codehub.store.events import entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from uuid import UUID

    from codehub.model.admission import Admission
    from codehub.store.sort import Writes

_SPOKEN: Final = tuple(
    field.name for field in fields(Declaration) if field.name not in ("source", "renamed_from")
)


def audit(
    writes: Writes, created: Mapping[str, UUID], phases: Mapping[UUID, str], by: str
) -> Iterator[dict[str, str]]:
    """The events of a load, ready to append; `phases` are those of undeleted rows."""
    for one in writes.created:
        yield from _created(one, created[one.name], by)
    for one in writes.updated:
        if one.existing and one.existing.id not in phases and _counts(one):
            yield _declared(one, by)
    for one in writes.undeleted:
        yield from _undeleted(one, phases, by)
    for one in (*writes.orphaned, *writes.pruned):
        yield _declared(one, by)


def _counts(one: Admission) -> bool:
    return one.changed or (one.existing is not None and one.existing.orphaned != one.orphaned)


def _created(one: Admission, workspace_id: UUID, by: str) -> Iterator[dict[str, str]]:
    declared = one.declaration.declared_state.value if one.declaration else ""
    for kind, new in ((EventKind.DECLARED, declared), (EventKind.DESIRED, one.desired or "")):
        yield _event(workspace_id, one.name, kind, "", new, by, one.reason)


def _declared(one: Admission, by: str) -> dict[str, str]:
    row = one.existing
    assert row is not None
    # An orphan has lost its declaration already; one that is deleted loses it now.
    old = "" if row.orphaned else row.declaration.declared_state.value
    new = one.declaration.declared_state.value if one.declaration else ""
    return _event(row.id, one.name, EventKind.DECLARED, old, new, by, _reason(one))


def _undeleted(one: Admission, phases: Mapping[UUID, str], by: str) -> Iterator[dict[str, str]]:
    assert one.existing is not None
    assert one.declaration is not None
    key, new = one.existing.id, one.declaration.declared_state.value
    yield _event(key, one.name, EventKind.DECLARED, "", new, by, one.reason)
    yield _event(key, one.name, EventKind.PHASE, Phase.DELETED.value, phases[key], by, one.reason)


def _reason(one: Admission) -> str:
    if one.existing is None or one.declaration is None:
        return one.reason
    old, new = one.existing.declaration, one.declaration
    changed = ", ".join(name for name in _SPOKEN if getattr(old, name) != getattr(new, name))
    return f"{one.reason}: {changed}" if changed and one.reason else one.reason or changed


def _event(
    workspace_id: UUID, name: str, kind: EventKind, old: str, new: str, by: str, reason: str
) -> dict[str, str]:
    source = IntentSource.SPEC.value
    return entry(workspace_id, name, kind, old=old, new=new, source=source, by=by, reason=reason)
