"""A YAML text as a tree of parts, each with its place in the text.

`codehub fmt` moves the lines people wrote instead of writing data anew, so that quotes, long
lines, block scalars and comments survive byte for byte. For that it must know where each field
begins and ends, which the events of libyaml tell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import yaml

from codehub.specs.unformatted import CHANGED, CannotFormat

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LINE_ENDS: Final = "\r\n\x85\u2028\u2029"
_LINE: Final = re.compile("[^\r\n\x85\u2028\u2029]*(?:\r\n|[\r\n\x85\u2028\u2029])|.+")
_KEEPS_BLANKS: Final = re.compile(r"[|>][0-9]*\+[0-9]*[ \t]*(#.*)?$")


class PartKind(StrEnum):
    SCALAR = "scalar"
    ALIAS = "alias"
    MAPPING = "mapping"
    SEQUENCE = "sequence"


class Spot(NamedTuple):
    """Line and column, both from 0."""

    line: int
    column: int


@dataclass(slots=True)
class Part:
    """A node as it stands in the text.

    `end` is the first spot after it; `last` is the last line that holds some of it, blank lines
    and comments after it not counted. `children` of a mapping are its keys and values in turn.
    """

    kind: PartKind
    start: Spot
    end: Spot
    last: int
    value: str = ""
    style: str | None = None
    tag: str | None = None
    anchor: str | None = None
    flow: bool = False
    children: list[Part] = field(default_factory=list)

    @property
    def entries(self) -> list[tuple[Part, Part]]:
        return list(zip(self.children[::2], self.children[1::2], strict=True))

    @property
    def is_block_mapping(self) -> bool:
        return self.kind is PartKind.MAPPING and not self.flow and bool(self.children)

    @property
    def is_block_sequence(self) -> bool:
        return self.kind is PartKind.SEQUENCE and not self.flow and bool(self.children)

    def walk(self) -> Iterator[Part]:
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(slots=True)
class Document:
    """One YAML document; its lines end before `end`, where the next one or a marker begins."""

    root: Part | None
    end: int


def split_lines(text: str) -> list[str]:
    """The lines as YAML counts them, with their endings."""
    return _LINE.findall(text)


def is_blank(line: str) -> bool:
    return not line.strip()


def is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def margin(line: str) -> int:
    """How many columns of white space a line starts with."""
    return len(line) - len(line.lstrip(" \t"))


def outline(text: str) -> list[Document]:
    """The documents of a text that `parse` could read, so that its nesting is bounded."""
    reader = _Reader(split_lines(text))
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            reader.take(event)
    except yaml.YAMLError as error:
        # People's text was read before; what cannot be read now is what moving lines made of it.
        raise CannotFormat(0, CHANGED) from error
    return reader.documents


class _Reader:
    """Builds the tree from events. A stack, since events come flat."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.documents: list[Document] = []
        self.open: list[Part] = []

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            self._begin(event)
        elif isinstance(event, yaml.DocumentEndEvent):
            if event.explicit:
                self.documents[-1].end = _start(event).line
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._close(event)
        elif isinstance(event, yaml.ScalarEvent):
            self._add(self._scalar(event))
        elif isinstance(event, yaml.AliasEvent):
            end = _end(event)
            start = _start(event)
            self._add(Part(PartKind.ALIAS, start, end, end.line, value=event.anchor or ""))

    def _begin(self, event: yaml.DocumentStartEvent) -> None:
        if self.documents:
            before = self.documents[-1]
            before.end = min(before.end, _start(event).line)
        self.documents.append(Document(None, len(self.lines)))

    def _open(self, event: yaml.CollectionStartEvent) -> None:
        mapping = isinstance(event, yaml.MappingStartEvent)
        start = _start(event)
        part = Part(
            PartKind.MAPPING if mapping else PartKind.SEQUENCE,
            start,
            _end(event),
            start.line,
            tag=event.tag,
            anchor=event.anchor,
            flow=bool(event.flow_style),
        )
        self._add(part)
        self.open.append(part)

    def _close(self, event: yaml.CollectionEndEvent) -> None:
        part = self.open.pop()
        if part.flow:
            part.end = _end(event)
            part.last = part.end.line
        elif part.children:
            # libyaml ends a block where the next token begins, comments in between included.
            part.end = part.children[-1].end
            part.last = max(child.last for child in part.children)

    def _scalar(self, event: yaml.ScalarEvent) -> Part:
        start, end = _start(event), _end(event)
        part = Part(PartKind.SCALAR, start, end, end.line, value=event.value, style=event.style)
        part.tag, part.anchor = event.tag, event.anchor
        if event.style in ("|", ">"):
            part.last = self._last_of_block(start.line, end)
        return part

    def _last_of_block(self, first: int, end: Spot) -> int:
        last = max(first, min(end.line, len(self.lines)) - (end.column == 0))
        if _KEEPS_BLANKS.search(self.lines[first].rstrip()):
            return last
        while last > first and is_blank(self.lines[last]):
            last -= 1
        return last

    def _add(self, part: Part) -> None:
        if self.open:
            self.open[-1].children.append(part)
        else:
            self.documents[-1].root = part


def _start(event: yaml.Event) -> Spot:
    assert event.start_mark is not None  # libyaml marks every event
    return Spot(event.start_mark.line, event.start_mark.column)


def _end(event: yaml.Event) -> Spot:
    assert event.end_mark is not None
    return Spot(event.end_mark.line, event.end_mark.column)
