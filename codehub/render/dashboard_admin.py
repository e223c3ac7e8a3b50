"""The page for admins: people and limits, revisions and their problems, drift, what comes next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codehub.render.dashboard import page
from codehub.render.history_text import changes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from codehub.model.access import AccessEvent
    from codehub.model.explanation import Leadership
    from codehub.model.report import Report
    from codehub.model.revision import Revision
    from codehub.model.webhook import Backlog
    from codehub.render.dashboard import Shell
    from codehub.render.dashboard_home import Use
    from codehub.render.pages import Rendered

MOST: Final = 20
"""Lines of each list; the report and the API have more."""

KINDS: Final = {
    "login": "logged in",
    "failed": "failed to log in",
    "logout": "logged out",
    "link": "was given a login link",
    "token_created": "made a token",
    "token_revoked": "revoked a token",
}


@dataclass(frozen=True, slots=True)
class Someone:
    """A user of the hub."""

    name: str
    display_name: str
    admin: bool
    disabled: bool
    source: str
    workspaces: int
    running: tuple[str, ...]
    limit: int
    last_access_at: datetime | None

    @property
    def is_full(self) -> bool:
        return len(self.running) >= self.limit


@dataclass(frozen=True, slots=True)
class Administration:
    """All that the page shows."""

    report: Report
    people: Sequence[Someone]
    revisions: Sequence[Revision]
    access: Sequence[AccessEvent]
    webhooks: Sequence[Backlog]
    leader: Leadership
    use: Use
    limit_each: int
    metrics: str = "/metrics"


def admin_page(given: Administration, shell: Shell) -> Rendered:
    return page(
        "dashboard_admin.html.j2", shell, given=given, most=MOST, kinds=KINDS, changes=changes
    )
