"""What git knows of a spec directory: its commit, and its files at a commit.

Only the object database is read, through the `git` executable; the work tree, the index and
filters play no part, so nothing in a repository's configuration makes git run a program here.
Whether a directory is dirty is decided by comparing what was read with what the commit holds.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from codehub.core.withhold import quoted
from codehub.errors import CodeHubError
from codehub.specs import caps
from codehub.specs.scan import Entry, Kind, Refusal, scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SECONDS: Final = 60
"""Longer than git takes for any spec directory; a hanging network file system ends here."""

HOPS: Final = 40
"""Links followed for one path, as many as Linux follows."""

LINK_BYTES: Final = 4096
"""The longest path that Linux takes."""

_SAFE: Final = (
    "--no-pager",
    "--no-replace-objects",
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "protocol.allow=never"),
)
_LINK, _MODULE = "120000", "160000"


class Spot(NamedTuple):
    """Where a directory stands in a repository: `prefix` from its top, without a trailing '/'."""

    directory: str
    prefix: str


class Blob(NamedTuple):
    oid: str
    size: int


class GitTree:
    """The files below a directory at one commit, as `scan` walks them."""

    def __init__(self, blobs: Mapping[str, Blob], links: Mapping[str, str]) -> None:
        self.blobs = blobs
        self._links = links
        self._children: dict[str, dict[str, Kind]] = {"": {}}
        for path in blobs:
            self._add(path, Kind.FILE)
        for path in links:
            self._add(path, Kind.LINK)

    def _add(self, path: str, kind: Kind) -> None:
        directory, _, name = path.rpartition("/")
        if directory not in self._children:
            self._children[directory] = {}
            self._add(directory, Kind.DIRECTORY)
        self._children[directory][name] = kind

    def entries(self, directory: str) -> Iterable[Entry]:
        return [Entry(name, kind) for name, kind in self._children[directory].items()]

    def follow(self, path: str) -> Entry:
        real = self._real(path)
        if real in self.blobs:
            return Entry(real, Kind.FILE)
        if real in self._children:
            return Entry(real, Kind.DIRECTORY)
        raise Refusal("the link leads nowhere")

    def _real(self, path: str) -> str:
        ahead, behind, hops = deque(path.split("/")), list[str](), 0
        while ahead:
            part = ahead.popleft()
            if part == "..":
                if not behind:
                    raise Refusal("the link leaves the spec directory; it was not followed")
                behind.pop()
            elif part not in ("", "."):
                behind.append(part)
                target = self._links.get("/".join(behind))
                if target is not None:
                    hops += 1
                    behind.pop()
                    ahead.extendleft(reversed(_steps(target, hops)))
        return "/".join(behind)


def _steps(target: str, hops: int) -> list[str]:
    if hops > HOPS:
        raise Refusal("the link leads in a circle")
    if target.startswith("/"):
        raise Refusal("the link leaves the spec directory; it was not followed")
    return target.split("/")


def find_commit(root: Path) -> tuple[Spot, str] | None:
    """Where a directory stands in a repository and its HEAD; None without git or repository."""
    try:
        spot = _find_spot(root)
        return spot, _commit(spot, "HEAD")
    except CodeHubError:
        return None


def is_dirty(spot: Spot, commit: str, root: str, contents: Mapping[str, bytes]) -> bool:
    """Whether the spec files that were read differ from those of the commit."""
    try:
        tree = read_tree(spot, commit)
    except CodeHubError:
        return True
    committed = scan(tree, root)
    if committed.problems or len(committed.found) != len(contents):
        return True
    return any(
        file not in contents or not _is_blob(contents[file], tree.blobs[path].oid)
        for file, path in committed.found
    )


def _is_blob(content: bytes, oid: str) -> bool:
    name = "sha256" if len(oid) == 64 else "sha1"
    whole = b"blob %d\0%b" % (len(content), content)
    return hashlib.new(name, whole, usedforsecurity=False).hexdigest() == oid


def open_ref(root: Path, ref: str) -> tuple[Spot, str]:
    """Where a directory stands in a repository, and the commit that a ref names."""
    if not ref or ref.startswith("-") or not ref.isprintable():
        raise CodeHubError(f"{quoted(ref)} is not the name of a git ref")
    spot = _find_spot(root)
    try:
        return spot, _commit(spot, ref)
    except CodeHubError:
        raise CodeHubError(
            f"there is no commit {quoted(ref)} in the repository of {root}",
            hint="name a branch, a tag or a commit; 'git fetch' gets those of a remote",
        ) from None


def has_directory(spot: Spot, commit: str) -> bool:
    """Whether the directory is there at the commit."""
    try:
        kind = _git(spot.directory, "cat-file", "-t", f"{commit}:{spot.prefix}")
    except CodeHubError:
        return False
    return kind.strip() == b"tree"


def read_tree(spot: Spot, commit: str) -> GitTree:
    """The files below the directory at a commit."""
    treeish = f"{commit}:{spot.prefix}" if spot.prefix else commit
    listing = _git(spot.directory, "ls-tree", "-r", "-z", "-l", "--full-tree", treeish)
    blobs: dict[str, Blob] = {}
    links: dict[str, Blob] = {}
    for line in filter(None, listing.split(b"\0")):
        mode, _, oid, size, path = _fields(line)
        if mode != _MODULE:
            (links if mode == _LINK else blobs)[path] = Blob(oid, int(size))
    return GitTree(blobs, _read_links(spot, links))


def _fields(line: bytes) -> tuple[str, str, str, str, str]:
    head, _, path = line.partition(b"\t")
    mode, kind, oid, size = head.decode().split()
    return mode, kind, oid, size, path.decode(errors="surrogateescape")


def _read_links(spot: Spot, links: Mapping[str, Blob]) -> dict[str, str]:
    short = {path: blob for path, blob in links.items() if blob.size <= LINK_BYTES}
    if len(short) > caps.FILES:
        raise CodeHubError(f"more than {caps.FILES:,} links in the spec directory")
    texts = read_blobs(spot, [blob.oid for blob in short.values()])
    return {
        path: text.decode(errors="surrogateescape") for path, text in zip(short, texts, strict=True)
    }


def read_blobs(spot: Spot, oids: Sequence[str]) -> list[bytes]:
    """The contents of blobs, in one go; the caller has checked their sizes."""
    if not oids:
        return []
    asked = "".join(f"{oid}\n" for oid in oids).encode()
    answer = _git(spot.directory, "cat-file", "--batch", stdin=asked)
    contents, at = [], 0
    for oid in oids:
        end = answer.find(b"\n", at)
        head = answer[at:end].split()
        if len(head) != 3 or head[0].decode() != oid:
            raise CodeHubError(f"git cannot read the object {oid}: is the repository complete?")
        at = end + 1 + int(head[2]) + 1
        contents.append(answer[end + 1 : at - 1])
    return contents


def _find_spot(root: Path) -> Spot:
    """The directory need not be in the work tree any more: the nearest one above it will do."""
    place = Path(os.path.realpath(root))
    missing: list[str] = []
    while not place.is_dir():
        missing.insert(0, place.name)
        place = place.parent
    prefix = _git(str(place), "rev-parse", "--show-prefix").decode(errors="surrogateescape")
    parts = [prefix.removesuffix("\n").rstrip("/"), *missing]
    return Spot(str(place), "/".join(filter(None, parts)))


def _commit(spot: Spot, ref: str) -> str:
    revision = f"{ref}^{{commit}}"
    answer = _git(spot.directory, "rev-parse", "--verify", "--quiet", "--end-of-options", revision)
    return answer.decode().strip()


def _git(directory: str, *arguments: str, stdin: bytes = b"") -> bytes:
    try:
        done = subprocess.run(
            ["git", *_SAFE, "-C", directory, *arguments],
            input=stdin,
            capture_output=True,
            env=_environment(),
            timeout=SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise CodeHubError("git is not installed", hint="install git, or leave out --ref") from None
    except (subprocess.TimeoutExpired, OSError) as error:
        raise CodeHubError(f"git gave no answer: {type(error).__name__}") from None
    if done.returncode:
        raise CodeHubError(_complaint(directory, done.stderr))
    return done.stdout


def _complaint(directory: str, stderr: bytes) -> str:
    text = stderr.decode(errors="replace")
    if "not a git repository" in text:
        return f"{directory} is not in a git repository"
    first = text.strip().splitlines()[0] if text.strip() else "git failed"
    return first.removeprefix("fatal: ")


def _environment() -> dict[str, str]:
    """Ours without what steers git elsewhere; it asks nobody, locks nothing, fetches nothing."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    return {
        **kept,
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
    }
