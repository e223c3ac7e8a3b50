"""What is shown of text, times and sizes that come from elsewhere."""

from __future__ import annotations

import unicodedata
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.core.express import long, seconds, short, size
from codehub.errors import CodeHubError
from codehub.render.words import ago, clean, counted, shorten
from codehub.resources import example_specs_directory, template_directory


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, 한글, naïve", "plain, 한글, naïve"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\u202eevil", "\\u202eevil"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_could_deceive_is_shown(text: str, shown: str) -> None:
    assert clean(text) == shown


@given(st.text(alphabet=st.characters()))
@settings(max_examples=300)
def test_nothing_that_controls_survives(text: str) -> None:
    categories = {unicodedata.category(each) for each in clean(text)}
    assert categories.isdisjoint({"Cc", "Cs", "Zl", "Zp"})
    assert clean(clean(text)) == clean(text)


def test_no_character_that_turns_the_direction_survives() -> None:
    turning = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI", "BN"}
    every = (chr(code) for code in range(0x110000))
    left = [each for each in every if unicodedata.bidirectional(each) in turning]
    assert [each for each in left if clean(each) == each] == []


@pytest.mark.parametrize(
    ("span", "in_short", "in_words"),
    [
        (timedelta(hours=4, minutes=12, seconds=5), "4h12m", "4 hours"),
        (timedelta(hours=1, seconds=5), "1h", "1 hour"),
        (timedelta(days=3, hours=2), "3d2h", "3 days"),
        (timedelta(seconds=45), "45s", "45 seconds"),
        (timedelta(minutes=2), "2m", "2 minutes"),
        (timedelta(0), "0s", "0 seconds"),
        (timedelta(seconds=-5), "0s", "0 seconds"),
    ],
)
def test_a_span_in_short_and_in_words(span: timedelta, in_short: str, in_words: str) -> None:
    assert (short(span), long(span)) == (in_short, in_words)


@pytest.mark.parametrize(
    ("count", "text"),
    [(90, "90s"), (600, "10m"), (10800, "3h"), (86400, "24h"), (604800, "7d"), (3601, "3601s")],
)
def test_seconds_as_a_spec_writes_them(count: int, text: str) -> None:
    assert seconds(count) == text


@pytest.mark.parametrize(
    ("count", "text"), [(4 << 30, "4Gi"), (512 << 20, "512Mi"), (1025, "1025"), (2048, "2Ki")]
)
def test_bytes_as_a_spec_writes_them(count: int, text: str) -> None:
    assert size(count) == text


def test_small_words() -> None:
    assert ago(timedelta(hours=2)) == "2h ago"
    assert ago(timedelta(0)) == "just now"
    assert (counted(1, "workspace"), counted(2, "workspace")) == ("1 workspace", "2 workspaces")
    assert (shorten("abcdef", 4), shorten("abc", 4)) == ("abc…", "abc")


def test_the_shipped_files_are_found() -> None:
    assert (template_directory() / "plan.html.j2").is_file()
    assert example_specs_directory().name == "specs"


def test_an_installation_without_its_files_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from codehub import resources

    monkeypatch.setattr(resources, "_PACKAGE", resources._PACKAGE / "model")
    with pytest.raises(CodeHubError, match="lacks its templates/ directory"):
        template_directory()
