"""`codehub fmt`: spec files in canonical order, with everything people wrote kept.

Lines are moved, never written anew. Whatever comes out is compared with what went in: the same
meaning and the same comments, or the file is left as it is and the reason told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codehub.errors import CodeHubError, SpecsInvalid, UsageError
from codehub.model.problem import Place, Problem
from codehub.specs import caps
from codehub.specs.diagnose import Flaw
from codehub.specs.fields import field_order
from codehub.specs.indent import indent
from codehub.specs.locate import Layout
from codehub.specs.order import order_fields
from codehub.specs.outline import LINE_ENDS, split_lines
from codehub.specs.parse import parse
from codehub.specs.replace import replace_file
from codehub.specs.scan import DiskTree, scan
from codehub.specs.unformatted import CHANGED, CannotFormat

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from codehub.specs.parse import Parsed

BYTE_ORDER_MARK: Final = "\ufeff"


@dataclass(frozen=True, slots=True)
class Formatted:
    """One file as it is and in its canonical form; `problem` says why it is left as it is."""

    path: Path
    before: bytes = b""
    after: bytes = b""
    problem: Problem | None = None

    @property
    def changes(self) -> bool:
        return self.before != self.after


def find_files(paths: Iterable[Path]) -> tuple[dict[str, Path], list[Problem]]:
    """Every spec file at or below the paths, by the name to call it; and what cannot be used."""
    files: dict[str, Path] = {}
    problems: list[Problem] = []
    for path in paths:
        if not path.is_dir():
            if not path.is_file():
                raise UsageError(f"there is no file or directory {path}")
            files[str(path)] = path
            continue
        real = path.resolve()
        result = scan(DiskTree(str(real)), str(path))
        files.update((found.file, real / found.path) for found in result.found)
        problems += result.problems
    return files, problems


def format_file(path: Path, name: str) -> Formatted:
    """Format a file in memory; `name` is what problems call it."""
    try:
        if path.stat().st_size > caps.FILE_BYTES:
            message = f"left as it is: larger than {caps.FILE_BYTES:,} bytes; split it"
            return Formatted(path, problem=Problem(Place(name), "", message))
        content = path.read_bytes()
    except OSError as error:
        raise CodeHubError(f"cannot read {name}: {error.strerror}") from error
    try:
        return Formatted(path, content, format_content(content, name))
    except SpecsInvalid as error:
        return Formatted(path, content, content, error.problems[0])


def write_formatted(formatted: Formatted) -> None:
    """Replace the file by its canonical form, in one step and only if nobody edited it since."""
    replace_file(formatted.path, formatted.before, formatted.after)


def format_content(content: bytes, name: str) -> bytes:
    """The canonical form of a spec file; SpecsInvalid where there is none."""
    parsed = parse(content)
    if parsed.broken:
        raise _invalid(content, name, parsed.flaws[-1])
    text = content.decode()
    mark = BYTE_ORDER_MARK if text.startswith(BYTE_ORDER_MARK) else ""
    try:
        return (mark + _canonical(text[len(mark) :])).encode()
    except CannotFormat as error:
        flaw = Flaw(error.line + 1, 0, f"left as it is: {error.reason}")
        raise _invalid(content, name, flaw) from error


def _canonical(text: str) -> str:
    """With a final newline, unless that would change a value that ends the file."""
    refused = None
    for whole in dict.fromkeys((_ended(text), text)):
        try:
            made = indent(order_fields(whole, field_order))
            if made != text:
                _require_same(text, made)
            return made
        except CannotFormat as error:
            refused = refused or error
    raise refused or CannotFormat(0, "its layout is not understood")


def _ended(text: str) -> str:
    lines = split_lines(text)
    if not lines or lines[-1][-1] in LINE_ENDS:
        return text
    return text + ("\r\n" if lines[0].endswith("\r\n") else "\n")


def _require_same(before: str, after: str) -> None:
    from codehub.specs.comments import count_comments  # slow, and needed for what changes only

    read = parse(after.encode())
    if read.broken and "alias" in read.flaws[-1].message:
        raise CannotFormat(0, "an alias would stand before its anchor; write the value out")
    if _data(parse(before.encode())) != _data(read):
        raise CannotFormat(0, CHANGED)
    if count_comments(before) != count_comments(after):
        raise CannotFormat(0, "putting it in order would lose a comment")


def _data(parsed: Parsed) -> list[object]:
    return [document for document, _ in parsed.documents]


def _invalid(content: bytes, name: str, flaw: Flaw) -> SpecsInvalid:
    excerpt = Layout(content).excerpt(flaw.line, where_it_broke=True)
    place = Place(name, flaw.line, flaw.column)
    return SpecsInvalid([Problem(place, "", flaw.message, excerpt)])
