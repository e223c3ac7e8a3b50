"""The proxy's memory of who is who: claims and what the database last said about them.

An entry is good for as long as what it says lasts, and until it was not confirmed for too long.
Claims that did not hold are remembered too, for a while and up to a number, so that a browser with
an old cookie does not ask the database at every request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codehub.model.access import Way

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from codehub.model.access import Claim, Identity
    from codehub.service.recognising import Recognised

MOST_UNFOUNDED: Final = 10_000
NEVER: Final = float("-inf")


@dataclass(slots=True)
class Entry:
    """Who it is, and until when that holds. `seen` and `written` are when it was last used.

    One that was never `seen` is known only because another process may have let it in.
    """

    identity: Identity
    checked: float
    until: float
    seen: float
    written: float
    dropped: bool = False
    """Whether it is no longer what is known."""


class Known:
    """`outage` is how long an entry holds that nobody confirms, `refresh` how long a refusal."""

    def __init__(self, *, outage: float, refresh: float, clock: Callable[[], float]) -> None:
        self._outage = outage
        self._refresh = refresh
        self._clock = clock
        self._entries: dict[Claim, Entry] = {}
        self._unfounded: dict[Claim, float] = {}
        self._about: dict[UUID, set[Claim]] = {}

    def ask(self, claim: Claim) -> tuple[bool, Entry | None]:
        """Whether anything is known, and if so the entry; None for a claim that does not hold."""
        entry, now = self._entries.get(claim), self._clock()
        if entry is None:
            refused = self._unfounded.get(claim)
            return refused is not None and now - refused < self._refresh, None
        if now >= entry.until:
            return True, None
        return now - entry.checked <= self._outage, entry

    def holds(self, entry: Entry, now: float) -> bool:
        """Whether what an entry says is still all that is known of its claim, and good."""
        return not entry.dropped and now < entry.until and now - entry.checked <= self._outage

    def put(self, claim: Claim, found: Recognised, *, shown: bool = True) -> None:
        """The database has confirmed it. `shown` is False where nobody has shown it here."""
        now = self._clock()
        until = float("inf") if found.seconds is None else now + found.seconds
        old = self._entries.get(claim)
        seen, written = (old.seen, old.written) if old else (now if shown else NEVER, NEVER)
        self.drop(claim)
        self._entries[claim] = Entry(found.identity, now, until, seen, written)
        for what in (found.identity.id, found.identity.person.id):
            self._about.setdefault(what, set()).add(claim)
        self._unfounded.pop(claim, None)

    def refuse(self, claim: Claim) -> None:
        """The database knows nothing of it."""
        self.drop(claim)
        self._unfounded.pop(claim, None)
        self._unfounded[claim] = self._clock()
        if len(self._unfounded) > MOST_UNFOUNDED:
            del self._unfounded[next(iter(self._unfounded))]

    def drop(self, claim: Claim) -> Identity | None:
        """Whatever is known of it may be wrong."""
        entry = self._entries.pop(claim, None)
        if entry is None:
            return None
        entry.dropped = True
        for what in {entry.identity.id, entry.identity.person.id}:
            self._about[what].discard(claim)
            if not self._about[what]:
                del self._about[what]
        return entry.identity

    def identity(self, claim: Claim) -> Identity | None:
        """Who it is or was, if that is remembered at all."""
        entry = self._entries.get(claim)
        return entry.identity if entry else None

    def unseen(self) -> list[Claim]:
        """Those that nobody has shown here."""
        return [claim for claim, entry in self._entries.items() if entry.seen == NEVER]

    def is_unseen(self, claim: Claim) -> bool:
        entry = self._entries.get(claim)
        return entry is not None and entry.seen == NEVER

    def forget_refusals(self) -> None:
        self._unfounded.clear()

    def claims(self) -> list[Claim]:
        return list(self._entries)

    def about(self, what: UUID) -> list[Claim]:
        """The claims that have to do with a session, a token or a user."""
        return list(self._about.get(what, ()))

    def unconfirmed(self) -> list[Claim]:
        """Those that nobody confirmed for too long."""
        now = self._clock()
        return [c for c, e in self._entries.items() if now - e.checked > self._outage]

    def used(self, slack: float) -> Iterator[tuple[Entry, float]]:
        """What was used since it was last written, and how many seconds ago that was."""
        now = self._clock()
        for entry in self._entries.values():
            if entry.identity.way is not Way.HEADER and entry.seen - entry.written >= slack:
                yield entry, now - entry.seen
