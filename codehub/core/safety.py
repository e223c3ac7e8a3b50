"""When a plan needs `--force`: what a slip of the keyboard in git could cost people.

Stopping counts whether it happens at once or as soon as people pause: a commit that lowers
everything does not become harmless because everybody is at work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.core.admit import leaving
from codehub.model.plan import Action

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codehub.model.admission import Admission
    from codehub.model.plan import Change
    from codehub.model.workspace import Workspace

SHARE: Final = 0.3
"""More than this part of all workspaces deleted or stopped at once is unsafe …"""

FROM: Final = 3
"""… from this many on: below, a small hub could change nothing without force."""


def judge_safety(
    workspaces: Sequence[Workspace], admissions: Iterable[Admission], changes: Iterable[Change]
) -> tuple[str, ...]:
    """Every reason why applying is unsafe, a sentence each; empty when it is not.

    `workspaces` are all that the hub holds, `changes` what would happen to some of them.
    """
    present = sum(not leaving(each) for each in workspaces)
    listed = tuple(changes)
    deleted = [each.name for each in listed if each.action is Action.DELETE]
    stopping = (each for each in listed if each.stops_now or each.stops_later)
    stopped = [each.name for each in stopping if each.action is not Action.DELETE]
    by_name = sorted(admissions, key=lambda each: each.name)
    return (*_too_many(present, deleted, stopped), *_protected(by_name), *_owners(by_name))


def _too_many(present: int, deleted: Sequence[str], stopped: Sequence[str]) -> Iterator[str]:
    if present and len(deleted) == present:
        all_of_them = "the only workspace" if present == 1 else f"all {present} workspaces"
        yield f"{all_of_them} of the hub would be deleted"
        return
    touched = len(deleted) + len(stopped)
    if touched >= FROM and touched > SHARE * present:
        yield (
            f"{touched} of {present} workspaces would be deleted or stopped "
            f"({len(deleted)} deleted, {len(stopped)} stopped), more than {SHARE:.0%}"
        )


def _protected(admissions: Iterable[Admission]) -> Iterator[str]:
    for each in admissions:
        row = each.existing
        if each.action is Action.DELETE and row is not None and row.declaration.protect:
            yield f"{each.name} is protected in the hub and would be deleted"


def _owners(admissions: Iterable[Admission]) -> Iterator[str]:
    for each in admissions:
        if each.existing is None or each.declaration is None:
            continue
        old, new = each.existing.declaration.owner, each.declaration.owner
        if old != new:
            yield f"{each.name} would change its owner from {old} to {new}"
