"""Decide what must not be shown, and show the rest safely.

Messages about specs end up in terminals, CI logs, the database and on pages. What stands below
`env`, `passwordHash` and the like is never repeated there, nor a line that looks like it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_KEY: Final = re.compile(r"pass|secret|token|credential|api[-_]?key|private|webhook|\benv", re.I)
_TEXT: Final = re.compile(
    r"passw|passphrase|secret|token|credential|api[-_]?key|private[-_]?key|\$argon2|-----BEGIN"
    r"|://[^/\s]*@",
    re.I,
)

SHOWN: Final = 48
"""Characters of a value that a message repeats; a longer one is cut."""


def is_secret_key(key: str) -> bool:
    """Whether what stands under this key may be a secret (misspelt keys included)."""
    return _KEY.search(key) is not None


def is_secret_path(path: Iterable[str | int]) -> bool:
    """Whether any key on the way to a value is a secret one."""
    return any(isinstance(part, str) and is_secret_key(part) for part in path)


def is_secret_text(text: str) -> bool:
    """Whether a text by itself looks like a secret or speaks of one."""
    return _TEXT.search(text) is not None


def shown(value: object) -> str:
    """A value as a message may repeat it: quoted, short, one line, printable."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value) if abs(value) < 10**15 else "a number that large"
    if isinstance(value, str):
        return quoted(value)
    return "a list" if isinstance(value, list) else "a mapping"


def quoted(text: str) -> str:
    """A word in quotes, cut and with nothing in it that could act on a terminal."""
    if is_secret_text(text):
        return "what was given (withheld)"
    cut = text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
    return f'"{printable(cut)}"'


def printable(text: str) -> str:
    """The text with nothing in it that could act on a terminal or reorder what is shown."""
    return "".join(each if each.isprintable() else "�" for each in text)
