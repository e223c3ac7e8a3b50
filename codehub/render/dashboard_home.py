"""The front page of the dashboard: the workspaces, how many may run, and what to look for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from codehub.model.states import Phase
from codehub.render.dashboard import following, fragment, page

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codehub.model.revision import Revision
    from codehub.render.dashboard import Shell
    from codehub.render.dashboard_row import Row
    from codehub.render.pages import Rendered

MOST_PIPS: Final = 12
"""A limit above this is told in figures only."""

PHASES: Final = (
    *(Phase.RUNNING, Phase.STANDBY, Phase.ARCHIVED, Phase.ERROR),
    *(Phase.PENDING, Phase.DELETING),
)
_QUIET: Final = frozenset({Phase.PENDING, Phase.DELETING, Phase.ERROR})
"""Told only when somebody is in them."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What is looked for, as the address says it."""

    text: str = ""
    phase: Phase | None = None
    owner: str = ""

    def link(self, **changes: str) -> str:
        """The address of the list with something else looked for; empty values are left out."""
        fields = {
            "q": self.text,
            "phase": self.phase.value if self.phase else "",
            "owner": self.owner,
        }
        told = {name: value for name, value in (fields | changes).items() if value}
        return f"/?{urlencode(told)}" if told else "/"

    @property
    def is_set(self) -> bool:
        return bool(self.text or self.phase or self.owner)


@dataclass(frozen=True, slots=True)
class Use:
    """How many run of those that may."""

    running: int
    limit: int
    whose: str = ""

    @property
    def pips(self) -> tuple[bool, ...]:
        """One for each place, taken or free; none where there would be too many."""
        if self.limit > MOST_PIPS:
            return ()
        return tuple(number < self.running for number in range(max(self.limit, self.running)))

    @property
    def is_full(self) -> bool:
        return self.running >= self.limit


@dataclass(frozen=True, slots=True)
class Paging:
    """The addresses of the first page and of the next one; empty where this is it."""

    first: str = ""
    following: str = ""


@dataclass(frozen=True, slots=True)
class Home:
    """All that the page shows. `failed` is a load of the specs that could not be applied."""

    rows: Sequence[Row]
    counts: Mapping[Phase, int]
    uses: Sequence[Use]
    sought: Filter = Filter()
    owners: Sequence[str] = ()
    paging: Paging = Paging()
    failed: Revision | None = None
    in_force: Revision | None = None

    @property
    def is_whole(self) -> bool:
        """Whether everything of the owner looked for is in the list, so that what is new is too."""
        sought, paging = self.sought, self.paging
        return not (sought.text or sought.phase or paging.first or paging.following)

    @property
    def follow(self) -> str:
        """Where the script hears of what belongs in this list; empty where nothing does.

        Of a list that is not whole, those that are in it: a fleet is too much to hear of for them.
        """
        if not self.rows and (self.sought.is_set or not self.is_whole):
            return ""
        if self.is_whole:
            return following(owner=self.sought.owner)
        return following(names=[row.name for row in self.rows])

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def shown_counts(self) -> tuple[tuple[Phase, int], ...]:
        found = ((phase, self.counts.get(phase, 0)) for phase in PHASES)
        return tuple((phase, count) for phase, count in found if count or phase not in _QUIET)


def home_page(home: Home, shell: Shell) -> Rendered:
    return page("dashboard_home.html.j2", shell, home=home)


def row_fragment(row: Row, shell: Shell) -> str:
    """One row, in a table of its own so that browsers can read it."""
    return fragment("dashboard_row.html.j2", shell, row=row)


def summary_fragment(home: Home, shell: Shell) -> str:
    """What is above the list: a load that failed, the counts and the limits."""
    notice = fragment("dashboard_notice.html.j2", shell, home=home)
    return notice + fragment("dashboard_summary.html.j2", shell, home=home)
