"""One workspace's page: where it stands and why, what was declared, and all that happened to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from markupsafe import Markup, escape

from codehub.core.detect import contradictions
from codehub.core.express import seconds
from codehub.core.hold import ttl_limit
from codehub.core.judge import ARCHIVE_DAMAGED, MAKES_VOLUME, VOLUME_MISSING
from codehub.model.reasons import WORDS
from codehub.model.states import DesiredState, Phase
from codehub.model.workspace import Ttl
from codehub.render.dashboard import following, page
from codehub.render.dashboard_row import TOUCH
from codehub.render.explain_text import TITLES
from codehub.render.words import capital, clean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from codehub.model.conditions import ConditionName
    from codehub.model.events import Event
    from codehub.model.explanation import Block, Explanation, Line
    from codehub.model.history import Span
    from codehub.model.plan import PlanOptions
    from codehub.render.dashboard import Shell
    from codehub.render.dashboard_row import Deed, Row
    from codehub.render.pages import Rendered

WIDTH: Final = 1000
"""Of the timeline's picture, in its own units."""
_LEAST: Final = 2.0
"""However short a phase was, one can see it."""
_ELSEWHERE: Final = frozenset({"phase", "owner", "declared", "activity", "coordinator"})
"""Topics of the explanation that have a place of their own on the page."""
_KEPT_ALIVE: Final = frozenset({Phase.RUNNING})
_GONE: Final = frozenset({VOLUME_MISSING, ARCHIVE_DAMAGED})
"""Reasons of conditions for which something was there once."""
_UNSAID: Final = Ttl()
"""Of a spec that says nothing of it."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One phase in the timeline's picture."""

    span: Span
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class About:
    """All that the page shows. `events` are the latest first, `older` leads to those before."""

    row: Row
    explanation: Explanation
    options: PlanOptions
    events: Sequence[Event] = ()
    spans: Sequence[Span] = ()
    older: str = ""
    newer: str = ""

    @property
    def follow(self) -> str:
        """Where the script hears of it."""
        return following(names=[self.row.name])

    @property
    def story(self) -> tuple[tuple[str, Line], ...]:
        """The explanation's sentences, each with its title."""
        lines = (each for each in self.explanation.lines if each.topic not in _ELSEWHERE)
        # In a narrow column the command line's arrows would be broken in two.
        arrowed = (replace(each, text=each.text.replace(" -> ", " → ")) for each in lines)
        return tuple((TITLES[each.topic], each) for each in arrowed)

    def times(self, topic: str) -> tuple[datetime, ...]:
        """What a sentence of the story speaks of in durations."""
        falls, asked = self.explanation.next, self.row.view.workspace.intent.at
        found = {"asked": asked, "next": falls.at if falls else None}.get(topic)
        return () if found is None else (found,)

    @property
    def since(self) -> datetime | None:
        """When it got where it is."""
        workspace = self.row.view.workspace
        return workspace.status.phase_changed_at or workspace.created_at

    def block_times(self, block: Block) -> tuple[datetime, ...]:
        """What is said of something in its way in durations."""
        status = self.row.view.workspace.status
        facts = (each.last_transition_time for each in status.conditions.values())
        found = (block.until, status.op_started_at, *facts)
        return (*self.row.times, *(each for each in found if each is not None))

    @property
    def trouble(self) -> str:
        """What went wrong, in a few words."""
        reason = self.row.view.workspace.status.error_reason
        return capital(WORDS[reason]) if reason else "Something is wrong"

    @property
    def wrong(self) -> frozenset[ConditionName]:
        """Conditions to be alarmed by. Most that are False are as they should be: it sleeps."""
        status = self.row.view.workspace.status
        gone = (
            (name, each)
            for name, each in status.conditions.items()
            if each.reason in _GONE and status.operation not in MAKES_VOLUME
        )
        return frozenset(name for name, _ in (*contradictions(status), *gone))

    @property
    def extras(self) -> tuple[Deed, ...]:
        """Buttons beside those that move it."""
        status = self.row.view.workspace.status
        return (TOUCH,) if status.phase in _KEPT_ALIVE else ()

    @property
    def bars(self) -> tuple[Bar, ...]:
        return tuple(_bars(self.spans))

    @property
    def ttl(self) -> tuple[tuple[str, str], ...]:
        """When idleness lowers it, in words."""
        return tuple(_ttl(self))


def workspace_page(about: About, shell: Shell) -> Rendered:
    return page("dashboard_workspace.html.j2", shell, about=about, width=WIDTH)


def logs_page(name: str, text: str, shell: Shell, *, follow: str, problem: str = "") -> Rendered:
    """What it writes; `follow` is where the script reads on."""
    shown = preformatted(text)
    return page(
        "dashboard_logs.html.j2", shell, name=name, text=shown, follow=follow, problem=problem
    )


def preformatted(text: str) -> Markup:
    """Text whose lines and tabs stay; all else that would deceive is shown."""
    return Markup("\n").join(
        Markup("\t").join(escape(clean(part)) for part in line.split("\t"))
        for line in text.split("\n")
    )


def _bars(spans: Sequence[Span]) -> Iterator[Bar]:
    if not spans:
        return
    first, last = spans[0].since, spans[-1].until
    whole = max((last - first).total_seconds(), 1.0)

    def place(at: datetime) -> float:
        return WIDTH * (at - first).total_seconds() / whole

    for span in spans:
        x = place(span.since)
        width = max(place(span.until) - x, _LEAST)
        yield Bar(span, round(min(x, WIDTH - _LEAST), 1), round(width, 1))


def _ttl(about: About) -> Iterator[tuple[str, str]]:
    workspace = about.row.view.workspace
    ttl = workspace.declaration.ttl
    yield "Policy", ttl.policy or ("the hub's setting" if ttl == _UNSAID else "of its own")
    for title, state in (("Sleeps", DesiredState.STANDBY), ("Is archived", DesiredState.ARCHIVED)):
        limit = ttl_limit(workspace, state, about.options)
        yield title, "never" if limit is None else f"after {seconds(limit)} of idleness"
    yield "Activity", ttl.activity.value
    yield "Busy above", f"{ttl.busy_cpu} % of a core" if ttl.busy_cpu else "off"
