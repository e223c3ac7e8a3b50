"""Read spec files from disk or from a commit, within the caps, and check each by itself."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from codehub.core.validate import check_document
from codehub.model.document import Written
from codehub.model.problem import Place, Problem
from codehub.model.workspace import Source
from codehub.specs import caps
from codehub.specs.cache import Identity, SpecFile
from codehub.specs.git import read_blobs
from codehub.specs.parse import parse
from codehub.specs.report import report_faults, report_flaws
from codehub.specs.scan import Refusal, reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codehub.model.problem import Fault
    from codehub.specs.cache import SpecCache
    from codehub.specs.git import GitTree, Spot
    from codehub.specs.scan import Found

# No link is followed here (the scan has resolved them), no pipe is waited for.
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_MIB: Final = 1 << 20


def check_file(file: str, content: bytes) -> SpecFile:
    """Parse a file and check each of its documents by itself."""
    parsed = parse(content)
    written: list[Written] = []
    faults: list[tuple[int, Fault]] = []
    for number, (data, line) in enumerate(parsed.documents):
        written.append(check_written(data, Source(file, line), number))
        faults += ((number, fault) for fault in written[-1].faults)
        if len(faults) > caps.PROBLEMS_PER_FILE:
            break
    flaws = report_flaws(file, content, parsed)
    told = {flaw.place for flaw in flaws}
    problems = [each for each in report_faults(file, content, faults) if each.place not in told]
    broken = parsed.broken or len(written) < len(parsed.documents)
    return SpecFile(file, content, tuple(written), (*flaws, *problems), broken)


def check_written(data: Mapping[str, object], source: Source, number: int = 0) -> Written:
    """One document, checked by itself."""
    checked = check_document(data)
    if isinstance(checked, tuple):
        return Written(data, source, number, None, checked)
    return Written(data, source, number, checked)


@dataclass(slots=True)
class Reader:
    """Reads the files of one load and keeps count of their size."""

    cache: SpecCache | None = None
    _total: int = field(default=0, init=False)

    def from_disk(self, root: str, found: Found) -> SpecFile:
        """A file of a directory; what cannot be read comes back as a problem of it."""
        path = os.path.join(root, found.path)  # noqa: PTH118
        try:
            if self.cache is not None:
                known = self.cache.by_identity(found.file, Identity.of(os.lstat(path)))
                if known is not None:
                    self._admit(len(known.content))
                    return known
            content, identity = self._read(path)
        except OSError as error:
            return _refused(found.file, f"cannot be read: {reason(error)}")
        except Refusal as refusal:
            return _refused(found.file, str(refusal))
        return self._checked(found.file, content, identity)

    def from_commit(self, spot: Spot, tree: GitTree, found: Sequence[Found]) -> list[SpecFile]:
        """The files of a commit, read in one go."""
        contents, refused = self.blobs(spot, tree, found)
        return refused + [self._checked(each.file, content, None) for each, content in contents]

    def blobs(
        self, spot: Spot, tree: GitTree, found: Sequence[Found]
    ) -> tuple[list[tuple[Found, bytes]], list[SpecFile]]:
        """The files of a commit as they are, unchecked, and those that are refused."""
        refused, admitted = [], []
        for each in found:
            try:
                self._admit(tree.blobs[each.path].size)
                admitted.append(each)
            except Refusal as refusal:
                refused.append(_refused(each.file, str(refusal)))
        contents = read_blobs(spot, [tree.blobs[each.path].oid for each in admitted])
        return list(zip(admitted, contents, strict=True)), refused

    def from_memory(self, contents: Mapping[str, bytes], found: Found) -> SpecFile:
        """A file whose content somebody handed over."""
        content = contents[found.path]
        try:
            self._admit(len(content))
        except Refusal as refusal:
            return _refused(found.file, str(refusal))
        return self._checked(found.file, content, None)

    def content(self, root: str, found: Found) -> bytes | SpecFile:
        """A file of a directory as it is, unchecked, or that it is refused."""
        try:
            return self._read(os.path.join(root, found.path))[0]  # noqa: PTH118
        except OSError as error:
            return _refused(found.file, f"cannot be read: {reason(error)}")
        except Refusal as refusal:
            return _refused(found.file, str(refusal))

    def _read(self, path: str) -> tuple[bytes, Identity]:
        descriptor = os.open(path, _FLAGS)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise Refusal("not a file any more: not read")
            self._admit(status.st_size)
            content = _read_all(descriptor, status.st_size)
        finally:
            os.close(descriptor)
        return content, Identity.of(status)

    def _admit(self, size: int) -> None:
        """Refuse by size, before anything is read."""
        if size > caps.FILE_BYTES:
            raise Refusal(
                f"{_mib(size)} is too large for a spec file (at most {_mib(caps.FILE_BYTES)})"
            )
        full = self._total > caps.TOTAL_BYTES
        self._total += size
        if self._total > caps.TOTAL_BYTES:
            message = f"more than {_mib(caps.TOTAL_BYTES)} in all spec files: not read"
            # Told once; each file after it would say the same.
            raise Refusal("" if full else message)

    def _checked(self, file: str, content: bytes, identity: Identity | None) -> SpecFile:
        if self.cache is None:
            return check_file(file, content)
        read = self.cache.by_content(file, content)
        if read is None:
            read = check_file(file, content)
            self.cache.parsed += 1
        self.cache.remember(read, identity, time.time_ns())
        return read


def _read_all(descriptor: int, size: int) -> bytes:
    """The whole file; one that grows while it is read is caught by its next reader."""
    content = os.read(descriptor, size + 1)
    while 0 < len(content) < size:
        more = os.read(descriptor, size - len(content))
        if not more:
            break
        content += more
    return content[:size]


def _refused(file: str, message: str) -> SpecFile:
    problems = (Problem(Place(file), "", message),) if message else ()
    return SpecFile(file, b"", problems=problems, broken=True)


def _mib(size: int) -> str:
    return f"{size / _MIB:,.0f} MiB" if size >= 10 * _MIB else f"{size / _MIB:.1f} MiB"
