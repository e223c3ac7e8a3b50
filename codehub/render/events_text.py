"""The audit as lines: for people one readable line each, for scripts one JSON object each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from codehub.model.events import EventKind
from codehub.render.words import clean

if TYPE_CHECKING:
    from codehub.model.events import Event

_NAME_WIDTH: Final = 20
_KIND_WIDTH: Final = max(len(kind.value) for kind in EventKind)


def event_line(event: Event) -> str:
    """When, which, what became what, and through whom; nothing in it can move a cursor."""
    when = f"{event.at:%Y-%m-%d %H:%M:%S}"
    name = clean(event.workspace).ljust(_NAME_WIDTH)
    kind = event.kind.value.ljust(_KIND_WIDTH)
    reason = f": {clean(event.reason)}" if event.reason else ""
    return f"{event.id:>6}  {when}  {name}  {kind}  {_change(event)}{_whom(event)}{reason}\n"


def _change(event: Event) -> str:
    old, new = clean(event.old), clean(event.new)
    if not old or not new:
        return new or (f"{old} ended" if old else "-")
    return f"{old} -> {new}"


def _whom(event: Event) -> str:
    """`by alice (cli)`; where the source says it all, that alone."""
    source, by = clean(event.source), clean(event.by)
    if not by or by == source:
        return f"  by {source}" if source else ""
    return f"  by {by} ({source})" if source else f"  by {by}"


def event_json(event: Event) -> str:
    """One line, stable for scripts."""
    fields = {
        "id": event.id,
        "at": event.at.isoformat(),
        "workspaceId": str(event.workspace_id),
        "workspace": event.workspace,
        "kind": event.kind.value,
        "old": event.old,
        "new": event.new,
        "source": event.source,
        "by": event.by,
        "reason": event.reason,
    }
    return json.dumps(fields) + "\n"
