"""Who is asking, answered from memory.

A request to a running workspace touches no database: those whom it let in lately are known here, by
the hash of what they show. What is known is asked for again every while, and at once when Postgres
tells of a change. While the database is away, those who are known stay known, up to a bound; about
everybody else nothing can be said, which is another answer than "nobody".

Several processes may serve one address: whom another one let in lately is known here, too, so that
it does not matter which of them a request comes to while the database is away.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from contextlib import aclosing, suppress
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Final
from uuid import UUID

from codehub.errors import CodeHubError, Unreachable
from codehub.model.access import Way
from codehub.proxy.credentials import NO_TRUST, claims, trust_of
from codehub.proxy.gather import Gathered
from codehub.proxy.held import Held, soon
from codehub.proxy.known import Known
from codehub.service.recognising import recent_claims, recognise
from codehub.store.access import CHANNEL
from codehub.store.listen import notifications
from codehub.store.session import ask, open_session
from codehub.store.sessions import write_seen
from codehub.store.tokens import write_used

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codehub.config import Settings
    from codehub.model.access import Claim, Identity
    from codehub.proxy.credentials import Trust
    from codehub.proxy.known import Entry
    from codehub.proxy.seam import RequestHead
    from codehub.service.recognising import Recognised
    from codehub.store.pool import Pool

log: Final = logging.getLogger("codehub.access")

ANSWER_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 1.0
MOST_SLACK: Final = 300.0
"""The longest that a use of a session goes unwritten."""
TRIES: Final = 3
CHUNK: Final = 1000
MOST_RECENT: Final = 1000
"""Logins, and as many tokens, that are known though nobody has shown them to this process."""


class Unknown(Enum):
    """Nothing is known of what the request shows: `look_up` asks the database."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN


def identities_of(
    pool: Pool, url: str, settings: Settings, trust: Trust | None = None
) -> Identities:
    """As the settings say; `trust` where somebody else sees to whom a header is believed."""
    return Identities(
        pool,
        url,
        idle=timedelta(seconds=settings.auth_idle_seconds),
        refresh=settings.auth_refresh_seconds,
        outage=settings.auth_outage_seconds,
        trust=trust_of(settings) if trust is None else trust,
    )


