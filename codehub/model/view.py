"""One workspace as it is shown: API, events and dashboard tell the same of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.model.plan import Forecast
    from codehub.model.report import Progress
    from codehub.model.workspace import Workspace


class Action(StrEnum):
    """What somebody who may change a workspace can do with it now, in the order of buttons."""

    OPEN = "open"
    START = "start"
    STOP = "stop"
    RESTORE = "restore"
    ARCHIVE = "archive"
    RECOVER = "recover"
    RECOVER_FROM_ARCHIVE = "recover-from-archive"
    RECOVER_EMPTY = "recover-empty"
    DELETE = "delete"


LABELS: Final = {
    Action.OPEN: "Open",
    Action.START: "Start",
    Action.STOP: "Stop",
    Action.RESTORE: "Restore",
    Action.ARCHIVE: "Archive",
    Action.RECOVER: "Try again",
    Action.RECOVER_FROM_ARCHIVE: "Take the last archive",
    Action.RECOVER_EMPTY: "Start with an empty home",
    Action.DELETE: "Delete",
}
"""What the buttons say, and the sentences that speak of them."""


@dataclass(frozen=True, slots=True)
class View:
    """The row itself, and what the pure core makes of it at a moment.

    `why` is one sentence on why it is where it is; `advice` what to do about an ERROR, empty else.
    `version` changes whenever something that somebody decides on does; it is the ETag.
    """

    workspace: Workspace
    at: datetime
    why: str
    actions: tuple[Action, ...]
    version: str
    advice: str = ""
    progress: Progress | None = None
    next_move: Forecast | None = None
