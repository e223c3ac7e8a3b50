"""One thing that is wrong in the specs, with the place to look at."""

from __future__ import annotations

from dataclasses import dataclass


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
