"""Why a file was left as it is: the one error of `codehub fmt`'s own."""

from __future__ import annotations

from typing import Final

CHANGED: Final = "putting it in order would change what it says"


class CannotFormat(Exception):
    """The text cannot be put in order without losing or changing something.

    `line` counts from 0. It never leaves codehub.specs: fmt makes a Problem of it.
    """

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason
