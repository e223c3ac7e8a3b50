"""Why a workspace rests below what its spec declares: held by policy, which is not drift.

Git declares a ceiling; idleness, a person, an override or a suspension may keep a workspace
below it. The plan names the cause, so that nobody mistakes sleep for a failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.core.express import seconds, short
from codehub.core.target import aim
from codehub.model.states import LEVELS, PHASE_OF, DesiredState, IntentSource
from codehub.model.view import LABELS, Action
from codehub.model.voice import Voice
from codehub.model.workspace import NEVER, StartOn

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.model.plan import PlanOptions
    from codehub.model.workspace import Override, Workspace

_DONE: Final = {DesiredState.STANDBY: "stopped", DesiredState.ARCHIVED: "archived"}
_TTL: Final = {DesiredState.STANDBY: "standby", DesiredState.ARCHIVED: "archive"}
_BACK: Final = {DesiredState.STANDBY: Action.START, DesiredState.ARCHIVED: Action.RESTORE}


def active_override(workspace: Workspace, now: datetime) -> Override | None:
    """The override that is in force, if any."""
    override = workspace.intent.override
    return override if override is not None and override.until > now else None


def held(
    workspace: Workspace, now: datetime, options: PlanOptions, voice: Voice = Voice.COMMANDS
) -> str | None:
    """One sentence on what holds it, None when nothing does.

    An override is told even where it holds nothing back: it is another ceiling than the specs say.
    """
    if not may_be_held(workspace):
        return None
    rest = aim(workspace, now)
    if rest is DesiredState.DELETED:
        return None
    cause = _cause(workspace, rest, now, options, voice)
    where = f"declared {workspace.declaration.declared_state}, {_place(workspace, rest)}"
    return f"{where}: {cause}" if cause else None


def may_be_held(workspace: Workspace) -> bool:
    """A cheap first look: False where nothing can hold it."""
    declaration, intent = workspace.declaration, workspace.intent
    if intent.override is not None or declaration.suspend:
        return True
    return intent.desired is not declaration.declared_state and not declaration.pinned


def _place(workspace: Workspace, rest: DesiredState | None) -> str:
    phase = workspace.status.phase
    if rest is None or phase is PHASE_OF[rest]:
        return f"now {phase}"
    return f"now {phase}, on the way to {rest}"


def _cause(
    workspace: Workspace,
    rest: DesiredState | None,
    now: datetime,
    options: PlanOptions,
    voice: Voice,
) -> str:
    declaration = workspace.declaration
    declared = declaration.declared_state
    if rest is None:
        moved = workspace.status.phase is not PHASE_OF[declared]
        return "suspended, so nothing moves it" if moved else ""
    override = None if declaration.pinned else active_override(workspace, now)
    top = override.state if override else declared
    parts = [_overridden(override)] if override else []
    if LEVELS[rest] < LEVELS[top]:
        back = _way_back(workspace, rest, top, voice)
        parts.append(_lowered(workspace, rest, now, options) + back)
    return "; ".join(parts)


def _overridden(override: Override) -> str:
    reason = f" ({override.reason})" if override.reason else ""
    return f"override {override.state} until {override.until:%Y-%m-%d %H:%M %Z}{reason}"


def _lowered(workspace: Workspace, rest: DesiredState, now: datetime, options: PlanOptions) -> str:
    intent = workspace.intent
    if intent.source is IntentSource.TTL:
        return _idle(workspace, rest, now, options)
    if intent.source in (IntentSource.API, IntentSource.CLI):
        when = f" {short(now - intent.at)} ago" if intent.at else ""
        return f"{_DONE[rest]} by {intent.by or intent.source}{when}"
    if workspace.declaration.start_on is StartOn.VISIT:
        return "not visited yet"
    return f"{rest} is what was last asked for"


def _idle(workspace: Workspace, rest: DesiredState, now: datetime, options: PlanOptions) -> str:
    last, since = workspace.activity.last_access_at, workspace.intent.at
    if last is not None:
        text = f"idle {short(now - last)}"
    else:
        text = f"lowered {short(now - since)} ago" if since else "lowered"
    limit = ttl_words(workspace, rest, options)
    return f"{text}, {limit}" if limit else text


def ttl_words(workspace: Workspace, rest: DesiredState, options: PlanOptions) -> str:
    """`ttl interactive.standby=3h`: the limit that lowers a workspace to `rest`."""
    limit = ttl_limit(workspace, rest, options)
    if limit is None:
        return ""
    ttl, word = workspace.declaration.ttl, _TTL[rest]
    own = ttl.standby if rest is DesiredState.STANDBY else ttl.archive
    prefix = f"{ttl.policy}." if ttl.policy and own is not None else ""
    suffix = "" if own is not None else " (the hub's setting)"
    return f"ttl {prefix}{word}={seconds(limit)}{suffix}"


def ttl_limit(workspace: Workspace, rest: DesiredState, options: PlanOptions) -> int | None:
    """How many seconds of idleness lower a workspace to `rest`; None for never."""
    ttl = workspace.declaration.ttl
    down = rest is DesiredState.STANDBY
    own = ttl.standby if down else ttl.archive
    setting = options.standby_ttl if down else options.archive_ttl
    limit = setting if own is None else own
    return None if limit == NEVER else limit


def _way_back(workspace: Workspace, rest: DesiredState, top: DesiredState, voice: Voice) -> str:
    wakes = LEVELS[rest] >= LEVELS[workspace.declaration.wake_from]
    if top is DesiredState.RUNNING and wakes:
        return "; wakes on visit"
    if voice is Voice.COMMANDS:
        return f"; codehub restore {workspace.name} brings it back"
    # No button leads to STANDBY alone.
    return f"; “{LABELS[_BACK[rest]]}” brings it back" if top is DesiredState.RUNNING else ""
