"""Checks of the archive store: usable, on time, with room, and this hub's own.

A check has nothing to say (None) where another one has said already why it could not look.
"""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit
from uuid import UUID

from codehub.core.collect import NO_MARK
from codehub.core.express import short
from codehub.core.gauge import amount
from codehub.core.keys import marker_key
from codehub.errors import CodeHubError, UsageError
from codehub.model.checkup import problem, warning, well
from codehub.service.check_machine import FULL, SCARCE
from codehub.service.check_probe import new_key, probe
from codehub.service.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from codehub.adapters.s3.probe import ProbedStore
    from codehub.model.checkup import Verdict
    from codehub.ports import ObjectStore
    from codehub.service.check_identity import Known

    AskKnown = Callable[[], Awaitable[Known | None]]

LATE: Final = timedelta(minutes=5)
TOO_LATE: Final = timedelta(minutes=15)
"""From here on S3 refuses whatever it is asked."""
TICK: Final = timedelta(seconds=1)
"""What the header of an answer leaves out of the time."""
LARGEST_MARK: Final = 4096


class Bucket:
    """The checks of a store at an `s3://` address, over one client."""

    def __init__(self, url: str, known: AskKnown) -> None:
        self._url = url
        self._known = known
        self._opened: ProbedStore | None = None

    async def look_at_store(self) -> Verdict:
        """Before there is a hub, only what can be seen without writing."""
        store, hub = self._store(), await self._known()
        if hub is not None:
            return await probe(store, new_key(hub.hub_id), store.compares_checksums)
        await in_thread(store.folders)
        return warning(
            "the bucket can be listed; nothing was written, because the hub's id, under which "
            "everything lies, is not known"
        )

    async def look_at_clock(self) -> Verdict | None:
        """By any answer, a refusal too: to clocks that differ, S3 says nothing else."""
        before = datetime.now(UTC)
        try:
            theirs = await in_thread(lambda: self._store().server_time())
        except CodeHubError:
            return None
        return judge_clock(theirs, before, datetime.now(UTC)) if theirs else None

    async def look_at_mark(self) -> Verdict | None:
        hub = await self._known()
        if hub is None:
            return None
        return await _look_at_mark(self._store, lambda: self._store().folders(), hub)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _store(self) -> ProbedStore:
        if self._opened is None:
            try:
                from codehub.adapters.s3.probe import ProbedStore
            except ImportError as error:
                raise UsageError(
                    f"the S3 client cannot be imported: {error.name}",
                    hint="pip install 'boto3>=1.36'",
                ) from error
            self._opened = ProbedStore(self._url)
        return self._opened


class Directory:
    """The checks of a store at a `file://` address. `is_new`: there is no hub that has used it."""

    def __init__(self, url: str, known: AskKnown, *, is_new: bool) -> None:
        self._url = url
        self._known = known
        self._is_new = is_new

    async def look_at_store(self) -> Verdict:
        store, hub = self._store(), await self._known()
        if hub is None and self._is_new:
            return well("not made yet: 'codehub up' makes it at its first start")
        if hub is None:
            return warning("not looked at: the hub's id, under which everything lies, is not known")
        if await in_thread(lambda: self._is_unmade(hub)):
            return well("not made yet: the coordinator makes it when it starts")
        if not await in_thread(self._root.exists):
            return problem(
                f"{self._root} is not there, and the database records archives in it",
                "mount it, or put it back from a backup under this name; an empty one is no help",
            )
        return await probe(store, new_key(hub.hub_id))

    async def look_at_space(self) -> Verdict | None:
        try:
            free = await in_thread(lambda: shutil.disk_usage(self._root).free)
        except (OSError, ValueError):
            return None
        return judge_space(self._root, free)

    async def look_at_mark(self) -> Verdict | None:
        hub = await self._known()
        if hub is None or await in_thread(lambda: self._is_unmade(hub)):
            return None
        return await _look_at_mark(self._store, self._folders, hub)

    def close(self) -> None:
        """Nothing is kept open."""

    @property
    def _root(self) -> Path:
        return Path(unquote(urlsplit(self._url).path))

    def _store(self) -> ObjectStore:
        from codehub.adapters.stores import open_store

        return open_store(self._url)

    def _is_unmade(self, hub: Known) -> bool:
        """Nothing is missing from a place that nothing was put into."""
        try:
            empty = not self._root.exists() or not any(self._root.iterdir())
        except OSError:
            return False
        return empty and not hub.has_archives

    def _folders(self) -> list[str]:
        return [each.name for each in self._root.iterdir() if each.is_dir()]


def open_archives(url: str, known: AskKnown, *, are_new: bool) -> Bucket | Directory:
    if url.lower().startswith("s3:"):
        return Bucket(url, known)
    return Directory(url, known, is_new=are_new)


def judge_clock(theirs: datetime, before: datetime, after: datetime) -> Verdict:
    """The answer was given between two times of ours; within them there is no skew."""
    skew = max(before - theirs - TICK, theirs - after, timedelta(0))
    if skew < LATE:
        return well(f"within {short(LATE)} of this machine's")
    side = "behind" if theirs < before else "ahead of"
    text = f"the archive store's clock is {short(skew)} {side} this machine's"
    fix = "set this machine's clock, best by NTP, and the server's"
    if skew < TOO_LATE:
        return warning(f"{text}; from {short(TOO_LATE)} on S3 refuses everything", fix)
    return problem(f"{text}, so S3 refuses everything", fix)


def judge_space(root: Path, free: int) -> Verdict:
    text = f"{root}, {amount(free)} free"
    if free < FULL:
        return problem(text, "make room: archives do not fit")
    return warning(text, "make room soon") if free < SCARCE else well(text)


async def _look_at_mark(
    store: Callable[[], ObjectStore], folders: Callable[[], Iterable[str]], hub: Known
) -> Verdict | None:
    def read() -> Verdict:
        others = sum(_is_id(each) and each != str(hub.hub_id) for each in folders())
        return judge_mark(_read(store(), marker_key(hub.hub_id)), others, hub)

    try:
        return await in_thread(read)
    except (CodeHubError, OSError):
        return None


def judge_mark(text: bytes | None, others: int, hub: Known) -> Verdict:
    """`others` is how many more hubs keep archives at this address, as they may."""
    beside = f"; {others} other hub{'s' if others > 1 else ''} there too" if others else ""
    if text is None and hub.has_archives:
        return problem(f"{NO_MARK.message}{beside}", NO_MARK.hint)
    if text is None:
        return well(f"not marked yet: the coordinator does so when it first leads{beside}")
    owner = _owner(text)
    if owner is None:
        return problem(
            f"the mark of the archive store cannot be read ({marker_key(hub.hub_id)})",
            "restore it from a backup of the store",
        )
    if owner != hub.hub_id:
        return problem(
            f"the archive store is marked as that of another hub ({owner})",
            "correct ARCHIVE_STORE_URL",
        )
    return well(f"it bears this hub's mark{beside}")


def _read(store: ObjectStore, key: str) -> bytes | None:
    reader = store.open_reader(key)
    if reader is None:
        return None
    data = b""
    with reader:
        while len(data) <= LARGEST_MARK and (piece := reader.read(LARGEST_MARK)):
            data += piece
    return data


def _owner(text: bytes) -> UUID | None:
    try:
        return UUID(json.loads(text)["hub"])
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _is_id(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False
