"""Load specs: everything a directory declares, or everything that is wrong with it.

    scan → read → parse → check each document → check references → resolve → digest

All or nothing: a spec set comes back only when there is no problem at all. A directory that is
missing, unreadable or declares nothing is a problem, never an empty hub.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from codehub.core.digest import digest_documents
from codehub.core.resolve import resolve
from codehub.core.validate import check_references
from codehub.errors import SpecsInvalid
from codehub.model.problem import Place, Problem, in_order
from codehub.model.revision import Origin, SpecSet
from codehub.model.workspace import Source
from codehub.specs import git
from codehub.specs.read import Reader, check_written
from codehub.specs.report import report_faults
from codehub.specs.scan import DiskTree, reason, scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from codehub.model.document import Written
    from codehub.model.problem import Fault
    from codehub.specs.cache import SpecCache, SpecFile

_NOTHING: Final = "declares nothing: there is no document in any *.yaml or *.yml below it"
_HINT: Final = "write example specs with 'codehub init', or name another directory"


def load_specs(root: Path, ref: str | None, *, cache: SpecCache | None = None) -> SpecSet:
    """From the files as they are, or where a ref is named, from git at that commit."""
    return load_directory(root, cache=cache) if ref is None else load_ref(root, ref, cache=cache)


def load_directory(root: Path, *, cache: SpecCache | None = None) -> SpecSet:
    """Everything the files of a directory declare. Raises `SpecsInvalid` with all problems."""
    shown = str(root)
    real = real_root(root)
    found = scan(DiskTree(real), shown)
    reader = Reader(cache)
    files = [reader.from_disk(real, each) for each in found.found]
    _forget(cache, files)
    written = _accept(shown, files, found.problems)
    return _spec_set(written, origin_of(root, {each.file: each.content for each in files}))


def load_ref(root: Path, ref: str, *, cache: SpecCache | None = None) -> SpecSet:
    """Everything a directory declares at a git ref: read from the commit, never the work tree."""
    shown = str(root)
    spot, commit = git.open_ref(root, ref)
    tree = tree_at(spot, commit, shown, ref)
    found = scan(tree, shown)
    files = Reader(cache).from_commit(spot, tree, found.found)
    _forget(cache, files)
    written = _accept(shown, files, found.problems)
    return _spec_set(written, Origin(shown, commit=commit, ref=ref))


def load_contents(contents: Mapping[str, bytes], origin: Origin) -> SpecSet:
    """Everything that files declare which somebody handed over, by their paths below the directory.

    They are walked like those of a commit, so that the same rules hold for their names.
    """
    shown = origin.directory
    blobs = {path: git.Blob("", len(content)) for path, content in contents.items()}
    found = scan(git.GitTree(blobs, {}), shown)
    reader = Reader()
    files = [reader.from_memory(contents, each) for each in found.found]
    return _spec_set(_accept(shown, files, found.problems), origin)


def load_documents(documents: Iterable[Mapping[str, object]], origin: Origin) -> SpecSet:
    """The spec set whose `documents` were kept: of a stored revision or a saved plan."""
    written = [_rewritten(document) for document in documents]
    faults = [(index, fault) for index, each in enumerate(written) for fault in each.faults]
    faults += check_references(written)
    if faults:
        raise SpecsInvalid(in_order(_at_line(written[index], fault) for index, fault in faults))
    if not written:
        raise SpecsInvalid([Problem(Place(origin.directory), "", _NOTHING)])
    return _spec_set(written, origin)


def real_root(root: Path) -> str:
    """The directory itself, its link resolved once: it may be swapped while we read."""
    try:
        real = os.path.realpath(root, strict=True)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        message = "there is no such directory" if missing else f"cannot be read: {reason(error)}"
        raise SpecsInvalid([Problem(Place(str(root)), "", message)], hint=_HINT) from None
    if not os.path.isdir(real):  # noqa: PTH112
        raise SpecsInvalid([Problem(Place(str(root)), "", "is not a directory")], hint=_HINT)
    return real


def tree_at(spot: git.Spot, commit: str, shown: str, ref: str) -> git.GitTree:
    if spot.prefix and not git.has_directory(spot, commit):
        problem = Problem(Place(shown), "", f"there is no such directory at {ref}")
        raise SpecsInvalid([problem])
    return git.read_tree(spot, commit)


def _forget(cache: SpecCache | None, files: Iterable[SpecFile]) -> None:
    if cache is not None:
        cache.keep_only(each.file for each in files)


def _accept(shown: str, files: Sequence[SpecFile], problems: Sequence[Problem]) -> list[Written]:
    """All documents of all files, if there is no problem with any of them."""
    written = [each for file in files for each in file.written]
    complete = not problems and not any(file.broken for file in files)
    faults = check_references(written, complete=complete)
    problems = [*problems, *(each for file in files for each in file.problems)]
    if faults:
        problems += _placed(files, written, faults)
    if problems:
        raise SpecsInvalid(in_order(problems))
    if not written:
        raise SpecsInvalid([Problem(Place(shown), "", _NOTHING)], hint=_HINT)
    return written


def _placed(
    files: Sequence[SpecFile], written: Sequence[Written], faults: Sequence[tuple[int, Fault]]
) -> list[Problem]:
    by_file: dict[str, list[tuple[int, Fault]]] = {}
    for index, fault in faults:
        each = written[index]
        by_file.setdefault(each.source.file, []).append((each.number, fault))
    return [
        problem
        for file in files
        for problem in report_faults(file.file, file.content, by_file.get(file.file, []))
    ]


def _rewritten(document: Mapping[str, object]) -> Written:
    data = {key: value for key, value in document.items() if key not in ("file", "line")}
    line = document.get("line")
    source = Source(str(document.get("file", "")), line if isinstance(line, int) else 0)
    return check_written(data, source)


def _at_line(written: Written, fault: Fault) -> Problem:
    place = Place(written.source.file, written.source.line)
    return Problem(place, fault.field, fault.message)


def _spec_set(written: Sequence[Written], origin: Origin) -> SpecSet:
    resolved = resolve(written)
    return SpecSet(
        digest=digest_documents(*resolved),
        origin=origin,
        workspaces=resolved.workspaces,
        users=resolved.users,
        policies=resolved.policies,
        hub=resolved.hub,
        documents=tuple(
            {**each.data, "file": each.source.file, "line": each.source.line} for each in written
        ),
    )


def origin_of(root: Path, contents: Mapping[str, bytes]) -> Origin:
    """Where a directory was read whose files, as they are shown, have these contents."""
    place = git.find_commit(root)
    if place is None:
        return Origin(str(root))
    spot, commit = place
    return Origin(str(root), commit, dirty=git.is_dirty(spot, commit, str(root), contents))
