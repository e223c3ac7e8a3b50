"""Why a workspace rests, for whoever comes to it: idleness, a person, or nobody came before.

Only its owner and admins get to see these sentences, and the dashboard names who asked to both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.core.express import long
from codehub.model.states import DesiredState, IntentSource

if TYPE_CHECKING:
    from codehub.store.workspaces import Found

_PEOPLE: Final = frozenset({IntentSource.API, IntentSource.CLI})


def why_stopped(found: Found) -> str:
    """Of one in STANDBY; it may have been restored there, and never stopped."""
    intent, last = found.workspace.intent, found.workspace.activity.last_access_at
    if intent.source is IntentSource.TTL:
        return "Nobody used it for a while, so it was stopped. Its files are safe."
    if intent.source in _PEOPLE:
        return f"It is stopped, as {_who_asked(found)}. Its files are safe."
    if intent.source is IntentSource.SPEC and last is None:
        return "Nobody has opened it yet, so it was not started."
    return "It is stopped. Its files are safe."


def why_archived(found: Found) -> str:
    """Of one in ARCHIVED; somebody may have asked for more since."""
    intent = found.workspace.intent
    if intent.desired is DesiredState.ARCHIVED and intent.source is IntentSource.TTL:
        return "Nobody used it for a while, so its home was archived. Nothing is lost."
    if intent.desired is DesiredState.ARCHIVED and intent.source in _PEOPLE:
        return f"Its home is archived, as {_who_asked(found)}. Nothing is lost."
    return "Its home is archived. Nothing is lost."


def _who_asked(found: Found) -> str:
    intent = found.workspace.intent
    when = f" {long(found.read_at - intent.at)} ago" if intent.at is not None else ""
    return f"{intent.by or 'somebody'} asked{when}"
