"""What counts as somebody working: the rules for requests, WebSocket frames and living pages.

An open tab is not silent: applications poll and exchange frames all the time. Where a page tells of
its person's input, input counts; where none does, traffic counts but for what repeats by itself. So
the doubt is always in the user's favour. Time is an argument.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from codehub.model.workspace import NEVER, ActivityPolicy

if TYPE_CHECKING:
    from collections.abc import Hashable

REPEATS_SECONDS: Final = 120.0
"""A GET of the same path within this time is a page that polls."""
ALIVE_SECONDS: Final = 150.0
"""A page that told of itself so long ago is gone: it tells every minute."""
DOUBT_SECONDS: Final = 600.0
"""A page that does not tell may still be open so long after the last sign of it, at least."""
KNOWN_SECONDS: Final = 86400.0
"""And so long it is known again by where a request says that it comes from."""
TELL_SECONDS: Final = 20
"""How often a page tells of input at most."""
MOST_PATHS: Final = 500
"""Paths remembered for one session on one workspace; whoever polls more counts as active."""
LONG_PATH: Final = 64
"""Of longer ones a hash is remembered: they may be very long, and whoever asks chooses them."""
MOST_PAGES: Final = 50
"""Pages remembered of one session on one workspace, of each kind; the oldest is forgotten."""

_TEXT, _BINARY, _CONTINUATION = 1, 2, 0
_DATA: Final = frozenset({_TEXT, _BINARY, _CONTINUATION})
_KEEPALIVE_BYTES: Final = 13
_KEEPALIVE_KINDS: Final = frozenset({3, 9})


def request_succeeded(status: int) -> bool:
    """Errors and redirects are nobody's work."""
    return 200 <= status < 300 or status == 304


def frame_counts(opcode: int, length: int, first: bytes) -> bool:
    """A data frame, but for the bare keepalive of VS Code; ping, pong and close never."""
    if opcode not in _DATA:
        return False
    keepalive = opcode == _BINARY and length == _KEEPALIVE_BYTES
    return not (keepalive and first[:1] and first[0] in _KEEPALIVE_KINDS)


def tell_seconds(ttl: int) -> int:
    """How often a page tells of input: several times within the idle time that stops it."""
    return TELL_SECONDS if ttl == NEVER else max(1, min(TELL_SECONDS, ttl // 4))


def judged_by_input(policy: ActivityPolicy, *, page_lives: bool) -> bool:
    """Whether traffic tells nothing, because a page would tell of input."""
    return policy is ActivityPolicy.AUTO and page_lives


class Polls:
    """Which requests repeat by themselves: the GETs of one session to one workspace."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[bytes, float] = {}

    def is_repeated(self, method: bytes, path: bytes, now: float) -> bool:
        """Whether this is a GET of a path that was asked for lately, the query aside."""
        if method not in (b"GET", b"HEAD"):
            return False
        key = path if len(path) <= LONG_PATH else blake2b(path, digest_size=8).digest()
        last = self._last.pop(key, None)
        self._last[key] = now
        if len(self._last) > MOST_PATHS:
            del self._last[next(iter(self._last))]
        return last is not None and now - last < REPEATS_SECONDS

    def is_old(self, now: float) -> bool:
        """Whether nothing in it matters any more."""
        return all(now - at >= REPEATS_SECONDS for at in self._last.values())


class LivingPages:
    """Pages that tell of their person's input, by whoever has them open."""

    __slots__ = ("_alive",)

    def __init__(self) -> None:
        self._alive: dict[Hashable, float] = {}

    def __len__(self) -> int:
        return len(self._alive)

    def tell(self, who: Hashable, now: float) -> None:
        self._alive[who] = now

    def lives(self, who: Hashable, now: float) -> bool:
        at = self._alive.get(who)
        return at is not None and now - at < ALIVE_SECONDS

    def forget_gone(self, now: float) -> None:
        self._alive = {who: at for who, at in self._alive.items() if now - at < ALIVE_SECONDS}


class OpenPages:
    """Pages that one session opened on one workspace, by their addresses: who tells, who does not.

    One that was opened and does not tell of input may be unable to, and may be where its person
    works. Nobody says when it is closed, so there is doubt for a while after each sign of it.
    """

    __slots__ = ("_silent", "_telling")

    def __init__(self) -> None:
        self._silent: dict[str, float] = {}
        self._telling: dict[str, float] = {}

    def open(self, page: str, now: float) -> bool:
        """It was opened; whether there is doubt now. One that tells already will tell again."""
        if now - self._telling.get(page, float("-inf")) < ALIVE_SECONDS:
            return False
        _renew(self._silent, page, now)
        return True

    def tell(self, page: str, now: float) -> None:
        """It tells of input."""
        self._silent.pop(page, None)
        _renew(self._telling, page, now)

    def is_silent(self, page: str) -> bool:
        """Whether it was opened and never told."""
        return page in self._silent

    def silent(self, now: float, seconds: float, page: str) -> frozenset[str]:
        """Those that do not tell: `page`, and all that gave a sign within this time."""
        found = self._silent.items()
        return frozenset(each for each, at in found if now - at < seconds or each == page)

    def has_told(self, page: str, since: float) -> bool:
        return self._telling.get(page, float("-inf")) >= since

    def see(self, page: str, now: float) -> None:
        """Something comes from there, so it is open."""
        if page in self._silent:
            _renew(self._silent, page, now)

    def in_doubt(self, now: float, seconds: float) -> bool:
        """Whether one that does not tell gave a sign within this time."""
        latest = next(reversed(self._silent.values()), None)
        return latest is not None and now - latest < seconds

    def is_old(self, now: float) -> bool:
        """Whether nothing in it matters any more."""
        told = all(now - at >= ALIVE_SECONDS for at in self._telling.values())
        return told and not self.in_doubt(now, KNOWN_SECONDS)


def _renew(pages: dict[str, float], page: str, now: float) -> None:
    """The latest is the last."""
    pages.pop(page, None)
    pages[page] = now
    if len(pages) > MOST_PAGES:
        del pages[next(iter(pages))]
