"""Find where in a file something stands: the second, slower look, taken only to report.

It walks the events once more and remembers the place of every key and value, and which lines may
hold a secret and must not be shown. A file that is no YAML gets as far as it goes; where it
breaks, the lines around a secret are withheld more freely, since its structure is a guess.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from yaml import YAMLError
from yaml.events import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from codehub.core.withhold import is_secret_key, is_secret_text, printable
from codehub.specs import caps
from codehub.specs.diagnose import split_lines
from codehub.specs.parse import EventParser

if TYPE_CHECKING:
    from codehub.model.problem import Fault


@dataclass(slots=True)
class Spot:
    """Where a value stands, where its key does, and what is inside it."""

    key: tuple[int, int]
    value: tuple[int, int]
    inside: dict[str | int, Spot] = field(default_factory=dict)


class Layout:
    """The places in one file."""

    def __init__(self, content: bytes) -> None:
        self._lines = split_lines(content.decode(errors="replace").removeprefix("\ufeff"))
        walk = _Walk(content)
        self._documents = walk.documents
        self._secret = walk.secret
        self._broken_in_secret = walk.broken and any(map(is_secret_key, walk.keys))

    def find(self, number: int, fault: Fault) -> tuple[int, int]:
        """Line and column of a fault; of the nearest thing around it where it is missing."""
        spot = self._documents[number] if number < len(self._documents) else None
        if spot is None:
            return 0, 0
        for part in fault.path:
            inner = spot.inside.get(part)
            if inner is None:
                return spot.key
            spot = inner
        return spot.key if fault.at_key else spot.value

    def excerpt(self, line: int, *, where_it_broke: bool = False) -> str | None:
        """The line as it stands, or None where it may hold a secret or is not there."""
        if not 0 < line <= len(self._lines):
            return None
        text = self._lines[line - 1][: caps.EXCERPT].rstrip()
        if line in self._secret or is_secret_text(text) or not text.strip():
            return None
        if where_it_broke and (self._broken_in_secret or self._may_be_secret(line)):
            return None
        return printable(text.replace("\t", "    "))

    def _may_be_secret(self, line: int) -> bool:
        """Judged by words and indentation alone: is it, or does it stand below, a secret key."""
        text = self._lines[line - 1]
        if is_secret_key(text) or "\ufffd" in text or not text.replace("\t", "").isprintable():
            return True
        indent = _indent(text)
        for above in reversed(self._lines[: line - 1]):
            if above.startswith("---") or not indent:
                return False
            if above.strip() and _indent(above) < indent:
                indent = _indent(above)
                if is_secret_key(above):
                    return True
        return False


def _indent(text: str) -> int:
    """Columns before the first word; a list's '-' and a stray tab indent what follows them."""
    text = text.expandtabs()
    return len(text) - len(text.lstrip(" -"))


class _Walk:
    """One pass over the events, keeping places. Aliases share what their anchor holds."""

    def __init__(self, content: bytes) -> None:
        self._next: Any = EventParser(content).get_event
        self._anchors: dict[str, Spot] = {}
        self._nodes = 0
        self.documents: list[Spot] = []
        self.secret: set[int] = set()
        self.keys: list[str] = []
        self.broken = False
        try:
            self._walk()
        except (YAMLError, _NoFurther):
            self.broken = True

    def _walk(self) -> None:
        while type(event := self._next()) is not StreamEndEvent:
            if type(event) is MappingStartEvent:
                spot = Spot(_start(event), _start(event))
                self.documents.append(spot)
                self._fill(event, spot)
                self._anchors.clear()
            elif type(event) in (SequenceStartEvent, ScalarEvent, AliasEvent):
                self._fill(event, Spot(_start(event), _start(event)))

    def _fill(self, event: Any, spot: Spot) -> None:
        kind = type(event)
        self._nodes += 1
        if len(self.keys) > caps.NESTING or self._nodes > caps.NODES:
            raise _NoFurther
        self._note_secret(event)
        if event.anchor and kind is not AliasEvent:
            self._anchors[event.anchor] = spot
        if kind is AliasEvent and event.anchor in self._anchors:
            spot.inside = self._anchors[event.anchor].inside
        elif kind is MappingStartEvent:
            self._fill_mapping(spot)
        elif kind is SequenceStartEvent:
            self._fill_list(spot)

    def _fill_mapping(self, spot: Spot) -> None:
        while type(key := self._next()) is not MappingEndEvent:
            if type(key) is not ScalarEvent:
                raise _NoFurther
            self._note_secret(key)
            # A key whose value cannot be read stays here, and tells where it broke.
            self.keys.append(key.value)
            value = self._next()
            inner = Spot(_start(key), _start(value))
            self._fill(value, inner)
            # The last of two equal keys is what the reader kept.
            spot.inside[key.value] = inner
            self.keys.pop()

    def _fill_list(self, spot: Spot) -> None:
        number = 0
        self.keys.append("")
        while type(event := self._next()) is not SequenceEndEvent:
            inner = Spot(_start(event), _start(event))
            self._fill(event, inner)
            spot.inside[number] = inner
            number += 1
        self.keys.pop()

    def _note_secret(self, event: Any) -> None:
        if any(map(is_secret_key, self.keys)):
            start, end = event.start_mark, event.end_mark
            last = end.line if end.column or end.line == start.line else end.line - 1
            self.secret.update(range(start.line + 1, last + 2))


class _NoFurther(Exception):
    """The reader stopped here too."""


def _start(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1
