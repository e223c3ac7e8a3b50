"""What a failed workspace said last, short and without its secrets, for an error message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_LINES, _LENGTH = 5, 400
_SHORTEST_SECRET: Final = 4
_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x1f\x7f-\x9f]")


def last_words(output: bytes, hide: Iterable[str]) -> str:
    """The last lines as one short line, without any of the hidden values."""
    text = without(output.decode(errors="replace"), hide)
    lines = [_CONTROL.sub("", line).strip() for line in text.splitlines()]
    said = " | ".join([line for line in lines if line][-_LINES:])
    return said if len(said) <= _LENGTH else "…" + said[-_LENGTH:]


def without(text: str, hide: Iterable[str]) -> str:
    """The text with the hidden values, and each of their lines, replaced."""
    secrets = {part for value in hide for part in (value, *value.splitlines())}
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "***")
    return text
