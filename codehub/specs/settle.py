"""Read the specs at a moment when nobody is writing them.

A directory may be read in the middle of a checkout, a copy or an editor's save. So it is read
twice, with a quiet time between, and counts only when both readings say the same, HEAD stayed
where it was and git holds no lock. At a ref, blobs of one commit cannot change while they are read.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codehub.errors import CodeHubError, SpecsInvalid
from codehub.model.revision import UNREADABLE, Origin
from codehub.specs import git
from codehub.specs.load import load_specs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codehub.model.revision import SpecSet
    from codehub.specs.cache import SpecCache

_LOCK: Final = "index.lock"
_GITDIR: Final = "gitdir:"


class Unsettled(Exception):
    """The specs are being written at this moment; the message says how we know."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one look at the specs gave: a spec set, or all that is wrong with it.

    `digest` tells readings apart, also failed ones. `head` is the commit the directory was at.
    """

    digest: str
    origin: Origin
    head: str | None = None
    specs: SpecSet | None = None
    problems: tuple[str, ...] = ()


async def read_settled(
    root: Path, ref: str | None, *, quiet: float, cache: SpecCache, known: str | None = None
) -> Reading:
    """One reading to rely on; raises `Unsettled`. What is `known` already is not read twice."""
    if ref is not None:
        return await asyncio.to_thread(read_once, root, ref, cache)
    await _require_no_lock(root)
    first = await asyncio.to_thread(read_once, root, None, cache)
    if first.digest == known:
        return first
    await asyncio.sleep(quiet)
    second = await asyncio.to_thread(read_once, root, None, cache)
    await _require_no_lock(root)
    if _mark(first) != _mark(second):
        raise Unsettled("the specs are still changing")
    return second


def _mark(reading: Reading) -> tuple[str, Origin, str | None]:
    return reading.digest, reading.origin, reading.head


def read_once(root: Path, ref: str | None, cache: SpecCache) -> Reading:
    """The specs as they are at this moment, whatever is wrong with them."""
    cache.fingerprint = ""
    try:
        specs = load_specs(root, ref, cache=cache)
    except SpecsInvalid as invalid:
        return _failed(root, ref, [str(each) for each in invalid.problems], cache.fingerprint)
    except CodeHubError as error:
        return _failed(root, ref, [f"{root}: {error.message}"], cache.fingerprint)
    return Reading(specs.digest, specs.origin, specs.origin.commit, specs)


def _failed(root: Path, ref: str | None, problems: Sequence[str], content: str) -> Reading:
    whole = "\n".join((content, *problems))
    digest = sha256(whole.encode(errors="surrogateescape")).hexdigest()
    head = _head(root, ref)
    # What a directory holds that cannot be read may be any commit's, or none's.
    origin = Origin(str(root), commit=head if ref is not None else None, ref=ref)
    return Reading(UNREADABLE + digest, origin, head, problems=tuple(problems))


def _head(root: Path, ref: str | None) -> str | None:
    if ref is None:
        found = git.find_commit(root)
        return found[1] if found else None
    try:
        return git.open_ref(root, ref)[1]
    except CodeHubError:
        return None


async def _require_no_lock(root: Path) -> None:
    lock = await asyncio.to_thread(find_lock, root)
    if lock is not None:
        raise Unsettled(f"git is at work there ({lock})")


def find_lock(root: Path) -> Path | None:
    """The lock that git holds while it changes the work tree around a directory; None if none.

    Found by looking, since the coordinator's machine may have no git.
    """
    place = Path(os.path.realpath(root))
    for each in (place, *place.parents):
        kept = _git_directory(each / ".git")
        if kept is not None:
            lock = kept / _LOCK
            return lock if lock.exists() else None
    return None


def _git_directory(entry: Path) -> Path | None:
    """A repository's own directory: `.git` itself, or where the `.git` of a worktree points."""
    try:
        if entry.is_dir():
            return entry
        text = entry.read_text(errors="surrogateescape") if entry.is_file() else ""
    except OSError:
        return None
    if not text.startswith(_GITDIR):
        return None
    return entry.parent / text.removeprefix(_GITDIR).strip()
