"""Every error CodeHub raises on purpose, so that edges can translate them in one place.

    CodeHubError                 one clear sentence, and what to do next
    ├── UsageError               the command line is wrong (exit 64)
    ├── Interrupted              Ctrl-C while a command only waited (exit 130)
    ├── SpecsInvalid             problems in the specs, all of them
    ├── PlanUnsafe               a plan that needs --force
    ├── PlanStale                a saved plan that no longer fits
    ├── Refused                  a person asked for something the rules forbid
    │   ├── Conflict             … while something else is under way
    │   ├── NotFound             … of something that is not there
    │   ├── LimitReached         … above a limit
    │   ├── NotLetIn             … without showing who they are
    │   ├── NotAllowed           … that is for others to ask
    │   ├── Outdated             … of what has changed since they looked
    │   └── TooManyTries         … too often: wait so many seconds
    ├── DatabaseProblem          the database cannot be used as it is
    ├── Unsupported              this part of the hub cannot do it, here or at all
    ├── Unreachable              an outside system gave no answer: unknown, never "absent"
    ├── FenceLost                another leader has taken over; nothing was written
    └── ActionFailed             an outside system answered: no
        ├── NameConflict         something foreign has our name
        ├── VolumeInUse
        ├── ImagePullFailed
        └── ArchiveCorrupted

Foreign errors (psycopg, docker, boto3, OSError) are translated where they enter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codehub.model.problem import Problem


class CodeHubError(Exception):
    """One clear sentence (`message`), and where there is one, what to do next (`hint`)."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(CodeHubError):
    """The command line asks for something that does not exist or does not fit together."""

    exit_code = 64


class Interrupted(CodeHubError):
    """Somebody ended a wait; what was asked for goes on without it."""

    exit_code = 130


class SpecsInvalid(CodeHubError):
    """The specs have problems; all that were found are in `problems`."""

    def __init__(self, problems: Sequence[Problem], *, hint: str | None = None) -> None:
        count = len(problems)
        super().__init__(f"{count} problem{'' if count == 1 else 's'} in the specs", hint=hint)
        self.problems = tuple(problems)


class PlanUnsafe(CodeHubError):
    """The plan would delete or stop more than is safe without `--force`."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__(
            "the plan is unsafe: " + "; ".join(reasons),
            hint="read the plan again, and add --force if this is what you want",
        )
        self.reasons = tuple(reasons)


class PlanStale(CodeHubError):
    """A saved plan no longer fits the specs or the hub; `changes` says why."""

    def __init__(self, changes: Sequence[str]) -> None:
        super().__init__(
            "the saved plan is stale: " + "; ".join(changes),
            hint="make a new one with 'codehub plan --save', or see this one with 'codehub show'",
        )
        self.changes = tuple(changes)


class Refused(CodeHubError):
    """The rules forbid what a person asked for; nothing was changed.

    `hint` may speak of commands; `on_page` is what to do on a page, where that is something else.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, on_page: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.on_page = on_page


class Conflict(Refused):
    """Something else is under way; asking again later may work."""


class NotFound(Refused):
    """There is no such thing, or not any more."""


class LimitReached(Refused):
    """One more would be above a limit.

    `limit` is how many may run, `position` the place this one would have among those that run or
    wait to run, `running` the owner's own among them (none for the hub's limit: not theirs to see),
    `stoppable` those of them that can be stopped now. `owner` is whose limit it is, empty for the
    hub's.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        limit: int = 0,
        position: int = 0,
        running: Sequence[str] = (),
        stoppable: Sequence[str] = (),
        owner: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.limit = limit
        self.position = position
        self.running = tuple(running)
        self.stoppable = tuple(stoppable)
        self.owner = owner


class NotLetIn(Refused):
    """Name and password, code or token let nobody in. Which of them was wrong is not said."""


class NotAllowed(Refused):
    """They are known, and this is not for them to do."""


class Outdated(Refused):
    """They looked at something that has changed since; what they asked for may not fit any more."""


class TooManyTries(Refused):
    """Too many logins failed, or are under way: the next may be tried after so many `seconds`."""

    def __init__(self, message: str, *, seconds: float, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.seconds = seconds


class DatabaseProblem(CodeHubError):
    """The database answers, but cannot be used as it is (empty, older or newer than the code)."""


class Unsupported(CodeHubError):
    """Nobody did anything wrong: this process, or this version, cannot do it."""


class Unreachable(CodeHubError):
    """An outside system gave no answer, or is another one than we know: the fact is unknown."""


class FenceLost(CodeHubError):
    """Another leader has taken over since; the write did not happen."""


class ActionFailed(CodeHubError):
    """An outside system understood and said no."""


class NameConflict(ActionFailed):
    """Something that is not ours has the name we need; it was not touched.

    Only a person can help, and of an act that failed a workspace keeps the message alone: so what
    to do is told in it.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(f"{message}: {hint}" if hint else message)


class VolumeInUse(ActionFailed):
    """The volume is still mounted."""


class ImagePullFailed(ActionFailed):
    """The image does not exist, or we may not have it."""


class ArchiveCorrupted(ActionFailed):
    """The archive's bytes are not those that were written."""
