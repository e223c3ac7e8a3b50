"""Words that pages put together by themselves."""

from __future__ import annotations

from datetime import timedelta

import pytest

from codehub.model.history import History
from codehub.render.pages import spoken
from codehub.render.report_html import window
from codehub.render.words import capital
from tests.make import NOW


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("it is asleep", "It is asleep"),
        ("alice may run 2", "alice may run 2"),
        ("alice's limit is 2", "alice's limit is 2"),
        ("alice-2 may run 2", "Alice-2 may run 2"),
        ("web: it failed", "web: it failed"),
        ("", ""),
    ],
)
def test_a_sentence_begins_with_a_capital_letter_or_a_name(text: str, shown: str) -> None:
    assert capital(text, ("alice", "web")) == shown
    assert spoken(text, ("alice", "web")).unescape() == shown


@pytest.mark.parametrize(
    ("length", "said"),
    [
        (timedelta(days=7), "the last 7 days"),
        (timedelta(days=1, hours=2, minutes=5), "the last 26 hours"),
        (timedelta(hours=1, minutes=40), "the last hour"),
        (timedelta(minutes=2), "the last 2 minutes"),
        (timedelta(seconds=3), "the last minute"),
    ],
)
def test_how_far_a_report_looks_back(length: timedelta, said: str) -> None:
    assert window(History(NOW - length, NOW)) == said
