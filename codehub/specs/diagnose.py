"""Say in plain words what keeps a file from being YAML, and where."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yaml import MarkedYAMLError

if TYPE_CHECKING:
    from yaml import YAMLError

_HEAD: Final = "not valid YAML: "
_BREAK: Final = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
"""What libyaml counts as the end of a line."""

# libyaml's words, each with what most often is behind them.
_KNOWN: Final = (
    ("mapping values are not allowed", "a ':' where no value can stand; "
     "check the indentation, or quote the text"),
    ("could not find expected ':'", "a ':' is missing after the key"),
    ("did not find expected key", "a key is expected here; check the indentation and the quotes"),
    ("did not find expected '-'", "a '-' is expected here; check the indentation of the list"),
    ("did not find expected ',' or ']'", "a ',' or the closing ']' is missing"),
    ("did not find expected ',' or '}'", "a ',' or the closing '}' is missing"),
    ("found unexpected end of stream", "a quote is opened here and never closed"),
    ("did not find expected <document start>", "a '---' is expected here; "
     "check the indentation above"),
    ("found unknown escape character", "an unknown escape after a backslash; "
     "use single quotes to keep backslashes"),
    ("found character that cannot start any token", "this character cannot start a value; "
     "quote it"),
    ("control characters are not allowed", "control characters are not allowed"),
    ("found duplicate", "the anchor is defined twice"),
)  # fmt: skip
_AT_CONTEXT: Final = ("found unexpected end of stream",)


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong with the YAML itself; line and column count from 1, 0 for the whole file."""

    line: int
    column: int
    message: str


def split_lines(text: str) -> list[str]:
    """The lines as the YAML parser counts them."""
    return _BREAK.split(text)


def find_bad_bytes(content: bytes) -> Flaw | None:
    """Bytes that are no text: libyaml would take a NUL for the end and pass over the rest."""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return Flaw(*_position(content, error.start), "not text in UTF-8")
    nul = content.find(b"\0")
    if nul >= 0:
        return Flaw(*_position(content, nul), "a NUL byte: this is not a text file")
    return None


def explain(error: YAMLError, content: bytes) -> Flaw:
    """A parser's error as a flaw with a plain message, at the place where to look."""
    if not isinstance(error, MarkedYAMLError):
        # A reader error: it has an offset in bytes, and no marks.
        line, column = _position(content, getattr(error, "position", 0) or 0)
        return Flaw(line, column, _HEAD + _plain(str(getattr(error, "reason", ""))))
    problem = error.problem or error.context or ""
    mark = error.problem_mark or error.context_mark
    if error.context_mark and any(words in problem for words in _AT_CONTEXT):
        mark = error.context_mark
    if mark is None:
        return Flaw(0, 0, _HEAD + _plain(problem))
    line, column = mark.line + 1, mark.column + 1
    if _indented_by_tab(content, line):
        return Flaw(line, column, _HEAD + "tabs cannot indent; use spaces")
    return Flaw(line, column, _HEAD + _plain(problem))


def _plain(problem: str) -> str:
    known = (ours for theirs, ours in _KNOWN if theirs in problem)
    return next(known, problem or "it cannot be read")


def _indented_by_tab(content: bytes, line: int) -> bool:
    lines = split_lines(content.decode())
    text = lines[line - 1] if line <= len(lines) else ""
    return "\t" in text[: len(text) - len(text.lstrip())]


def _position(content: bytes, offset: int) -> tuple[int, int]:
    before = split_lines(content[:offset].decode(errors="replace"))
    return len(before), len(before[-1]) + 1
