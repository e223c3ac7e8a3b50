"""What has come of asking: how far a workspace is on its way to where it should be.

`core/settle.py` makes outcomes of rows, `service/settling.py` follows them, the commands that wait
show them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from codehub.model.states import Operation

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.model.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an operation is: its stage, and what is known of bytes and entries."""

    stage: str = ""
    done: int | None = None
    total: int | None = None
    entries: int | None = None

    @property
    def percent(self) -> int | None:
        """Whole percent of this stage; None where the whole is not known."""
        if self.done is None or not self.total:
            return None
        return min(100, 100 * self.done // self.total)


@dataclass(frozen=True, slots=True)
class Settled:
    """It is where it comes to rest."""


@dataclass(frozen=True, slots=True)
class Held:
    """It is not there and will not get there by itself, or not soon: `why` says what it takes."""

    why: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """It is in ERROR, and only a person gets it out; `advice` says how."""

    reason: str
    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class Moving:
    """It is on its way. `steps` are the operations and phases to come, the present one first.

    `operation` is NONE while the coordinator has yet to begin; `note` says what is in the way.
    """

    operation: Operation = Operation.NONE
    since: datetime | None = None
    progress: Progress = Progress()
    steps: tuple[str, ...] = ()
    note: str = ""


Outcome: TypeAlias = Settled | Held | Failed | Moving


@dataclass(frozen=True, slots=True)
class Followed:
    """One workspace as it was seen, and what that means."""

    workspace: Workspace
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that is followed, as of one moment of the database's clock.

    `led` says that a coordinator leads; without one nothing moves. `lost` says why this is not
    news but what was last seen: the database gave no answer since.
    """

    at: datetime
    followed: tuple[Followed, ...] = field(default=())
    led: bool = True
    lost: str = ""

    @property
    def over(self) -> bool:
        """Whether nothing is on its way any more."""
        return not self.lost and not self.moving

    @property
    def moving(self) -> tuple[Followed, ...]:
        return tuple(each for each in self.followed if isinstance(each.outcome, Moving))

    @property
    def failed(self) -> tuple[Followed, ...]:
        return tuple(each for each in self.followed if isinstance(each.outcome, Failed))
