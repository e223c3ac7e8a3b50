"""What the controller sees and does, told as metrics: from rows it reads anyway, never by asking.

A full pass reads the rows that changed. Of the others the phase is known from before, so the count
by phase is whole all the same.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from codehub.coordinator.rhythm import Look
from codehub.model.decision import Complete, Fail, Release, Retry
from codehub.model.states import DesiredState, Operation, Phase
from codehub.telemetry.instruments import (
    ARCHIVE_BYTES,
    ARCHIVE_FAILURES,
    ERRORS,
    EXITS,
    IN_FLIGHT,
    OPERATION_SECONDS,
    OPERATIONS,
    RECONCILE,
    RUNNING,
    WAITING,
    WAKE_SECONDS,
    WORKSPACES,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from datetime import datetime
    from uuid import UUID

    from codehub.model.decision import Decision
    from codehub.model.workspace import Status, Workspace

_HAS_PLACE: Final = frozenset({Operation.STARTING, Operation.STOPPING})
_DIRECTIONS: Final = {
    Operation.ARCHIVING: "archive",
    Operation.CREATE_EMPTY_ARCHIVE: "archive",
    Operation.RESTORING: "restore",
}


class Figures:
    """One term's. A wish from before the term is not timed: when it was heard is not known."""

    def __init__(self) -> None:
        self._states: dict[UUID, tuple[Phase, bool]] = {}
        self._phases: Counter[Phase] = Counter(dict.fromkeys(Phase, 0))
        self._places = 0
        self._began: datetime | None = None
        self._served: dict[UUID, datetime] = {}

    def began(self, now: datetime) -> None:
        """The term's first look, by the database's clock; later ones change nothing."""
        self._began = self._began or now

    def keep_only(self, ids: Container[UUID]) -> None:
        """Forget workspaces that are gone."""
        for gone in [each for each in self._states if each not in ids]:
            self._count(*self._states.pop(gone), by=-1)
            self._served.pop(gone, None)

    def read(self, rows: Iterable[Workspace]) -> None:
        for each in rows:
            self._note(each.id, each.status)

    def passed(self, look: Look, seconds: float, *, queued: int, held: int) -> None:
        """A pass has ended: `queued` wait for a hand, `held` for a place under a limit."""
        RECONCILE.labels(look).observe(seconds)
        WAITING.set(queued, "hand")
        if look is not Look.QUICK:
            # A quick one looks at few, and does not know of all that are held.
            WAITING.set(held, "limit")
        RUNNING.set(self._places)
        for phase, count in self._phases.items():
            WORKSPACES.set(count, phase)

    def stored(self, before: Workspace, after: Status, decision: Decision, now: datetime) -> None:
        """A decision is in the database."""
        self._note(before.id, after)
        match decision:
            case Complete():
                _completed(decision.operation, before.status.op_started_at, now)
            case Release():
                OPERATIONS.labels(decision.operation, "released").inc()
            case Retry() if before.status.operation is Operation.NONE:
                EXITS.inc()
            case Retry():
                OPERATIONS.labels(before.status.operation, "retried").inc()
            case Fail():
                _failed(decision)
        if after.phase is Phase.RUNNING and before.status.phase is not Phase.RUNNING:
            self._woken(before, now)

    def _note(self, workspace_id: UUID, status: Status) -> None:
        state = (status.phase, status.phase is Phase.RUNNING or status.operation in _HAS_PLACE)
        former = self._states.get(workspace_id)
        if state != former:
            if former is not None:
                self._count(*former, by=-1)
            self._states[workspace_id] = state
            self._count(*state, by=1)

    def _count(self, phase: Phase, has_place: bool, *, by: int) -> None:
        self._phases[phase] += by
        self._places += by if has_place else 0

    def _woken(self, workspace: Workspace, now: datetime) -> None:
        """Once for each wish: one that crashed and runs again was not waited for."""
        intent = workspace.intent
        if intent.desired is not DesiredState.RUNNING or intent.at is None or self._began is None:
            return
        if intent.at < self._began or self._served.get(workspace.id) == intent.at:
            return
        self._served[workspace.id] = intent.at
        waited = max((now - intent.at).total_seconds(), 0.0)
        WAKE_SECONDS.labels(intent.source).observe(waited)


def _completed(operation: Operation, started: datetime | None, now: datetime) -> None:
    OPERATIONS.labels(operation, "done").inc()
    if started is not None:
        lasted = max((now - started).total_seconds(), 0.0)
        OPERATION_SECONDS.labels(operation).observe(lasted)


def _failed(fail: Fail) -> None:
    ERRORS.labels(fail.reason).inc()
    if fail.operation is not Operation.NONE:
        OPERATIONS.labels(fail.operation, "failed").inc()


def in_flight(actions: int, data_moves: int) -> None:
    """What is under way in the world."""
    IN_FLIGHT.set(actions, "action")
    IN_FLIGHT.set(data_moves, "data_move")


def move_failed(operation: Operation, reason: str) -> None:
    """An act failed; only those that move data have a count of their own."""
    if operation in _DIRECTIONS:
        ARCHIVE_FAILURES.labels(_DIRECTIONS[operation], reason).inc()


def moved(operation: Operation, size: int) -> None:
    """So many bytes are in the archive store, or came from it."""
    ARCHIVE_BYTES.labels(_DIRECTIONS[operation]).inc(size)
