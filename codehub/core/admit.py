"""Who decides the state when specs arrive: one answer, which the plan shows and the loader writes.

Git declares a ceiling. Below it the hub moves freely, so a new revision touches a workspace's
desired state only where the table says so:

    new                              desired := declared (at most STANDBY with `startOn: visit`)
    declared raised                  the same, but never below what is desired now
    declared lowered                 desired untouched: the target falls by itself
    any other field                  desired untouched
    removed, `prune: true`           desired := DELETED
    removed, `prune: false`          kept as it is, marked an orphan
    put back, same owner             undeleted, desired as for a new one
    put back, another owner          a new, empty workspace
    `renamedFrom`                    the row keeps its identity and its home
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from codehub.core.suggest import did_you_mean
from codehub.model.admission import Admission
from codehub.model.plan import Action
from codehub.model.problem import Place, Problem, in_order
from codehub.model.states import LEVELS, DesiredState, Operation, Phase, lower
from codehub.model.workspace import StartOn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codehub.model.revision import HubState, SpecSet
    from codehub.model.workspace import Declaration, Runtime, Workspace

_TEMPLATE: Final = attrgetter(
    "runtime", "image", "command", "env", "secret_env", "port", "resources"
)

# All that counts as a change. Not among it: where it is written, the name a TTL has (its values
# count), and `renamedFrom`, which says how to find the row and nothing about the workspace.
_MEANING: Final = attrgetter(
    *("name", "owner", "runtime", "description", "memo", "labels", "image", "command", "env"),
    *("secret_env", "port", "path_prefix", "inject", "resources", "declared_state", "start_on"),
    *("wake_from", "ttl.standby", "ttl.archive", "ttl.activity", "ttl.busy_cpu", "update"),
    *("pinned", "suspend", "protect"),
)

RUNTIME_MAY_CHANGE: Final = frozenset({Phase.ARCHIVED, Phase.PENDING, Phase.DELETED})
"""Phases in which nothing of a workspace lives in its runtime."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """The stored workspaces by name: those that live, and those that were deleted (newest)."""

    live: Mapping[str, Workspace]
    deleted: Mapping[str, Workspace]


def admit(stored: HubState, incoming: SpecSet) -> tuple[Admission, ...]:
    """What loading `incoming` would do to each workspace, those it declares first."""
    rows = _rows(stored.workspaces)
    renames = _renames(rows, incoming)
    matched = {name: _find_row(rows, one, renames) for name, one in incoming.workspaces.items()}
    declared = [_declared(one, matched[name]) for name, one in incoming.workspaces.items()]
    kept = {row.id for row in matched.values() if row is not None}
    gone = [row for row in rows.live.values() if row.id not in kept and not leaving(row)]
    return (*declared, *(_removed(row, prune=incoming.hub.prune) for row in gone))


def start_state(declaration: Declaration) -> DesiredState:
    """What is desired of a workspace that nobody has asked for anything else."""
    if declaration.start_on is StartOn.VISIT:
        return lower(declaration.declared_state, DesiredState.STANDBY)
    return declaration.declared_state


def leaving(row: Workspace) -> bool:
    """Whether it is deleted or on the way there."""
    return row.intent.desired is DesiredState.DELETED or row.status.deleted_at is not None


def _rows(workspaces: Iterable[Workspace]) -> _Rows:
    live: dict[str, Workspace] = {}
    deleted: dict[str, Workspace] = {}
    for row in workspaces:
        if row.status.deleted_at is None:
            live[row.name] = row
        elif row.status.purged_at is None:
            earlier = deleted.get(row.name)
            if earlier is None or _deleted_at(earlier) <= _deleted_at(row):
                deleted[row.name] = row
    return _Rows(live, deleted)


def _deleted_at(row: Workspace) -> float:
    return row.status.deleted_at.timestamp() if row.status.deleted_at else 0.0


def _find_row(
    rows: _Rows, declaration: Declaration, renames: Mapping[str, str]
) -> Workspace | None:
    """The row that a declaration means, or None for a new workspace.

    What has been deleted, or is being deleted, belongs to its owner: under another one the
    declaration means a new workspace.
    """
    name = renames.get(declaration.name, declaration.name)
    row = rows.live.get(name) or rows.deleted.get(name)
    if row is not None and (not leaving(row) or row.declaration.owner == declaration.owner):
        return row
    return None


def _renames(rows: _Rows, incoming: SpecSet) -> dict[str, str]:
    """The old name of each workspace that this revision renames.

    A spec keeps its `renamedFrom` after the fact: where the new name lives, it was followed
    before. Names may be passed on (a to b, b to c), beginning with one that is free.
    """
    renames: dict[str, str] = {}
    for declaration in incoming.workspaces.values():
        if declaration.renamed_from is not None and declaration.name not in rows.live:
            renames.update(_passed_on(declaration, rows, incoming))
    return renames


def _passed_on(first: Declaration, rows: _Rows, incoming: SpecSet) -> dict[str, str]:
    """The chain of renames that frees a name for `first`; empty when there is none."""
    chain: dict[str, str] = {}
    taker: Declaration | None = first
    while taker is not None:
        old = taker.renamed_from
        known = old is not None and (old in rows.live or old in rows.deleted)
        if old is None or not known or taker.name in chain:
            return {}
        chain[taker.name] = old
        taker = incoming.workspaces.get(old)
    return chain


def _declared(declaration: Declaration, row: Workspace | None) -> Admission:
    if row is None:
        return Admission(
            action=Action.CREATE,
            name=declaration.name,
            declaration=declaration,
            desired=start_state(declaration),
            changed=True,
            template_changed=True,
            reason="new in the specs",
        )
    changed = _MEANING(row.declaration) != _MEANING(declaration)
    template = changed and _TEMPLATE(row.declaration) != _TEMPLATE(declaration)
    action, desired, reason = _verdict(declaration, row, changed=changed)
    return Admission(
        action=action,
        name=declaration.name,
        existing=row,
        declaration=declaration,
        desired=desired,
        changed=changed,
        template_changed=template,
        reason=reason,
    )


def _verdict(
    declaration: Declaration, row: Workspace, *, changed: bool
) -> tuple[Action, DesiredState | None, str]:
    if leaving(row):
        return Action.UNDELETE, start_state(declaration), "put back by its owner"
    if row.orphaned:
        return Action.UPDATE, _raised(declaration, row), "declared again"
    if not changed:
        return Action.NONE, None, ""
    if row.name != declaration.name:
        return Action.UPDATE, _raised(declaration, row), f"renamed from {row.name}"
    desired = _raised(declaration, row)
    return Action.UPDATE, desired, "declared state raised" if desired else "spec changed"


def _raised(declaration: Declaration, row: Workspace) -> DesiredState | None:
    """The desired state that a raised ceiling brings; None where it brings none."""
    if LEVELS[declaration.declared_state] <= LEVELS[row.declaration.declared_state]:
        return None
    asked = start_state(declaration)
    return asked if LEVELS[asked] > LEVELS[row.intent.desired] else None


def _removed(row: Workspace, *, prune: bool) -> Admission:
    if prune:
        return Admission(
            action=Action.DELETE,
            name=row.name,
            existing=row,
            desired=DesiredState.DELETED,
            reason="removed from the specs",
        )
    reason = "removed from the specs, kept because the hub does not prune"
    return Admission(Action.ORPHAN, row.name, row, orphaned=True, reason=reason)


def refusals(
    stored: HubState, incoming: SpecSet, enabled: frozenset[Runtime]
) -> tuple[Problem, ...]:
    """Why this hub cannot hold these specs, though they are valid by themselves."""
    rows = _rows(stored.workspaces)
    renames = _renames(rows, incoming)
    problems: list[Problem] = []
    for one in incoming.workspaces.values():
        row = _find_row(rows, one, renames)
        if one.runtime not in enabled:
            problems.append(_not_enabled(one, enabled))
        if row is None and one.name in rows.live:
            problems.append(_still_leaving(one, rows.live[one.name]))
        if row is not None and row.declaration.runtime is not one.runtime:
            problems.extend(_runtime_moves(one, row))
        # A hub that holds nothing cannot know the old names.
        if one.renamed_from is not None and rows.live and one.name not in rows.live:
            problems.extend(_bad_rename(one, row, rows, incoming))
    return tuple(in_order(problems))


def _problem(declaration: Declaration, field: str, message: str) -> Problem:
    place = Place(declaration.source.file, declaration.source.line)
    return Problem(place, field, f"{declaration.name}: {message}")


def _not_enabled(declaration: Declaration, enabled: frozenset[Runtime]) -> Problem:
    known = ", ".join(sorted(enabled)) or "none"
    message = f"runtime {declaration.runtime} is not enabled on this hub (enabled: {known})"
    return _problem(declaration, "spec.runtime", message)


def _bad_rename(
    declaration: Declaration, row: Workspace | None, rows: _Rows, incoming: SpecSet
) -> Iterable[Problem]:
    old, field = declaration.renamed_from or "", "spec.renamedFrom"
    claims = sum(one.renamed_from == old for one in incoming.workspaces.values())
    if claims > 1:
        yield _problem(declaration, field, f'{claims} workspaces say that they were "{old}"')
    elif row is None and old in incoming.workspaces:
        place = incoming.workspaces[old].source
        yield _problem(declaration, field, f'"{old}" is still declared at {place}')
    elif row is None and old not in rows.live:
        hint = did_you_mean(old, sorted(rows.live))
        yield _problem(declaration, field, f'this hub knows no workspace "{old}"{hint}')


def _runtime_moves(declaration: Declaration, row: Workspace) -> Iterable[Problem]:
    settled = row.status.operation is Operation.NONE
    if settled and row.status.phase in RUNTIME_MAY_CHANGE:
        return
    busy = row.status.phase if settled else row.status.operation
    message = (
        f"runtime changes from {row.declaration.runtime} to {declaration.runtime} while it is "
        f"{busy}; archive it first: codehub archive {row.name}"
    )
    yield _problem(declaration, "spec.runtime", message)


def _still_leaving(declaration: Declaration, row: Workspace) -> Problem:
    message = (
        f"the workspace of this name that {row.declaration.owner} owned is still being deleted; "
        "apply again once it is gone"
    )
    return _problem(declaration, "spec.owner", message)
