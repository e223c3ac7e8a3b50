"""Find the spec files of a tree, without being led out of it, in circles or into a pipe.

A tree is a directory on disk or a commit (`git.py`); one walk serves both, so both follow the
same rules. Files are any `*.yaml` and `*.yml`, at any depth; names with a leading dot are passed
over. Links are followed as long as they stay inside the tree, also through hidden directories,
which is how Kubernetes and git-sync publish files.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from codehub.core.withhold import printable
from codehub.model.problem import Place, Problem
from codehub.specs import caps

if TYPE_CHECKING:
    from collections.abc import Iterable

_SUFFIXES: Final = (".yaml", ".yml")


class Kind(Enum):
    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "neither a file nor a directory"


class Entry(NamedTuple):
    name: str
    kind: Kind


class Found(NamedTuple):
    """A spec file: `file` as people see it, `path` where it really is, relative to the root."""

    file: str
    path: str


class Refusal(Exception):
    """Something in the tree cannot be used; the message says why."""


class Tree(Protocol):
    """What the walk needs. Paths are relative to the root, "" is the root itself."""

    def entries(self, directory: str) -> Iterable[Entry]: ...

    def follow(self, path: str) -> Entry:
        """What a link leads to: the real path and its kind. Raises `Refusal`."""


@dataclass(slots=True)
class Scan:
    """What a walk found, and what it had to refuse."""

    found: list[Found] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def scan(tree: Tree, root: str) -> Scan:
    """All spec files of a tree in the order of their names; `root` as it was given, to show."""
    walk = _Walk(tree, "" if root == "." else root.rstrip("/") + "/")
    try:
        walk.directory("", "", ("",))
    except _Enough as reached:
        walk.result.problems.append(Problem(Place(root), "", str(reached)))
    walk.result.found.sort()
    return walk.result


class _Enough(Exception):
    """A cap was reached."""


class _Walk:
    def __init__(self, tree: Tree, label: str) -> None:
        self._tree = tree
        self._label = label
        self._directories = 0
        self.result = Scan()

    def directory(self, shown: str, real: str, above: tuple[str, ...]) -> None:
        """Walk one directory; `above` are the real directories on the way to it, itself last."""
        self._directories += 1
        if self._directories > caps.DIRECTORIES or len(above) > caps.PATH_DEPTH:
            raise _Enough("too many directories, or links that multiply them")
        try:
            entries = sorted(self._tree.entries(real))
        except Refusal as refusal:
            self._refuse(shown.rstrip("/"), str(refusal))
            return
        for entry in entries:
            if not entry.name.startswith("."):
                self._entry(entry, shown, real, above)

    def _entry(self, entry: Entry, shown: str, real: str, above: tuple[str, ...]) -> None:
        shown, path, kind = shown + entry.name, _below(real, entry.name), entry.kind
        if kind is Kind.LINK:
            try:
                path, kind = self._tree.follow(path)
            except Refusal as refusal:
                self._refuse(shown, str(refusal))
                return
        if kind is Kind.DIRECTORY:
            if path in above:
                self._refuse(shown, "the link leads back to a directory that it lies in")
            else:
                self.directory(shown + "/", path, (*above, path))
        elif entry.name.endswith(_SUFFIXES):
            self._file(shown, path, kind)

    def _file(self, shown: str, path: str, kind: Kind) -> None:
        if not shown.isprintable() or "\ufffd" in shown:
            self._refuse(shown, "the name of the file cannot be shown: rename it")
        elif kind is not Kind.FILE:
            self._refuse(shown, f"{kind.value}: not opened")
        elif len(self.result.found) >= caps.FILES:
            raise _Enough(f"more than {caps.FILES:,} spec files")
        else:
            self.result.found.append(Found(self._label + shown, path))

    def _refuse(self, shown: str, message: str) -> None:
        place = Place(printable(self._label + shown).rstrip("/") or ".")
        self.result.problems.append(Problem(place, "", message))


def _below(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


class DiskTree:
    """A directory on disk, by its real path."""

    def __init__(self, root: str) -> None:
        self._root = root

    def entries(self, directory: str) -> Iterable[Entry]:
        try:
            with os.scandir(os.path.join(self._root, directory)) as entries:  # noqa: PTH118
                return [Entry(each.name, _kind_of(each)) for each in entries]
        except OSError as error:
            raise Refusal(f"cannot be read: {reason(error)}") from None

    def follow(self, path: str) -> Entry:
        link = os.path.join(self._root, path)  # noqa: PTH118
        try:
            real = os.path.realpath(link, strict=True)
            mode = os.stat(real).st_mode  # noqa: PTH116
        except OSError as error:
            raise Refusal(_link_reason(error)) from None
        kind = _kind_of_mode(mode)
        if real == self._root:
            return Entry("", kind)
        inside = real.removeprefix(self._root.rstrip("/") + "/")
        if inside != real:
            return Entry(inside, kind)
        if kind is Kind.FILE and not path.endswith(_SUFFIXES):
            return Entry(path, kind)
        raise Refusal("the link leaves the spec directory; it was not followed")


def reason(error: OSError) -> str:
    """The operating system's own word, without the path that is named already."""
    return (error.strerror or type(error).__name__).lower()


def _link_reason(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "the link leads in a circle"
    if error.errno == errno.ENOENT:
        return "the link leads nowhere"
    return f"the link cannot be followed: {reason(error)}"


def _kind_of(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return Kind.LINK
    if entry.is_dir(follow_symlinks=False):
        return Kind.DIRECTORY
    return Kind.FILE if entry.is_file(follow_symlinks=False) else Kind.OTHER


def _kind_of_mode(mode: int) -> Kind:
    if stat.S_ISDIR(mode):
        return Kind.DIRECTORY
    return Kind.FILE if stat.S_ISREG(mode) else Kind.OTHER
