"""One thing that is wrong in the specs, with the place to look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A position in a spec file; `line` and `column` count from 1, 0 means the whole file."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        parts = [self.file] + [str(n) for n in (self.line, self.column) if n]
        return ":".join(parts)


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """`specs/a.yaml:12:7: spec.ttl: unknown policy "x"`, with the line itself when it is known."""

    place: Place
    field: str
    message: str
    excerpt: str | None = None

    def __str__(self) -> str:
        head = f"{self.place}: "
        return head + (f"{self.field}: {self.message}" if self.field else self.message)


@dataclass(frozen=True, slots=True)
class Fault:
    """A problem before its place is known: `path` leads to it inside its document.

    `at_key` says that the key itself is wrong, not what stands under it.
    """

    path: tuple[str | int, ...]
    message: str
    at_key: bool = False

    @property
    def field(self) -> str:
        """The path as people write it: `spec.webhooks[0].url`."""
        text = ""
        for part in self.path:
            text += f"[{part}]" if isinstance(part, int) else f".{part}"
        return text.removeprefix(".")


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """By place, each once; lines of the file do not decide."""
    return sorted(set(problems), key=lambda each: (each.place, each.field, each.message))
