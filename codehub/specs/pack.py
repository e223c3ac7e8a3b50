"""Pack a spec directory to send it to a hub, which reads and judges it: `codehub plan --server`.

Nothing is parsed here: the hub's rules count, which may be newer or older than ours. Links are
resolved on the way, so that what is sent is files alone, under the names that people know.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codehub.errors import SpecsInvalid
from codehub.model.problem import in_order
from codehub.model.revision import Origin
from codehub.specs import git
from codehub.specs.load import origin_of, real_root, tree_at
from codehub.specs.read import Reader
from codehub.specs.scan import DiskTree, scan

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from codehub.specs.cache import SpecFile
    from codehub.specs.scan import Scan


@dataclass(frozen=True, slots=True)
class Packed:
    """Spec files by their paths below the directory, and where they were read."""

    origin: Origin
    files: Mapping[str, bytes]


def pack_specs(root: Path, ref: str | None) -> Packed:
    """The files as they are, or at a ref. Raises `SpecsInvalid` where one cannot be read."""
    return _pack_directory(root) if ref is None else _pack_ref(root, ref)


def archive(files: Mapping[str, bytes]) -> bytes:
    """The files as a compressed tar; equal files give equal bytes."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(files):
            member = tarfile.TarInfo(path)
            member.size = len(files[path])
            tar.addfile(member, io.BytesIO(files[path]))
    return gzip.compress(plain.getvalue(), mtime=0)


def _pack_directory(root: Path) -> Packed:
    real = real_root(root)
    found = scan(DiskTree(real), str(root))
    reader = Reader()
    contents: dict[str, bytes] = {}
    refused: list[SpecFile] = []
    for each in found.found:
        content = reader.content(real, each)
        if isinstance(content, bytes):
            contents[each.file] = content
        else:
            refused.append(content)
    _require_all(found, refused)
    return Packed(origin_of(root, contents), _below(str(root), contents))


def _pack_ref(root: Path, ref: str) -> Packed:
    spot, commit = git.open_ref(root, ref)
    tree = tree_at(spot, commit, str(root), ref)
    found = scan(tree, str(root))
    contents, refused = Reader().blobs(spot, tree, found.found)
    _require_all(found, refused)
    shown = {each.file: content for each, content in contents}
    return Packed(Origin(str(root), commit=commit, ref=ref), _below(str(root), shown))


def _require_all(found: Scan, refused: list[SpecFile]) -> None:
    problems = [*found.problems, *(problem for each in refused for problem in each.problems)]
    if problems:
        raise SpecsInvalid(in_order(problems))


def _below(root: str, shown: Mapping[str, bytes]) -> dict[str, bytes]:
    start = "" if root == "." else root.rstrip("/") + "/"
    return {file.removeprefix(start): content for file, content in shown.items()}
