"""The charts as SVG: what they draw, what they say to those who cannot see them, and no more."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from codehub.core.recount import recount
from codehub.model.history import History, Past, Span, Timeline
from codehub.model.states import Phase
from codehub.render import charts
from tests.make import NOW
from tests.snapshots import report_cases

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

DAY = timedelta(days=1)


class SvgFile(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "svg"


@pytest.fixture
def svg_snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(SvgFile)


def history() -> History:
    found = report_cases.everything().history
    assert found is not None
    return found


def lines(text: str) -> str:
    """One element a line, to be read."""
    return text.replace("><", ">\n<") + "\n"


def rects(text: str) -> list[dict[str, str]]:
    return [each.attrib for each in ElementTree.fromstring(text).iter("rect")]


def percent(value: str) -> float:
    return float(value.removesuffix("%"))


def test_strip(svg_snapshot: SnapshotAssertion) -> None:
    way = next(each for each in history().timelines if each.name == "payments-api")
    drawn = charts.strip(way, history())
    assert "<title>payments-api: RUNNING for 5d5h, STANDBY for 1d18h</title>" in drawn
    assert lines(drawn) == svg_snapshot


def test_savings(svg_snapshot: SnapshotAssertion) -> None:
    drawn = charts.savings(history())
    assert "754 h run, 350 h saved." in drawn
    assert lines(drawn) == svg_snapshot


def test_a_number_stands_in_what_it_counts() -> None:
    """Above a bar of two parts it would be read as both together."""
    found = report_cases.busy().history
    assert found is not None
    drawn = ElementTree.fromstring(charts.savings(found))
    saved = [each.attrib for each in drawn.iter("rect") if each.get("class") == "v-saved"]
    told = [each for each in drawn.iter("text") if each.get("class") == "value"]
    assert len(told) == 6
    for each in told:
        x, y = percent(each.attrib["x"]), float(each.attrib["y"])
        (bar,) = (bar for bar in saved if 0 < x - percent(bar["x"]) < percent(bar["width"]))
        assert float(bar["y"]) + 10 < y < float(bar["y"]) + float(bar["height"])


def test_mix(svg_snapshot: SnapshotAssertion) -> None:
    drawn = charts.mix(history())
    assert "On the average 4.5 RUNNING" in drawn
    assert lines(drawn) == svg_snapshot


def test_axis(svg_snapshot: SnapshotAssertion) -> None:
    drawn = charts.axis(history())
    assert "Oct 26" in drawn
    assert lines(drawn) == svg_snapshot


ALL = {
    "strip": lambda: charts.strip(history().timelines[0], history()),
    "axis": lambda: charts.axis(history()),
    "mix": lambda: charts.mix(history()),
    "savings": lambda: charts.savings(history()),
    "swatch": lambda: charts.swatch("saved"),
}


@pytest.mark.parametrize("name", ALL)
def test_a_chart_is_well_formed_and_has_no_style_or_script(name: str) -> None:
    root = ElementTree.fromstring(ALL[name]())
    for each in root.iter():
        assert each.tag in {"svg", "g", "rect", "line", "text", "title", "desc"}
        assert not {key for key in each.attrib if key == "style" or key.startswith("on")}
        assert "href" not in each.attrib


@pytest.mark.parametrize("name", ALL)
def test_a_chart_is_a_picture_with_a_name_or_is_not_read_out(name: str) -> None:
    root = ElementTree.fromstring(ALL[name]())
    named = root.get("role") == "img" and root.findtext("title")
    assert bool(named) != (root.get("aria-hidden") == "true")


def test_bars_lie_within_the_picture_and_stand_on_each_other() -> None:
    for drawn in (charts.mix(history()), charts.savings(history())):
        for each in rects(drawn):
            assert 0 <= percent(each["x"]) < 100
            assert percent(each["x"]) + percent(each["width"]) <= 100.01
            assert 17 <= float(each["y"]) <= 168
            assert float(each["y"]) + float(each["height"]) <= 168.02


def test_a_strip_is_filled_from_end_to_end() -> None:
    for each in history().timelines:
        found = rects(charts.strip(each, history()))
        assert percent(found[0]["x"]) == 0
        assert sum(percent(each["width"]) for each in found) == pytest.approx(100, abs=0.1)


def test_what_was_not_there_yet_is_not_drawn() -> None:
    gone = Span(Phase.DELETED, NOW - 7 * DAY, NOW - DAY)
    back = Timeline("api", "alice", (gone, Span(Phase.ARCHIVED, NOW - DAY, NOW)))
    (bar,) = rects(charts.strip(back, history()))
    assert percent(bar["x"]) == pytest.approx(100 * 6 / 7, abs=0.01)


def test_too_many_spans_for_the_eye_are_drawn_as_fewer() -> None:
    minute = timedelta(minutes=1)
    spans = tuple(
        Span(
            Phase.RUNNING if number % 2 else Phase.STANDBY,
            NOW - 7 * DAY + number * minute,
            NOW - 7 * DAY + (number + 1) * minute,
        )
        for number in range(7 * 24 * 60)
    )
    found = rects(charts.strip(Timeline("api", "alice", spans), history()))
    assert 1 <= len(found) <= 300
    assert percent(found[0]["x"]) == 0
    assert percent(found[-1]["x"]) + percent(found[-1]["width"]) == pytest.approx(100, abs=0.1)


def test_a_rare_phase_is_drawn_where_it_was_for_most_of_the_time() -> None:
    tiny = tuple(
        Span(
            Phase.RUNNING if number % 2 else Phase.STANDBY,
            NOW - 7 * DAY + number * timedelta(seconds=1),
            NOW - 7 * DAY + (number + 1) * timedelta(seconds=1),
        )
        for number in range(200)
    )
    rest = Span(Phase.ARCHIVED, tiny[-1].until, NOW)
    found = rects(charts.strip(Timeline("api", "alice", (*tiny, rest)), history()))
    assert [each["class"] for each in found] == ["v-archived"]


def test_an_empty_history_can_be_drawn() -> None:
    empty = recount(Past(NOW - DAY, NOW), ())
    assert rects(charts.mix(empty)) == []
    assert rects(charts.savings(empty)) == []
    assert "nothing was there" in charts.mix(empty)


@pytest.mark.parametrize("days", [1, 2, 3, 7, 14, 30, 60, 90, 180, 366])
def test_the_axis_of_any_window_has_a_few_labels(days: int) -> None:
    drawn = charts.axis(replace(history(), since=NOW - days * DAY))
    assert 3 <= drawn.count("<text") <= 8


@pytest.mark.parametrize(
    ("count", "top"),
    [(0, 1), (0.3, 0.4), (1, 1), (1.1, 2), (7, 10), (10, 10), (11, 20), (450, 500), (9999, 10_000)],
)
def test_scales_end_at_round_numbers(count: float, top: float) -> None:
    assert charts.ceiling(count) == pytest.approx(top)


@pytest.mark.parametrize(
    ("count", "words"),
    [
        *((0, "0 h"), (0.0005, "2 s"), (0.02, "1 min"), (0.25, "15 min"), (0.94, "56 min")),
        *((0.95, "0.9 h"), (1, "1.0 h"), (9.94, "9.9 h"), (1234.5, "1,234 h")),
    ],
)
def test_hours(count: float, words: str) -> None:
    assert charts.hours(count) == words
