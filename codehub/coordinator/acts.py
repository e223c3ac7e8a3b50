"""The acts under way: bounded in number, one for a workspace, each with its outcome kept.

A pass begins acts and reads outcomes; what is kept here is lost with the process, and the next
leader repeats what it finds unfinished.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codehub.coordinator import steps
from codehub.coordinator.figures import in_flight, move_failed
from codehub.coordinator.hear import hear
from codehub.coordinator.steps import STEPS, Job
from codehub.errors import (
    ArchiveCorrupted,
    CodeHubError,
    FenceLost,
    ImagePullFailed,
    Unreachable,
)
from codehub.model.states import ErrorReason, Operation
from codehub.telemetry.logs import bound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from uuid import UUID

    from codehub.coordinator.hints import Hints
    from codehub.coordinator.steps import Tools
    from codehub.model.workspace import Workspace

log: Final = logging.getLogger("codehub.coordinator")

DATA_MOVES: Final = frozenset(
    {Operation.ARCHIVING, Operation.RESTORING, Operation.CREATE_EMPTY_ARCHIVE}
)
ENDING: Final = 10.0
"""Seconds that a cancelled act gets to let go of what it holds."""

_REASONS: Final[tuple[tuple[type[CodeHubError], ErrorReason], ...]] = (
    (Unreachable, ErrorReason.UNREACHABLE),
    (ArchiveCorrupted, ErrorReason.ARCHIVE_CORRUPTED),
    (ImagePullFailed, ErrorReason.IMAGE_PULL_FAILED),
    (CodeHubError, ErrorReason.ACTION_FAILED),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an act ended: well when `reason` is None. `number` counts the acts that have ended."""

    op_id: UUID | None
    number: int
    reason: ErrorReason | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Act:
    op_id: UUID | None
    operation: Operation
    task: asyncio.Task[None]


class Acts:
    """What this leader is doing in the world."""

    def __init__(self, tools: Tools, hints: Hints, *, actions: int, data_moves: int) -> None:
        self._tools = tools
        self._hints = hints
        self._limits = {False: actions, True: data_moves}
        self._acts: dict[UUID, _Act] = {}
        self._outcomes: dict[UUID, Outcome] = {}
        self._closed = False
        self.ended = 0

    @property
    def busy(self) -> bool:
        return bool(self._acts)

    def is_running(self, workspace_id: UUID) -> bool:
        return workspace_id in self._acts

    def has_room(self, operation: Operation) -> bool:
        """Whether one more of this kind may begin; data moves have places of their own."""
        moves = operation in DATA_MOVES
        taken = sum((each.operation in DATA_MOVES) is moves for each in self._acts.values())
        return taken < self._limits[moves]

    def outcome(self, workspace_id: UUID, op_id: UUID | None) -> Outcome | None:
        """How the last act of this operation ended, if it has."""
        found = self._outcomes.get(workspace_id)
        return found if found is not None and found.op_id == op_id else None

    def forget(self, workspace_id: UUID) -> None:
        self._outcomes.pop(workspace_id, None)

    def begin(self, job: Job) -> None:
        """Carry out the operation in flight, unless it is being carried out."""
        status = job.workspace.status
        self._begin(job, status.op_id, status.operation, STEPS[status.operation])

    def tidy(self, job: Job, *, leftover: bool) -> None:
        """Remove what belongs to nothing, of a workspace at rest."""
        step = steps.stop_leftover if leftover else steps.clean
        self._begin(job, None, Operation.NONE, step)

    async def give_up(self, workspace_id: UUID, op_id: UUID | None) -> None:
        """End an act whose operation is over; one that goes with `op_id` may go on."""
        act = self._acts.get(workspace_id)
        if act is None or act.op_id == op_id:
            return
        act.task.cancel()
        await asyncio.wait({act.task}, timeout=ENDING)

    async def hear(self, workspace: Workspace) -> str:
        """What it said last, for people."""
        return await hear(self._tools, workspace)

    async def turn(self, seconds: float) -> None:
        """Until one of the acts under way ends, at most so long."""
        tasks = {each.task for each in self._acts.values()}
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    async def quiet(self) -> None:
        """Until no act is under way."""
        while self._acts:
            await asyncio.wait({each.task for each in self._acts.values()})

    async def close(self) -> None:
        """Let go of everything; what was begun is found again by whoever leads next."""
        self._closed = True
        tasks = {each.task for each in self._acts.values()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=ENDING)

    def _begin(
        self,
        job: Job,
        op_id: UUID | None,
        operation: Operation,
        step: Callable[[Tools, Job], Awaitable[None]],
    ) -> None:
        workspace_id = job.workspace.id
        if workspace_id in self._acts or self._closed:
            return
        self._outcomes.pop(workspace_id, None)
        task = asyncio.create_task(self._run(job, op_id, step))
        self._acts[workspace_id] = _Act(op_id, operation, task)
        self._tell()

    def _tell(self) -> None:
        moves = sum(each.operation in DATA_MOVES for each in self._acts.values())
        in_flight(len(self._acts) - moves, moves)

    async def _run(
        self, job: Job, op_id: UUID | None, step: Callable[[Tools, Job], Awaitable[None]]
    ) -> None:
        workspace = job.workspace
        with bound(
            workspace=workspace.name,
            operation=workspace.status.operation,
            op_id=op_id,
            revision=workspace.spec_revision,
        ):
            await self._carry_out(job, op_id, step)

    async def _carry_out(
        self, job: Job, op_id: UUID | None, step: Callable[[Tools, Job], Awaitable[None]]
    ) -> None:
        workspace = job.workspace
        reason, message = None, ""
        try:
            await step(self._tools, job)
        except FenceLost:
            log.info("%s: another leader goes on with it", workspace.name)
        except CodeHubError as error:
            reason, message = _reason(error), error.message
            # It is stored and audited with the workspace; here it is for whoever reads along.
            log.info("%s: %s: %s", workspace.name, workspace.status.operation, message)
        except Exception as error:
            reason, message = ErrorReason.ACTION_FAILED, f"unexpected: {type(error).__name__}"
            log.error("%s: %s", workspace.name, workspace.status.operation, exc_info=error)
        finally:
            self._acts.pop(workspace.id, None)
            self._tell()
            self.ended += 1
        if reason is not None:
            move_failed(workspace.status.operation, reason)
        self._outcomes[workspace.id] = Outcome(op_id, self.ended, reason, message)
        # What could not be tidied away is for the next full pass, not for the very next moment.
        if op_id is not None or reason is None:
            self._hints.tell(workspace.id)


def _reason(error: CodeHubError) -> ErrorReason:
    return next(reason for kind, reason in _REASONS if isinstance(error, kind))
