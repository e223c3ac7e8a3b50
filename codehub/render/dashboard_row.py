"""One workspace of the list: its badge, its line, its buttons.

The same row is in the page and in the answer to the script that asks for it anew, so there is one
way only in which a workspace looks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from codehub.core.target import aim
from codehub.model.states import PHASE_OF, DesiredState, Operation, Phase
from codehub.model.view import LABELS, Action
from codehub.render.dashboard_words import DOING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codehub.model.view import View

PATIENCE: Final = timedelta(seconds=5)
"""How long something may take to begin before there is a button to take it back."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
AS_DECLARED: Final = "as declared"
WAITS: Final = "Waits for its turn"


@dataclass(frozen=True, slots=True)
class Deed:
    """A button that does something with a workspace; `confirm` is what to agree to first.

    `second` is for what one seldom wants, however near it is.
    """

    action: str
    label: str
    confirm: str = ""
    danger: bool = False
    second: bool = False


TOUCH: Final = Deed("touch", "Still working")
"""Idleness counts from now."""


@dataclass(frozen=True, slots=True)
class Row:
    """One workspace as the list shows it. `url` is where its own pages are."""

    view: View
    url: str

    @property
    def name(self) -> str:
        return self.view.workspace.name

    @property
    def opens(self) -> bool:
        return Action.OPEN in self.view.actions

    @property
    def deeds(self) -> tuple[Deed, ...]:
        return deeds(self.view)

    @property
    def doing(self) -> str:
        """What is under way; empty for nothing."""
        return DOING[self.view.workspace.status.operation]

    @property
    def asked(self) -> str:
        """What was asked for and has not begun: a click shows at once that it was heard."""
        workspace = self.view.workspace
        if workspace.intent.recover_requested is not None:
            return "Recovery asked for"
        return WAITS if waits(self.view) else ""

    @property
    def percent(self) -> int | None:
        progress = self.view.progress
        return None if progress is None or progress.part is None else int(progress.part * 100)

    @property
    def why(self) -> str:
        """The sentence on why it is there, where it says more than the badge."""
        why = self.view.why
        return "" if why == AS_DECLARED or why.startswith(WAITS.lower()) else why

    @property
    def names(self) -> tuple[str, ...]:
        """What its sentences may begin with that keeps its small letter."""
        return self.name, self.view.workspace.declaration.owner

    @property
    def times(self) -> tuple[datetime, ...]:
        """What its sentence on why speaks of in durations."""
        workspace = self.view.workspace
        found = (workspace.intent.at, workspace.activity.last_access_at, workspace.status.retry_at)
        return tuple(each for each in found if each is not None)

    @property
    def is_busy(self) -> bool:
        return self.view.workspace.status.operation is not Operation.NONE

    @property
    def stamp(self) -> str:
        """Changes whenever the row is to be made anew; progress alone is patched in place."""
        return self.view.version

    @property
    def seen(self) -> int:
        """The last activity as browsers count time, in milliseconds; 0 for none."""
        at = self.view.workspace.activity.last_access_at
        return 0 if at is None else (at - _EPOCH) // timedelta(milliseconds=1)


def waits(view: View) -> bool:
    """Whether it is asked to be elsewhere, and nothing has begun yet."""
    workspace = view.workspace
    status, goal = workspace.status, aim(workspace, view.at)
    if goal is None or status.phase is Phase.ERROR or status.operation is not Operation.NONE:
        return False
    return status.phase is not PHASE_OF[goal]


def deeds(view: View) -> tuple[Deed, ...]:
    """The buttons, in the order of the actions that are offered; what is asked for is not again."""
    workspace = view.workspace
    offered = [each for each in view.actions if each is not Action.OPEN]
    if workspace.intent.recover_requested is not None:
        offered = [each for each in offered if each not in _RECOVERIES]
    if not waits(view):
        return tuple(_deed(each) for each in offered)
    wanted = workspace.intent.desired
    kept = tuple(_deed(each) for each in offered if _GOALS.get(each) is not wanted)
    return (*_taken_back(view), *kept)


def _taken_back(view: View) -> Iterator[Deed]:
    """The way out for one that stays in a queue."""
    workspace, back = view.workspace, _BACK.get(view.workspace.status.phase)
    asked = workspace.intent.at
    if back is None or workspace.intent.desired is not DesiredState.RUNNING:
        return
    if asked is not None and view.at - asked > PATIENCE:
        yield replace(_deed(back), label="Do not start", confirm="", second=True)


_GOALS: Final = {
    Action.START: DesiredState.RUNNING,
    Action.STOP: DesiredState.STANDBY,
    Action.RESTORE: DesiredState.RUNNING,
    Action.ARCHIVE: DesiredState.ARCHIVED,
}
_BACK: Final = {
    Phase.PENDING: Action.STOP,
    Phase.STANDBY: Action.STOP,
    Phase.ARCHIVED: Action.ARCHIVE,
}
_RECOVERIES: Final = frozenset({Action.RECOVER, Action.RECOVER_FROM_ARCHIVE, Action.RECOVER_EMPTY})
_CONFIRM: Final = {
    Action.ARCHIVE: "Its home is packed away, and whatever runs in it ends. Nothing is lost; "
    "bringing it back takes a while.",
    Action.RECOVER_FROM_ARCHIVE: "What was changed since that archive was made is given up.",
    Action.RECOVER_EMPTY: "All that was in its home is given up for good. "
    "This cannot be taken back.",
    Action.DELETE: "Its last archive is kept for a while; then everything in it is gone.",
}
_DANGERS: Final = frozenset({Action.RECOVER_EMPTY, Action.DELETE})


def _deed(action: Action) -> Deed:
    return Deed(
        action=action.value,
        label=LABELS[action],
        confirm=_CONFIRM.get(action, ""),
        danger=action in _DANGERS,
    )
