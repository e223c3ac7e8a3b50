"""The report's charts as inline SVG, written by hand: no script, no style attribute, no library.

Across, everything is in percent and down in pixels, so that bars stretch with the page while text
keeps its size. Colours come from classes, hence light, dark and print. What a chart says is also
in its title and description, and in a table beside it. A phase is told by the height of its bar as
well as by its colour.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import floor, log10
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from codehub.core.express import short
from codehub.model.history import Span
from codehub.model.states import Phase
from codehub.render.words import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from codehub.model.history import History, Slice, Timeline

STACK: Final = (
    *(Phase.RUNNING, Phase.STANDBY, Phase.ARCHIVED, Phase.PENDING),
    *(Phase.DELETING, Phase.ERROR),
)
"""The phases as they are stacked, from the ground up."""

_STRIP: Final = 18
_HEIGHTS: Final = {
    Phase.RUNNING: 18,
    Phase.STANDBY: 10,
    Phase.ARCHIVED: 4,
    Phase.PENDING: 4,
    Phase.DELETING: 4,
    Phase.ERROR: 18,
}
_MOST_SPANS: Final = 150
_COLUMNS: Final = 300
_PLOT: Final = 150
_TOP: Final = 18
_FOOT: Final = 18
_LABELLED_BARS: Final = 10
_LABELLED_WIDTH: Final = 10.0
_LABELLED_HEIGHT: Final = 16
_OVERLAP: Final = 0.2
_TICKS: Final = (
    *(timedelta(minutes=10), timedelta(minutes=30), timedelta(hours=1), timedelta(hours=3)),
    *(timedelta(hours=6), timedelta(hours=12), timedelta(days=1), timedelta(days=2)),
    *(timedelta(days=7), timedelta(days=14), timedelta(days=28), timedelta(days=56)),
)
_MOST_TICKS: Final = 8
_MONDAY: Final = datetime(1970, 1, 5, tzinfo=UTC)


def hours(count: float) -> str:
    """A number of hours, as exact as it need be; of less than one, the minutes or seconds."""
    if count >= 10 or count == 0:
        return f"{count:,.0f} h"
    if count >= 0.95:
        return f"{count:.1f} h"
    return f"{count * 60:.0f} min" if count * 60 >= 1 else f"{count * 3600:.0f} s"


def number(count: float) -> str:
    """An average number of workspaces: `3.5`, `12`."""
    return f"{count:,.0f}" if count >= 10 or count == int(count) else f"{count:.1f}"


def average(piece: Slice, phase: Phase) -> float:
    """How many were in a phase at once, on the average over the slice."""
    length = (piece.until - piece.since) / timedelta(hours=1)
    return piece.hours.get(phase, 0.0) / length if length else 0.0


def was(history: History, phase: Phase) -> bool:
    """Whether anybody was in this phase."""
    return any(phase in each.hours for each in history.mix)


def on_a_way(history: History, phase: Phase) -> bool:
    """Whether any of the workspaces with a timeline was."""
    return any(span.phase is phase for each in history.timelines for span in each.spans)


def strip(timeline: Timeline, history: History) -> Markup:
    """One workspace's way through the phases."""
    bars = Markup("").join(_bars(timeline, history))
    lines = Markup("").join(
        Markup('<line class="tick" x1="{0}%" x2="{0}%" y1="0" y2="{1}"/>').format(_place(x), _STRIP)
        for x, _ in _ticks(history)
    )
    return Markup(
        '<svg class="strip" role="img" width="100%" height="{}">'
        '<title>{}</title><g shape-rendering="crispEdges">{}{}</g></svg>'
    ).format(_STRIP, clean(f"{timeline.name}: {_spent(timeline.spans)}"), lines, bars)


def _bars(timeline: Timeline, history: History) -> Iterator[Markup]:
    for span in _drawn(timeline.spans, history):
        if span.phase is Phase.DELETED:
            continue
        left, right = (_percent(each, history) for each in (span.since, span.until))
        height = _HEIGHTS[span.phase]
        words = f"{span.phase.value}, {_clock(span.since)} to {_clock(span.until)}"
        yield Markup(
            '<rect class="{}" x="{}%" width="{}%" y="{}" height="{}"><title>{}</title></rect>'
        ).format(
            _class(span.phase), _place(left), _place(right - left), _STRIP - height, height, words
        )


