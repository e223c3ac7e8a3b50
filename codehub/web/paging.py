"""Where a page goes on: the key of its last row, which clients pass back as they got it.

A key stands for a place in the order and not for a number of rows, so nothing is told twice when
something is added meanwhile. One that is long gone still has its place.
"""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query

MOST: Final = 500
USUAL: Final = 100
LIMIT_WORDS: Final = "At most so many."
CURSOR_WORDS: Final = "`next` of the page before, as it came."

Limit = Annotated[int, Query(ge=1, le=MOST, description=LIMIT_WORDS, examples=[50])]
IdCursor = Annotated[
    str | None, Query(pattern=r"^[0-9]{1,18}$", description=CURSOR_WORDS, examples=["4711"])
]
"""How lists by number go on; eighteen digits always fit into the database's integers."""
