"""A workspace's output on a terminal: colours stay, nothing else acts."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.render.output import Harmless

RESET = "\x1b[0m"


def shown(*chunks: bytes) -> str:
    harmless = Harmless()
    return "".join(harmless.text(each) for each in chunks) + harmless.end()


def test_colours_tabs_and_lines_stay() -> None:
    text = "\x1b[1;31mred\x1b[0m\tand\r\nplain\n"
    assert shown(text.encode()) == text + RESET


def test_what_would_act_on_a_terminal_is_shown_instead() -> None:
    assert shown(b"a\x1b[2Jb\x07c\x1b]0;title\x07") == (
        "a\\x1b[2Jb\\x07c\\x1b]0;title\\x07" + RESET
    )


def test_a_lone_return_cannot_overwrite_a_line() -> None:
    assert shown(b"100%\rgone\n") == "100%\\rgone\n" + RESET


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert shown(b"\xff\xfe!") == "\ufffd\ufffd!" + RESET


def test_nothing_is_held_back_for_good() -> None:
    assert shown(b"end\x1b[3") == "end\\x1b[3" + RESET
    assert shown("é".encode()[:1]) == "\ufffd" + RESET


@settings(max_examples=200)
@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=4))
def test_where_chunks_end_makes_no_difference(data: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(data)]
    chunks = [data[one:other] for one, other in pairwise(places)]
    assert shown(*chunks) == shown(data)


@settings(max_examples=200)
@given(st.text(alphabet="\x1b[;0m9Jab\r\n\t\x07", max_size=30))
def test_only_colours_are_left_of_what_acts(text: str) -> None:
    rest = re.sub(r"\x1b\[[0-9;]*m|\r?\n|\t", "", shown(text.encode()))
    assert all(each.isprintable() for each in rest)