def _drawn(spans: Sequence[Span], history: History) -> Sequence[Span]:
    """The spans; of too many for the eye, where it was for most of each small part of the time."""
    if len(spans) <= _MOST_SPANS:
        return spans
    step = (history.until - history.since) / _COLUMNS
    found: list[Span] = []
    rest = list(reversed(spans))
    for column in range(_COLUMNS):
        since = history.since + column * step
        phase = _longest(rest, since, since + step)
        if phase is None:
            continue
        joins = found and found[-1].phase is phase and found[-1].until == since
        found.append(Span(phase, found.pop().since if joins else since, since + step))
    return found


def _longest(rest: list[Span], since: datetime, until: datetime) -> Phase | None:
    """The phase of most of this time; spans that end before it are taken off `rest`."""
    spent: dict[Phase, timedelta] = {}
    while rest and rest[-1].since < until:
        span = rest[-1]
        length = min(span.until, until) - max(span.since, since)
        if length > timedelta(0):
            spent[span.phase] = spent.get(span.phase, timedelta(0)) + length
        if span.until > until:
            break
        rest.pop()
    return max(spent, key=spent.__getitem__, default=None)


def _spent(spans: Iterable[Span]) -> str:
    """`RUNNING for 3h, STANDBY for 6d`."""
    total: dict[Phase, timedelta] = {}
    for span in spans:
        total[span.phase] = total.get(span.phase, timedelta(0)) + (span.until - span.since)
    told = (each for each in (*STACK, Phase.DELETED) if each in total)
    return ", ".join(f"{each.value} for {short(total[each])}" for each in told) or "new"


def axis(history: History) -> Markup:
    """The days or hours under the strips."""
    return Markup('<svg class="axis" aria-hidden="true" width="100%" height="{}">{}</svg>').format(
        _FOOT, _labels(history, 13)
    )


def mix(history: History) -> Markup:
    """How many workspaces were in each phase, over time."""
    totals = [sum(average(each, phase) for phase in STACK) for each in history.mix]
    top = ceiling(max(totals, default=0.0))
    bars = Markup("").join(bar for piece in history.mix for bar in _stack(piece, history, top))
    return _plot(
        "mix",
        "Workspaces by phase over time",
        f"{_window(history)}. On the average {_averages(history)}.",
        Markup("").join((_grid(top, number), bars, _labels(history, _TOP + _PLOT + 14))),
    )


def _stack(piece: Slice, history: History, top: float) -> Iterator[Markup]:
    left, right = _percent(piece.since, history), _percent(piece.until, history)
    # Under the edge of the next one: rounded to pixels, the two would leave a gap.
    right = min(right + _OVERLAP, 100.0)
    ground = 0.0
    for phase in STACK:
        count = average(piece, phase)
        if count:
            yield _bar(_class(phase), left, right, ground, ground + count, top)
            ground += count


def _averages(history: History) -> str:
    length = (history.until - history.since) / timedelta(hours=1) or 1.0
    spent = {phase: sum(each.hours.get(phase, 0.0) for each in history.mix) for phase in STACK}
    told = (
        f"{number(round(spent[each] / length, 1))} {each.value}" for each in STACK if spent[each]
    )
    return ", ".join(told) or "nothing was there"


def savings(history: History) -> Markup:
    """The hours that ran and those that a TTL saved, step by step."""
    totals = [each.hours.get(Phase.RUNNING, 0.0) + each.saved for each in history.steps]
    top = ceiling(max(totals, default=0.0))
    labelled = len(history.steps) <= _LABELLED_BARS
    bars = Markup("").join(
        bar for each in history.steps for bar in _pair(each, history, top, labelled=labelled)
    )
    return _plot(
        "savings",
        "Hours run and hours saved by TTL",
        f"{_window(history)}: {hours(history.run)} run, {hours(history.saved)} saved.",
        Markup("").join((_grid(top, hours), bars, _labels(history, _TOP + _PLOT + 14))),
    )