class Identities:
    """`run` keeps it fresh, for ever; `who` and `look_up` are for requests.

    `url` is for a connection of its own, on which Postgres tells of changes.
    """

    def __init__(
        self,
        pool: Pool,
        url: str,
        *,
        idle: timedelta = timedelta(days=3),
        refresh: float = 30.0,
        outage: float = 4 * 3600.0,
        trust: Trust = NO_TRUST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._url = url
        self._idle = idle
        # Often enough that a use is written before another proxy takes the session for idle.
        self._every = min(refresh, idle.total_seconds() / 4)
        self._slack = min(idle.total_seconds() / 10, MOST_SLACK)
        self._trust = trust
        # Nobody is dropped merely because the next round has not come yet.
        self._known = Known(outage=max(outage, 2 * refresh), refresh=refresh, clock=clock)
        self._clock = clock
        self._questions: Gathered[Claim] = Gathered(self._read)
        self._told: list[set[UUID]] = []
        self._changed: dict[Claim, Identity] = {}
        self._open = Held()
        self._news = asyncio.Event()
        self._all_due = False

    def who(self, head: RequestHead, host: str = "") -> Identity | Unknown | None:
        """Who asks, None for nobody. `host` is a workspace's own, in small letters, without port.

        A session of the hub is nobody's on a workspace's host, and the other way round.
        """
        shown = claims(head, self._trust)
        if not shown:
            return None
        entries: list[Entry] = []
        for claim in shown:
            known, entry = self._known.ask(claim)
            if not known:
                return UNKNOWN
            if entry is not None:
                entries.append(entry)
        return self._pick(entries, host)

    def login(self, head: RequestHead) -> Entry | None:
        """What is known of what a request shows, if it shows one thing only."""
        shown = claims(head, self._trust)
        return self._known.ask(shown[0])[1] if shown and len(shown) == 1 else None

    def is_still(self, login: Entry) -> bool:
        """Whether what was known once still is. To ask is to use it."""
        now = self._clock()
        if not self._known.holds(login, now):
            return False
        login.seen = now
        return True

    async def look_up(self, head: RequestHead, host: str = "") -> Identity | None:
        """As `who`, asking the database. Raises Unreachable when it cannot say."""
        for _ in range(TRIES):
            answer = self.who(head, host)
            if answer is not UNKNOWN:
                return answer
            shown = claims(head, self._trust) or []
            await self._questions.ask(c for c in shown if not self._known.ask(c)[0])
        raise Unreachable("the database changes faster than it can be asked", hint="try again")

    def use(self, identity: Identity) -> None:
        """What lasts shows that a login is in use, without a request that would."""
        now = self._clock()
        for entry in self._entries(identity):
            entry.seen = now

    def hold(self, identity: Identity, hang_up: Callable[[], None]) -> Callable[[], None]:
        """Have `hang_up` called when this login or token ends; call what is returned at the end."""
        if not self._lives(identity):
            return soon(hang_up)
        return self._open.add(identity.id, identity.person, hang_up)

    def still(self, identity: Identity) -> Identity | None:
        """What is known of this login by now, None once its time is over. To ask is no use of it.

        What a change was told of is as before, until it is read.
        """
        for entry in self._entries(identity):
            return entry.identity
        return next((each for each in self._changed.values() if each.id == identity.id), None)

    async def run(self) -> None:
        """Follow the database, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_listening())
                tasks.create_task(self._keep_fresh())
        finally:
            await self._questions.close()

    async def refresh(self) -> None:
        """Ask about everybody who is known, here or elsewhere, and write who was here."""
        await self._write_used()
        async with self._pool.connection() as conn:
            asking = recent_claims(conn, self._idle, MOST_RECENT)
            recent = await ask(conn, asking, ANSWER_SECONDS)
        for claim in self._known.unseen():
            if claim not in recent:
                self._known.drop(claim)
        known = [*recent.union(self._known.claims())]
        for start in range(0, len(known), CHUNK):
            await self._read(known[start : start + CHUNK], shown=False)

    def hear(self, payload: str) -> None:
        """Something is no longer as it was: forget it, and ask about it."""
        try:
            ((word, raw),) = json.loads(payload).items()
            about = UUID(raw)
        except (ValueError, AttributeError, TypeError):
            log.warning("something was told on the channel of logins that is not ours")
            return
        for told in self._told:
            told.add(about)
        if word == "user":
            self._known.forget_refusals()
        for claim in self._known.about(about):
            is_unseen = self._known.is_unseen(claim)
            identity = self._known.drop(claim)
            if identity is not None and not is_unseen:
                self._changed[claim] = identity
        self._news.set()

    def _pick(self, entries: Sequence[Entry], host: str) -> Identity | None:
        """The one that counts here. Two people at once are nobody: one slipped the other in."""
        fits = [e for e in entries if e.identity.way is not Way.SESSION or e.identity.host == host]
        if len(fits) != 1 and len({entry.identity.person.id for entry in fits}) != 1:
            return None
        fits[0].seen = self._clock()
        return fits[0].identity

    async def _read(self, asked: Sequence[Claim], *, shown: bool = True) -> None:
        """Learn what the database says of these claims, now."""
        told: set[UUID] = set()
        self._told.append(told)
        try:
            async with self._pool.connection() as conn:
                found = await ask(conn, recognise(conn, asked, self._idle), ANSWER_SECONDS)
        finally:
            self._told.remove(told)
        for claim in asked:
            self._learn(claim, found.get(claim), told, shown=shown)

    def _learn(
        self, claim: Claim, found: Recognised | None, told: set[UUID], *, shown: bool
    ) -> None:
        """What was read before a change that was told meanwhile is not believed."""
        if told if found is None else {found.identity.id, found.identity.person.id} & told:
            return
        before = self._changed.pop(claim, None) or self._known.identity(claim)
        if found is not None:
            self._known.put(claim, found, shown=shown or before is not None)
        else:
            self._known.refuse(claim)
        if before is not None and (found is None or _lost(before, found.identity)):
            self._open.end(before.id)

    def _entries(self, identity: Identity) -> Iterator[Entry]:
        """What is known of this very login, and still holds."""
        for claim in self._known.about(identity.id):
            entry = self._known.ask(claim)[1]
            if entry is not None and entry.identity.id == identity.id:
                yield entry

    def _lives(self, identity: Identity) -> bool:
        """Whether its end, should it come, is still to be told."""
        known = self._known.about(identity.id)
        return bool(known) or any(each.id == identity.id for each in self._changed.values())

    async def _write_used(self) -> None:
        used = list(self._known.used(self._slack))
        if not used:
            return
        slack = timedelta(seconds=self._slack / 2)
        async with self._pool.connection() as conn:
            for way, write in ((Way.SESSION, write_seen), (Way.TOKEN, write_used)):
                ago = {e.identity.id: secs for e, secs in used if e.identity.way is way}
                if ago:
                    await ask(conn, write(conn, ago, slack), ANSWER_SECONDS)
        for entry, _ in used:
            entry.written = entry.seen

    async def _keep_fresh(self) -> None:
        reachable = True
        while True:
            try:
                await self._freshen()
                reachable = True
            except CodeHubError as error:
                if reachable:
                    log.warning("who is logged in cannot be asked: %s", error.message)
                reachable = False
                self._play_safe()
                await asyncio.sleep(RETRY_SECONDS)
            self._give_up()

    async def _freshen(self) -> None:
        """One round: wait for news or for the time, and read what is due."""
        if not self._changed:
            try:
                async with asyncio.timeout(self._every):
                    await self._news.wait()
            except TimeoutError:
                self._all_due = True
        self._news.clear()
        if self._changed:
            await self._read(list(self._changed))
        if self._all_due:
            await self._refresh_all()

    async def _refresh_all(self) -> None:
        """What becomes due meanwhile stays due, and so does what could not be asked."""
        self._all_due = False
        try:
            await self.refresh()
        except CodeHubError:
            self._all_due = True
            raise

    def _play_safe(self) -> None:
        """A change was told that cannot be looked at: it may well have been a logout."""
        for identity in self._changed.values():
            self._open.end(identity.id)

    def _give_up(self) -> None:
        """The database is away for too long: what was known of old counts no more."""
        for claim in self._known.unconfirmed():
            identity = self._known.drop(claim)
            if identity is not None:
                self._open.end(identity.id)

    async def _keep_listening(self) -> None:
        while True:
            with suppress(CodeHubError):  # _keep_fresh says so
                await self._listen()
            await asyncio.sleep(RETRY_SECONDS)

    async def _listen(self) -> None:
        async with open_session(self._url) as conn:
            heard = await notifications(conn, (CHANNEL,))
            # What happened while nobody listened was told to nobody.
            self._all_due = True
            self._news.set()
            async with aclosing(heard):
                async for each in heard:
                    self.hear(each.payload)


def _lost(before: Identity, now: Identity) -> bool:
    """Whether this is another login, or one that may do less: what it has open is judged anew."""
    demoted = before.person.is_admin and not now.person.is_admin
    return before.id != now.id or demoted or not before.scopes <= now.scopes
