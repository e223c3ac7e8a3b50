"""What a change of status says to people: the events that go into the audit with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codehub.model.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codehub.model.workspace import Status

_GIVEN_UP: Final = "its volume was not there; should it come back, it is kept"
_FOUND: Final = "the home that was given up is there again: it is kept, and not used"
_STRAY: Final = "it is no home any more, and nothing refers to it"


@dataclass(frozen=True, slots=True)
class Change:
    """One line of the audit before it has an id and a time."""

    kind: EventKind
    old: str
    new: str
    reason: str = ""


def audit(before: Status, after: Status, why: str) -> tuple[Change, ...]:
    """The events of one write, in the order in which people think of them."""
    return (
        *_operation(before, after, why),
        *_error(before, after),
        *_homes(before, after),
        *_phase(before, after, why),
    )


def stray_removed(volume: str) -> Change:
    """Nothing of the status changes with a volume that belonged to nothing, so this tells of it."""
    return Change(EventKind.STRAY, volume, "removed", _STRAY)


def _operation(before: Status, after: Status, why: str) -> Iterator[Change]:
    if before.operation is not after.operation:
        yield Change(EventKind.OPERATION, before.operation.value, after.operation.value, why)


def _error(before: Status, after: Status) -> Iterator[Change]:
    """Every counted failure is told; that nobody answers is told once, not at every try."""
    told = (before.error_reason, before.error_message, before.error_count)
    if after.error_reason is None or told == (
        after.error_reason,
        after.error_message,
        after.error_count,
    ):
        return
    old = before.error_reason.value if before.error_reason else ""
    yield Change(EventKind.ERROR, old, after.error_reason.value, after.error_message or "")


def _homes(before: Status, after: Status) -> Iterator[Change]:
    """Of homes that were given up while nobody found them: nothing else tells which they were."""
    old, new = before.home_ctx, after.home_ctx
    for name in new.given_up:
        if name not in old.given_up:
            yield Change(EventKind.RECOVER, name, "given up", _GIVEN_UP)
        if name in new.found and name not in old.found:
            yield Change(EventKind.RECOVER, "", name, _FOUND)


def _phase(before: Status, after: Status, why: str) -> Iterator[Change]:
    if before.phase is not after.phase:
        yield Change(EventKind.PHASE, before.phase.value, after.phase.value, why)