def _pair(piece: Slice, history: History, top: float, *, labelled: bool) -> Iterator[Markup]:
    left, right = _percent(piece.since, history), _percent(piece.until, history)
    # A little air on both sides, so that they read as bars.
    air = (right - left) * 0.12
    run = piece.hours.get(Phase.RUNNING, 0.0)
    if run:
        yield _bar("v-running", left + air, right - air, 0, run, top)
    if piece.saved:
        yield _bar("v-saved", left + air, right - air, run, run + piece.saved, top)
        # Within what it counts: above the bar it would be read as all of it.
        room = _PLOT * piece.saved / top
        if labelled and right - left >= _LABELLED_WIDTH and room >= _LABELLED_HEIGHT:
            yield Markup('<text class="value" x="{}%" y="{}">{}</text>').format(
                _place((left + right) / 2),
                round(_height(run + piece.saved / 2, top) + 4, 1),
                hours(piece.saved),
            )


def swatch(kind: str) -> Markup:
    """A patch of a legend; `kind` is a phase in small letters, or `saved`."""
    return Markup(
        '<svg class="swatch" width="12" height="12" aria-hidden="true">'
        '<rect class="v-{}" width="12" height="12" rx="2"/></svg>'
    ).format(kind)


def ceiling(count: float) -> float:
    """The end of a scale: the next 1, 2, 4, 5 or 10 times a power of ten."""
    if count <= 0:
        return 1.0
    power = 10.0 ** floor(log10(count))
    return next(each * power for each in (1, 2, 4, 5, 10, 20) if each * power >= count)


def _plot(name: str, title: str, words: str, content: Markup) -> Markup:
    return Markup(
        '<svg class="plot" role="img" aria-labelledby="{0}-title" aria-describedby="{0}-words" '
        'width="100%" height="{1}"><title id="{0}-title">{2}</title>'
        '<desc id="{0}-words">{3}</desc>{4}</svg>'
    ).format(name, _TOP + _PLOT + _FOOT, title, words, content)


def _bar(kind: str, left: float, right: float, low: float, high: float, top: float) -> Markup:
    bottom, upper = _height(low, top), _height(high, top)
    return Markup(
        '<rect class="{}" x="{}%" width="{}%" y="{:.2f}" height="{:.2f}" '
        'shape-rendering="crispEdges"/>'
    ).format(kind, _place(left), _place(right - left), upper, bottom - upper)


def _grid(top: float, words: Callable[[float], str]) -> Markup:
    return Markup("").join(
        Markup(
            '<line class="grid" x1="0" x2="100%" y1="{0}" y2="{0}"/>'
            '<text class="scale" x="-6" y="{1}">{2}</text>'
        ).format(_height(count, top), _height(count, top) + 4, words(count))
        for count in (top / 2, top)
    ) + Markup('<line class="ground" x1="0" x2="100%" y1="{0}" y2="{0}"/>').format(_TOP + _PLOT)


def _height(count: float, top: float) -> float:
    return _TOP + _PLOT * (1 - count / top)


def _labels(history: History, y: int) -> Markup:
    """The words of the time axis; narrow screens show every second one."""
    return Markup("").join(
        Markup('<text class="{}" x="{}%" y="{}">{}</text>').format(
            "when" if place % 2 == 0 else "when between", _place(x), y, words
        )
        for place, (x, words) in enumerate(each for each in _ticks(history) if 3 < each[0] < 97)
    )


def _ticks(history: History) -> Iterator[tuple[float, str]]:
    """Full hours, days or weeks within the window: where, and what they are called."""
    length = history.until - history.since
    step = next((each for each in _TICKS if length / each <= _MOST_TICKS), _TICKS[-1])
    at = history.since - (history.since - _MONDAY) % step + step
    while at < history.until:
        midnight = at.hour == at.minute == 0
        yield _percent(at, history), f"{at:%b} {at.day}" if midnight else f"{at:%H:%M}"
        at += step


def _percent(at: datetime, history: History) -> float:
    length = history.until - history.since
    return 100 * ((at - history.since) / length) if length else 0.0


def _place(percent: float) -> str:
    return f"{percent:.3f}".rstrip("0").rstrip(".")


def _class(phase: Phase) -> str:
    return f"v-{phase.value.lower()}"


def _clock(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"


def _window(history: History) -> str:
    return f"From {_clock(history.since)} to {_clock(history.until)} UTC"
