"""Drift alone, as text and as JSON: reality against what was last applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.render.plan_json import drift_data, json_text
from codehub.render.plan_text import drift_blocks
from codehub.render.words import ago, clean, counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from codehub.model.plan import Drift
    from codehub.model.revision import HubState
    from codehub.model.workspace import Workspace

FORMAT_VERSION: Final = 1
UNSEEN: Final = "Nobody has looked at {} yet: that is the coordinator's work ('codehub up')."


def drift_text(
    state: HubState,
    live: Sequence[Workspace],
    drift: Sequence[Drift],
    now: datetime,
    *,
    color: bool = False,
) -> str:
    """What drifted among the living workspaces, and how old that knowledge is."""
    lines = [_head(state, live, now), ""]
    drifted = len({each.name for each in drift})
    if drift:
        lines.append(drift_blocks(drift, color=color))
        lines.append(f"Drift: {drifted} of {counted(len(live), 'workspace')}.")
    elif not live:
        lines.append("The hub has no workspaces.")
    elif last_look(live):
        lines.append("No drift. What was observed is what was last applied.")
    unseen = sum(each.status.observed_at is None for each in live)
    if unseen:
        lines.append(UNSEEN.format(counted(unseen, "workspace")))
    return "\n".join(lines) + "\n"


def _head(state: HubState, live: Sequence[Workspace], now: datetime) -> str:
    hub = f"hub {clean(state.hub_id[:8])}" if state.hub_id else "the hub"
    revision = f"revision {state.revision.id}" if state.revision else "no revision"
    seen = last_look(live)
    when = f"as last observed {ago(now - seen)}" if seen else "never observed"
    return f"Drift of {hub} at {revision}, {when}."


def last_look(live: Sequence[Workspace]) -> datetime | None:
    """When the controller last observed any of them."""
    return max((each.status.observed_at for each in live if each.status.observed_at), default=None)


def drift_json(
    state: HubState, live: Sequence[Workspace], drift: Sequence[Drift], now: datetime
) -> str:
    """Stable for scripts; nothing is left out."""
    seen = last_look(live)
    return json_text(
        {
            "formatVersion": FORMAT_VERSION,
            "madeAt": now.isoformat(),
            "hub": state.hub_id,
            "revision": state.revision.id if state.revision else None,
            "observedAt": seen.isoformat() if seen else None,
            "workspaces": len(live),
            "drifted": len({each.name for each in drift}),
            "drift": [drift_data(each) for each in drift],
        }
    )
