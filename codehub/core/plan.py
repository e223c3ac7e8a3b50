"""What applying a spec set would change: a pure function of the hub, the specs and the time.

`admit` decides, `preview` says what that means for one workspace, and this module puts the
whole together: users and the hub itself, drift, the forecast, and what makes it unsafe. Problems
with this hub (`admit.refusals`) are for the caller to raise first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.core.admit import admit
from codehub.core.compare import compare_hubs, compare_users
from codehub.core.detect import detect_drift
from codehub.core.forecast import forecast
from codehub.core.preview import after, preview
from codehub.core.safety import judge_safety
from codehub.core.select import select
from codehub.errors import UsageError
from codehub.model.plan import PASSIVE, Action, Change, Kind, Plan, Summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from codehub.model.admission import Admission
    from codehub.model.plan import Drift, Forecast, PlanOptions
    from codehub.model.revision import HubState, SpecSet
    from codehub.model.workspace import Workspace

_ORDER: Final = {kind: place for place, kind in enumerate(Kind)}


def make_plan(stored: HubState, incoming: SpecSet, *, now: datetime, options: PlanOptions) -> Plan:
    """The plan. With a target it is about the selected workspaces only and prunes no other."""
    if options.as_of is not None and options.as_of < now:
        raise UsageError("--as-of lies in the past", hint="give a time to come, such as +8h")
    chosen = select(admit(stored, incoming), options.target)
    changes = _changes(stored, incoming, chosen, now, options)
    drift = detect_drift((each.existing for each in chosen if each.existing), now)
    revision = stored.revision
    return Plan(
        digest=incoming.digest,
        made_at=now,
        directory=incoming.origin.directory,
        commit=incoming.origin.commit,
        dirty=incoming.origin.dirty,
        hub_id=stored.hub_id,
        base_revision=revision.id if revision else None,
        base_digest=revision.digest if revision else None,
        against_empty=stored.hub_id is None and revision is None and not stored.workspaces,
        target=options.target,
        as_of=options.as_of,
        changes=changes,
        drift=drift,
        forecast=_forecast(chosen, now, options),
        unsafe=judge_safety(stored.workspaces, chosen, changes),
        summary=summarize(changes, drift),
    )


def exit_code(plan: Plan) -> int:
    """For `--exit-code`: 0 nothing to do (held included), 2 changes, 3 drift only, 4 unsafe."""
    if plan.unsafe:
        return 4
    if plan.has_changes:
        return 2
    return 3 if plan.drift else 0


def summarize(changes: Sequence[Change], drift: Sequence[Drift]) -> Summary:
    """Every change counted once as what it does, and again where it waits or is held."""
    actions = [each.action for each in changes]
    return Summary(
        create=actions.count(Action.CREATE) + actions.count(Action.UNDELETE),
        update=actions.count(Action.UPDATE),
        delete=actions.count(Action.DELETE),
        deferred=sum(each.deferred is not None for each in changes),
        held=sum(each.held is not None for each in changes),
        drifted=len({each.name for each in drift}),
    )


def _changes(
    stored: HubState,
    incoming: SpecSet,
    chosen: Iterable[Admission],
    now: datetime,
    options: PlanOptions,
) -> tuple[Change, ...]:
    previews = (preview(each, now=now, options=options) for each in chosen)
    changes = [each for each in previews if each is not None]
    if options.target is None:
        changes.extend(_users(stored, incoming))
        changes.extend(_hub(stored, incoming))
    return tuple(sorted(changes, key=lambda each: (_ORDER[each.kind], each.name, each.action)))


def _users(stored: HubState, incoming: SpecSet) -> Iterator[Change]:
    for name, user in incoming.users.items():
        old = stored.users.get(name)
        fields = compare_users(old, user)
        if old is None or fields:
            action = Action.CREATE if old is None else Action.UPDATE
            yield Change(Kind.USER, name, action, user.source, fields)
    for name, old in stored.users.items():
        if name not in incoming.users and not old.disabled:
            yield Change(Kind.USER, name, Action.DELETE, notes=(_DISABLED,))


_DISABLED: Final = "disabled; sessions and tokens are revoked"


def _hub(stored: HubState, incoming: SpecSet) -> Iterator[Change]:
    fields = compare_hubs(stored.hub, incoming.hub)
    if fields:
        action = Action.CREATE if stored.revision is None else Action.UPDATE
        source = incoming.hub.source if incoming.hub.source.file else None
        yield Change(Kind.HUB, incoming.hub.name, action, source, fields)


def _forecast(
    chosen: Iterable[Admission], now: datetime, options: PlanOptions
) -> tuple[Forecast, ...]:
    if options.as_of is None:
        return ()
    later = _remaining(chosen, now)
    return forecast(later, now=now, until=options.as_of, options=options)


def _remaining(chosen: Iterable[Admission], now: datetime) -> Iterator[Workspace]:
    for each in chosen:
        if each.existing is not None and each.action is not Action.DELETE:
            yield after(each, each.existing, now)


def touched(plan: Plan) -> tuple[Change, ...]:
    """The changes that would write something: what a saved plan is bound to."""
    return tuple(each for each in plan.changes if each.action not in PASSIVE)
