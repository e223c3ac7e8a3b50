"""Read the YAML of one file into plain data, once and fast.

The events of PyYAML's C parser are built into dicts and lists here, which checks duplicate keys,
nesting, size and aliases on the way instead of after the fact. Words mean what people mean by
them, much as in YAML 1.2: only `true` and `false` are booleans (not yes, no, on, off), only
`null`, `~` and nothing are null, numbers are decimal, and everything else is text: `12:30`,
`010`, `0x1f`, `1_000` and `2026-01-01` too. Keys are always text. Tags and merge keys are
refused. The place of a document is kept; the place of a field is looked up by `locate`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

import yaml
from yaml.events import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from codehub.core.withhold import quoted
from codehub.specs import caps
from codehub.specs.diagnose import Flaw, explain, find_bad_bytes

if TYPE_CHECKING:
    from yaml.events import Event

# The wheels of PyYAML carry libyaml; where it is missing, the slow parser gives the same events.
EventParser: Final[Any] = yaml.cyaml.CParser if yaml.__with_libyaml__ else yaml.SafeLoader  # type: ignore[attr-defined]

_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_NUMERIC: Final = frozenset("0123456789+-.")
_NO_TAGS: Final = "tags (words that start with '!') are not used in specs"
_TEXT_TAGS: Final = (None, "!", "tag:yaml.org,2002:str")
_MAPPING_TAGS: Final = (None, "!", "tag:yaml.org,2002:map")
_LIST_TAGS: Final = (None, "!", "tag:yaml.org,2002:seq")


@dataclass(frozen=True, slots=True)
class Parsed:
    """The documents of a file with the lines they start at, and the flaws.

    `broken` says that reading stopped early, so that there may be more documents than these.
    """

    documents: tuple[tuple[dict[str, Any], int], ...]
    flaws: tuple[Flaw, ...]
    broken: bool


class _Stop(Exception):
    """Nothing further can be read from this file."""


def parse(content: bytes) -> Parsed:
    """Read all documents of a file that is known to be small enough."""
    bad = find_bad_bytes(content)
    if bad:
        return Parsed((), (bad,), broken=True)
    reader = _Reader(content)
    broken = False
    try:
        reader.read()
    except _Stop:
        broken = True
    except yaml.YAMLError as error:
        broken = True
        reader.flaws.append(explain(error, content))
    return Parsed(tuple(reader.documents), tuple(reader.flaws), broken)


def resolve_word(text: str) -> object:
    """What a plain, unquoted scalar means."""
    if text[:1] in _NUMERIC and len(text) <= caps.NUMBER_LENGTH:
        if _INTEGER.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
    return _WORDS.get(text, text)


class _Reader:
    """One pass over the events of one file."""

    def __init__(self, content: bytes) -> None:
        self._next: Any = EventParser(content).get_event
        self.documents: list[tuple[dict[str, Any], int]] = []
        self.flaws: list[Flaw] = []
        self._anchors: dict[str, tuple[Any, int] | None] = {}
        self._nodes = 0
        self._aliases = 0
        self._depth = 0

    def read(self) -> None:
        while True:
            event = self._next()
            kind = type(event)
            if kind is StreamEndEvent:
                return
            if kind is MappingStartEvent:
                self._count(event, 1)
                self.documents.append((self._mapping(event), event.start_mark.line + 1))
                self._anchors.clear()
            elif kind is ScalarEvent or kind is SequenceStartEvent or kind is AliasEvent:
                value = self._value(event)
                if value is not None:
                    self._flaw(
                        event,
                        "a document must be a mapping with apiVersion, kind, metadata and spec",
                    )

    def _value(self, event: Event) -> Any:
        kind = type(event)
        if kind is ScalarEvent:
            return self._scalar(event)
        if kind is MappingStartEvent:
            return self._mapping(event)
        if kind is SequenceStartEvent:
            return self._list(event)
        return self._alias(event)

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        value: Any = text
        if event.implicit[0]:
            value = resolve_word(text)
        else:
            if event.tag not in _TEXT_TAGS:
                self._flaw(event, _NO_TAGS)
            if "\x00" in text:
                self._flaw(event, "a NUL character cannot be part of a text")
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        return value

    def _mapping(self, start: Any) -> dict[str, Any]:
        before = self._open(start, _MAPPING_TAGS)
        result: dict[str, Any] = {}
        following, scalar = self._next, self._scalar
        while type(event := following()) is not MappingEndEvent:
            if type(event) is not ScalarEvent:
                self._stop(event, "a key must be plain text")
            key = event.value
            if not key or key in result or key == "<<" or "\x00" in key:
                self._check_key(event, key, result)
            if len(result) > caps.NODES:
                self._count(event, caps.NODES)
            value = following()
            result[key] = scalar(value) if type(value) is ScalarEvent else self._value(value)
        self._close(start, result, before, 2 * len(result))
        return result

    def _list(self, start: Any) -> list[Any]:
        before = self._open(start, _LIST_TAGS)
        result: list[Any] = []
        while type(event := self._next()) is not SequenceEndEvent:
            result.append(self._value(event))
            if len(result) > caps.NODES:
                self._count(event, caps.NODES)
        self._close(start, result, before, len(result))
        return result

    def _check_key(self, event: Any, key: str, seen: dict[str, Any]) -> None:
        if not key:
            self._flaw(event, "a key is empty")
        elif "\x00" in key:
            self._flaw(event, "a NUL character cannot be part of a key")
        elif key in seen:
            self._flaw(event, f"the key {quoted(key)} is given twice")
        elif event.implicit[0]:
            self._flaw(event, "merge keys ('<<') are not used in specs: repeat the fields")

    def _alias(self, event: Any) -> Any:
        self._aliases += 1
        if self._aliases > caps.ALIASES:
            self._stop(event, f"more than {caps.ALIASES} aliases: write the values out")
        if event.anchor not in self._anchors:
            self._stop(event, f"the alias {quoted(event.anchor)} has no anchor before it")
        anchored = self._anchors[event.anchor]
        if anchored is None:
            self._stop(event, f"the alias {quoted(event.anchor)} stands inside its own anchor")
        self._count(event, anchored[1])
        return anchored[0]

    def _open(self, event: Any, tags: tuple[str | None, ...]) -> int:
        self._depth += 1
        if self._depth > caps.NESTING:
            self._stop(event, f"nested deeper than {caps.NESTING} levels")
        if event.tag not in tags:
            self._flaw(event, _NO_TAGS)
        if event.anchor:
            self._anchors[event.anchor] = None
        return self._nodes

    def _close(self, event: Any, value: Any, before: int, nodes: int) -> None:
        self._depth -= 1
        self._count(event, nodes)
        if event.anchor:
            self._anchors[event.anchor] = (value, self._nodes - before + 1)

    def _count(self, event: Any, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > caps.NODES:
            self._stop(event, f"more than {caps.NODES:,} values in one file: split it")

    def _flaw(self, event: Any, message: str) -> None:
        mark = event.start_mark
        self.flaws.append(Flaw(mark.line + 1, mark.column + 1, message))
        if len(self.flaws) > caps.PROBLEMS_PER_FILE:
            raise _Stop

    def _stop(self, event: Any, message: str) -> NoReturn:
        self._flaw(event, message)
        raise _Stop
