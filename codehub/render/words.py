"""Making text safe to look at: nothing that was typed elsewhere may move a reader's cursor.

Names, values and messages come from files that anyone with commit rights may write. Control
characters could drive a terminal, bidirectional marks could make a line read as another one, and
invisible characters could hide a difference. All of them are shown as escapes instead.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from codehub.core.express import short

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import timedelta

# Controls, soft hyphen, Arabic letter mark, Mongolian vowel separator, zero widths, bidirectional
# marks, line and paragraph separators, invisible operators, fillers, surrogates, the byte order
# mark, interlinear marks, variation selectors, shorthand and musical format marks, and tags.
DECEPTIVE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_FIRST_WORD: Final = re.compile(r"[a-z0-9-]*")
_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def clean(text: str) -> str:
    """The text with everything invisible or active shown as an escape."""
    return DECEPTIVE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    code = ord(character)
    if character in _NAMED:
        return _NAMED[character]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def capital(text: str, names: Collection[str] = ()) -> str:
    """With a capital letter, unless it begins with one of these names: they stay as they are."""
    begins = _FIRST_WORD.match(text)
    if begins is not None and begins[0] in names:
        return text
    return text[:1].upper() + text[1:]


def ago(span: timedelta) -> str:
    """`2h5m ago`; `just now` below a second."""
    return f"{short(span)} ago" if span.total_seconds() >= 1 else "just now"


def shorten(text: str, width: int) -> str:
    """The text, cut with an ellipsis where it is longer than `width`."""
    return text if len(text) <= width else text[: max(1, width - 1)] + "…"


def counted(count: int, word: str) -> str:
    """`1 workspace`, `2 workspaces`."""
    return f"{count} {word}{'' if count == 1 else 's'}"
