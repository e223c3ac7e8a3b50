"""What comes next for one workspace by idleness alone: when, why, and what puts it off.

`forecast` knows the TTLs; here is what one person wants to hear of it, and the words for why
nothing will come.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from codehub.core.block import moment
from codehub.core.express import short
from codehub.core.forecast import forecast
from codehub.core.hold import ttl_limit
from codehub.core.step import RESULT
from codehub.model.states import DesiredState, IntentSource, Operation, Phase

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.model.explanation import Circumstances, Customs
    from codehub.model.plan import Forecast
    from codehub.model.workspace import Workspace

_FAR: Final = timedelta(days=36_500)
_PEOPLE: Final = frozenset({IntentSource.VISIT, IntentSource.API, IntentSource.CLI})


def next_fall(workspace: Workspace, around: Circumstances, customs: Customs) -> Forecast | None:
    """The next transition that idleness will cause.

    As the TTL checks have it, a time of blindness counts as use, and so does a person's last word.
    """
    status, intent = workspace.status, workspace.intent
    asked_at = intent.at if intent.source in _PEOPLE else None
    times = [each for each in (status.phase_changed_at, around.blind_until, asked_at) if each]
    if status.phase_changed_at is not None:
        workspace = replace(workspace, status=replace(status, phase_changed_at=max(times)))
    now = around.now
    falls = forecast([workspace], now=now, until=now + _FAR, options=customs.options)
    return falls[0] if falls else None


def remind_at(workspace: Workspace, falls: Forecast, customs: Customs) -> datetime | None:
    """When its people are told of it, None for never.

    As the TTL checks have it, not before half of the TTL is over: of a short one it would be told
    as soon as somebody looks away.
    """
    limit = ttl_limit(workspace, DesiredState(falls.new), customs.options)
    if limit is None or not customs.remind:
        return None
    return falls.at - min(timedelta(seconds=limit) / 2, customs.remind)


def foresee(workspace: Workspace, around: Circumstances, customs: Customs) -> str:
    """The next transition and its time in a sentence, or why there is none."""
    falls, now = next_fall(workspace, around, customs), around.now
    if falls is None:
        return _no_fall(workspace, customs)
    if falls.at <= now:
        when = "idleness lowers it at the next look of the coordinator"
    else:
        when = (
            f"idleness lowers it in {short(falls.at - now)} ({moment(falls.at)} or a little later)"
        )
    parts = [f"{when} to {falls.new}, unless somebody works in it: {falls.reason}"]
    told_at = remind_at(workspace, falls, customs)
    if told_at is not None and told_at > now:
        parts.append(f"a reminder goes out at {moment(told_at)}")
    if around.blind_until is not None and _was_blind(workspace, around.blind_until):
        until = moment(around.blind_until)
        parts.append(f"activity was unknown until {until}, so idleness counts from there")
    if _is_stale(around, customs):
        parts.append("it waits until activity can be read from Redis again")
    return "; ".join(parts)


def _was_blind(workspace: Workspace, until: datetime) -> bool:
    """Whether it is the end of the blind time that idleness counts from."""
    times = [workspace.status.phase_changed_at]
    if workspace.status.phase is Phase.RUNNING:
        times.append(workspace.activity.last_access_at)
    return all(each is None or each < until for each in times)


def _is_stale(around: Circumstances, customs: Customs) -> bool:
    if not around.leader.held or around.leader.since is None:
        return False
    read_at = around.drained_at or around.leader.since
    return around.now - max(read_at, around.leader.since) > customs.stale


def _no_fall(workspace: Workspace, customs: Customs) -> str:
    """Why idleness does not lower it."""
    status, declaration = workspace.status, workspace.declaration
    if declaration.suspend:
        return "nothing by itself: it is suspended"
    if status.operation is not Operation.NONE:
        return f"{RESULT[status.operation]} when {status.operation} is done"
    if status.phase not in (Phase.RUNNING, Phase.STANDBY):
        return _AT_REST.get(status.phase, "nothing by itself")
    if declaration.pinned:
        return "nothing by itself: it is pinned, so idleness does not lower it"
    rest = DesiredState.STANDBY if status.phase is Phase.RUNNING else DesiredState.ARCHIVED
    if ttl_limit(workspace, rest, customs.options) is None:
        return "nothing by itself: its ttl is never"
    return "the coordinator moves it first (see where it is heading); then idleness counts"


_AT_REST: Final = {
    Phase.ARCHIVED: "nothing by itself: an archive stays until somebody wants it back",
    Phase.ERROR: "nothing by itself",
    Phase.PENDING: "it is made first",
}
