"""The audit of logins: a table for people, one JSON object a line for scripts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from codehub.model.access import AccessKind
from codehub.render.table import table
from codehub.render.words import clean

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codehub.model.access import AccessEvent

HEAD: Final = ("ID", "AT", "USER", "WHAT", "FROM", "BY", "REASON", "WITH")
NONE: Final = "Nobody has logged in, failed to, or made a token.\n"
_AGENT_WIDTH: Final = 40
_WHAT: Final = {
    AccessKind.LOGIN: "logged in",
    AccessKind.FAILED: "was refused",
    AccessKind.LOGOUT: "logged out",
    AccessKind.LINK: "got a link",
    AccessKind.TOKEN_CREATED: "got a token",
    AccessKind.TOKEN_REVOKED: "lost a token",
}


def access_text(events: Iterable[AccessEvent]) -> str:
    """Oldest first. A name that nobody has was never written down, so there is none to show."""
    rows = [_row(each) for each in events]
    return table(HEAD, rows) if rows else NONE


def access_json(event: AccessEvent) -> str:
    """One line, stable for scripts."""
    fields = {
        "id": event.id,
        "at": event.at.isoformat(),
        "kind": event.kind.value,
        "user": event.user,
        "by": event.by,
        "address": event.address,
        "agent": event.agent,
        "reason": event.reason,
    }
    return json.dumps(fields) + "\n"


def _row(event: AccessEvent) -> tuple[str, ...]:
    agent = clean(event.agent)
    return (
        str(event.id),
        f"{event.at:%Y-%m-%d %H:%M:%S}",
        clean(event.user) or "(nobody)",
        _WHAT[event.kind],
        clean(event.address) or "-",
        clean(event.by) if event.by != event.user else "-",
        clean(event.reason) or "-",
        agent if len(agent) <= _AGENT_WIDTH else f"{agent[: _AGENT_WIDTH - 1]}…",
    )
