"""Sentences in lines of a common width."""

from __future__ import annotations

import textwrap
from typing import Final

from codehub.render.words import clean

WIDTH: Final = 100


def wrapped(text: str, first: str, rest: str) -> str:
    """`first` and `rest` indent. Long words stay whole: paths and commands are copied from here."""
    lines = textwrap.wrap(
        clean(text),
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines) + "\n"
