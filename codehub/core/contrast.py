"""What differs between two spec sets, whatever a hub made of either.

Unlike a plan it knows no hub: no phases, no people at work, no deletions that wait. A renamed
workspace is found by the rule that the loader has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final
from uuid import UUID

from codehub.core.admit import admit, start_state
from codehub.core.compare import compare_declarations, compare_hubs, compare_users, ttl_text
from codehub.model.plan import Action, Change, FieldChange, Kind
from codehub.model.revision import HubState
from codehub.model.workspace import Intent, Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codehub.model.admission import Admission
    from codehub.model.people import TtlPolicy
    from codehub.model.revision import SpecSet

_ORDER: Final = {kind: place for place, kind in enumerate(Kind)}


def contrast(old: SpecSet, new: SpecSet) -> tuple[Change, ...]:
    """What one would have to change in the old specs to get the new ones, by kind and name."""
    changes = [*_workspaces(old, new), *_policies(old, new), *_users(old, new), *_hub(old, new)]
    return tuple(sorted(changes, key=lambda each: (_ORDER[each.kind], each.name)))


def _workspaces(old: SpecSet, new: SpecSet) -> Iterator[Change]:
    rows = (
        Workspace(UUID(int=number), each, Intent(start_state(each)))
        for number, each in enumerate(old.workspaces.values())
    )
    for admission in admit(HubState(workspaces=tuple(rows)), new):
        if admission.action is not Action.NONE:
            yield _workspace(admission)


def _workspace(admission: Admission) -> Change:
    declaration, row = admission.declaration, admission.existing
    if declaration is None:
        return Change(Kind.WORKSPACE, admission.name, Action.DELETE)
    fields = compare_declarations(row.declaration if row else None, declaration)
    action = admission.action
    return Change(Kind.WORKSPACE, admission.name, action, declaration.source, fields)


def _policies(old: SpecSet, new: SpecSet) -> Iterator[Change]:
    for name, policy in new.policies.items():
        before, after = _values(old.policies.get(name)), _values(policy)
        if before != after:
            action = Action.CREATE if before is None else Action.UPDATE
            field = FieldChange("ttl", before, after)
            yield Change(Kind.TTL_POLICY, name, action, policy.source, (field,))
    for name in old.policies.keys() - new.policies.keys():
        yield Change(Kind.TTL_POLICY, name, Action.DELETE)


def _values(policy: TtlPolicy | None) -> str | None:
    return ttl_text(replace(policy.ttl, policy=None)) if policy else None


def _users(old: SpecSet, new: SpecSet) -> Iterator[Change]:
    for name, user in new.users.items():
        before = old.users.get(name)
        fields = compare_users(before, user)
        if before is None or fields:
            action = Action.CREATE if before is None else Action.UPDATE
            yield Change(Kind.USER, name, action, user.source, fields)
    for name in old.users.keys() - new.users.keys():
        yield Change(Kind.USER, name, Action.DELETE)


def _hub(old: SpecSet, new: SpecSet) -> Iterator[Change]:
    fields = compare_hubs(old.hub, new.hub)
    if fields:
        source = new.hub.source if new.hub.source.file else None
        yield Change(Kind.HUB, new.hub.name, Action.UPDATE, source, fields)
