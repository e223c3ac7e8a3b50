"""What happened in a window of time, counted: spans, the mix of phases, hours run, hours saved.

Every workspace is followed through its moves: the first phase it left tells where it was before,
one without moves was where it is now. Deleted ones count for as long as they were there.

**Saved by TTL** is the time that a workspace spent in STANDBY or ARCHIVED after it left RUNNING
because a TTL had asked for it (the last move of its desired state came from `ttl`), until it ran
again, until somebody else (a person, a visit, a spec) asked anything of it, or until the window
ended. So it is at most what would have run without TTLs, and never what a person had stopped:
that a TTL archives it later saves room, but no running.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from codehub.core.slice import Slicer
from codehub.model.events import EventKind
from codehub.model.history import History, Opening, Span, Timeline, Usage
from codehub.model.states import IntentSource, Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from uuid import UUID

    from codehub.model.history import Move, Past
    from codehub.model.workspace import Workspace

REST: Final = frozenset({Phase.STANDBY, Phase.ARCHIVED})
MOST_TIMELINES: Final = 20

_PHASES: Final = {each.value: each for each in Phase}
_HOUR: Final = timedelta(hours=1)
_UNKNOWN: Final = Opening(told=False, asleep=False)


def recount(past: Past, workspaces: Iterable[Workspace], most: int = MOST_TIMELINES) -> History:
    """The window's history; `workspaces` are those there now, deleted ones included.

    Where nothing is as old as the window, it starts with the first workspace. Of those that are
    there, the `most` that changed most have a timeline.
    """
    lives = _lives(past, workspaces)
    window = _window(past, lives.values())
    slicer = Slicer(*window)
    usage = {key: _count(life, slicer) for key, life in lives.items()}
    timelines, more = _timelines(lives, usage, most)
    return History(
        *window,
        mix=slicer.fine(),
        steps=slicer.coarse(),
        timelines=timelines,
        more=more,
        usage=usage,
        run=sum(each.run for each in usage.values()),
        saved=sum(each.saved for each in usage.values()),
        lowered=sum(map(_rests, past.moves)),
        cut=past.cut,
    )


@dataclass(slots=True)
class _Life:
    """One workspace within the window; `present` is None for one that is purged."""

    present: Workspace | None
    begin: datetime
    end: datetime
    opening: Opening
    moves: Sequence[Move] = ()

    def stays(self) -> Iterator[tuple[Phase, datetime, datetime, bool]]:
        """Where it was, from when to when, without gaps, and whether that was saved by a TTL."""
        phase, at = self._first_phase(), self.begin
        told, asleep = self.opening.told, self.opening.asleep
        for move in self.moves:
            # Times are those of transactions and may be a moment out of order; a stay never is.
            moment = min(max(move.at, at), self.end)
            if at < moment:
                yield phase, at, moment, asleep and phase in REST
                at = moment
            if move.kind is EventKind.PHASE:
                asleep = told if move.old == Phase.RUNNING else asleep
                phase = _phase(move.new)
                asleep = asleep and phase is not Phase.RUNNING
            else:
                told = _rests(move)
                asleep = asleep and told
        if at < self.end:
            yield phase, at, self.end, asleep and phase in REST

    def _first_phase(self) -> Phase:
        for move in self.moves:
            if move.kind is EventKind.PHASE:
                return _phase(move.old)
        return self.present.status.phase if self.present is not None else Phase.DELETED

    def spans(self) -> tuple[Span, ...]:
        """Its stays; two in the same phase are one span."""
        found: list[Span] = []
        for phase, since, until, _ in self.stays():
            joins = found and found[-1].phase is phase
            found.append(Span(phase, found.pop().since if joins else since, until))
        return tuple(found)


def _lives(past: Past, workspaces: Iterable[Workspace]) -> dict[UUID, _Life]:
    moves: dict[UUID, list[Move]] = defaultdict(list)
    for move in past.moves:
        moves[move.workspace_id].append(move)
    present = {each.id: each for each in workspaces}
    return {
        key: _Life(
            present.get(key),
            _begin(past, moves.get(key, ()), present.get(key)),
            past.until,
            past.openings.get(key, _UNKNOWN),
            moves.get(key, ()),
        )
        for key in (*present, *(key for key in moves if key not in present))
    }


def _begin(past: Past, moves: Sequence[Move], present: Workspace | None) -> datetime:
    born = present.created_at if present is not None else None
    if moves:
        first = moves[0]
        # The first word on a workspace comes with it.
        if born is None and first.kind is EventKind.DESIRED and not first.old:
            born = first.at
        born = None if born is None else min(born, first.at)
    return past.since if born is None else min(max(born, past.since), past.until)


def _phase(word: str) -> Phase:
    """Where an undeleted or imported one comes from has no name: there was nothing."""
    return _PHASES.get(word, Phase.DELETED)


def _rests(move: Move) -> bool:
    """Whether it is a TTL's word, to rest: a TTL also takes its word back."""
    return (
        move.source == IntentSource.TTL
        and move.kind is EventKind.DESIRED
        and move.new != Phase.RUNNING
    )


def _window(past: Past, lives: Iterable[_Life]) -> tuple[datetime, datetime]:
    """From the first that there was to tell of, but no shorter than an hour."""
    first = min((life.begin for life in lives), default=past.since)
    return max(past.since, min(first, past.until - _HOUR)), past.until


def _count(life: _Life, slicer: Slicer) -> Usage:
    run = saved = timedelta(0)
    for phase, since, until, by_ttl in life.stays():
        if phase is Phase.DELETED:
            continue
        slicer.add(phase, since, until, saved=by_ttl)
        if phase is Phase.RUNNING:
            run += until - since
        elif by_ttl:
            saved += until - since
    changes = sum(move.kind is EventKind.PHASE for move in life.moves)
    return Usage(run / _HOUR, saved / _HOUR, changes)


def _timelines(
    lives: Mapping[UUID, _Life], usage: Mapping[UUID, Usage], most: int
) -> tuple[tuple[Timeline, ...], int]:
    """Those of the ones that changed most, then ran longest, by name; and how many there are more.

    What is deleted has none.
    """
    shown = [
        (each, life)
        for life in lives.values()
        if (each := life.present) is not None and each.status.phase is not Phase.DELETED
    ]
    shown.sort(key=lambda pair: pair[0].name)
    chosen = sorted(shown, key=lambda pair: (-usage[pair[0].id].changes, -usage[pair[0].id].run))[
        :most
    ]
    chosen.sort(key=lambda pair: pair[0].name)
    found = (Timeline(each.name, each.declaration.owner, life.spans()) for each, life in chosen)
    return tuple(found), len(shown) - len(chosen)
