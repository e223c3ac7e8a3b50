"""From what is shown to who shows it: the one place where claims meet the database."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from codehub.core.fingerprint import csrf_token
from codehub.model.access import Claim, Identity, Way, widened
from codehub.service.minting import new_secret
from codehub.store.access import find_people, read_key
from codehub.store.clock import read_now
from codehub.store.sessions import find_sessions, recent_sessions
from codehub.store.tokens import find_tokens, recent_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime, timedelta

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.access import Person, Session, Token

CSRF: Final = "csrf"


@dataclass(frozen=True, slots=True)
class Recognised:
    """Who it is, and for how many seconds from now at most; None for no end of its own."""

    identity: Identity
    seconds: float | None = None


async def recognise(
    conn: AsyncConnection[DictRow], asked: Sequence[Claim], idle: timedelta
) -> dict[Claim, Recognised]:
    """The claims that hold, and who makes them."""
    key = (await read_key(conn, CSRF, new_secret())).encode()
    now = await read_now(conn)
    of = {way: [claim for claim in asked if claim.way is way] for way in Way}
    found: dict[Claim, Recognised] = {}
    if of[Way.SESSION]:
        sessions = await find_sessions(conn, _keys(of[Way.SESSION]), idle)
        found |= _matched(of[Way.SESSION], {k: _session(s, now) for k, s in sessions.items()})
    if of[Way.TOKEN]:
        tokens = await find_tokens(conn, _keys(of[Way.TOKEN]))
        found |= _matched(of[Way.TOKEN], {k: _token(t, now) for k, t in tokens.items()})
    if of[Way.HEADER]:
        people = await find_people(conn, _keys(of[Way.HEADER]))
        found |= _matched(of[Way.HEADER], {k: _person(p) for k, p in people.items()})
    return {claim: _signed(one, key) for claim, one in found.items()}


async def recent_claims(
    conn: AsyncConnection[DictRow], idle: timedelta, most: int
) -> frozenset[Claim]:
    """What was shown last, anywhere on this hub, and still holds: so many of each kind at most."""
    sessions = await recent_sessions(conn, idle, most)
    tokens = await recent_tokens(conn, most)
    return frozenset(
        Claim(way, key)
        for way, keys in ((Way.SESSION, sessions), (Way.TOKEN, tokens))
        for key in keys
    )


def _keys(asked: Iterable[Claim]) -> list[str]:
    return [claim.key for claim in asked]


def _matched(asked: Iterable[Claim], found: Mapping[str, Recognised]) -> dict[Claim, Recognised]:
    return {claim: found[claim.key] for claim in asked if claim.key in found}


def _session(session: Session, now: datetime) -> Recognised:
    identity = Identity(session.person, Way.SESSION, session.id, host=session.host)
    return Recognised(identity, (session.expires_at - now).total_seconds())


def _token(token: Token, now: datetime) -> Recognised:
    identity = Identity(token.person, Way.TOKEN, token.id, widened(token.scopes))
    left = None if token.expires_at is None else (token.expires_at - now).total_seconds()
    return Recognised(identity, left)


def _person(person: Person) -> Recognised:
    return Recognised(Identity(person, Way.HEADER, person.id))


def _signed(one: Recognised, key: bytes) -> Recognised:
    csrf = csrf_token(key, one.identity.way, one.identity.id)
    return Recognised(replace(one.identity, csrf=csrf), one.seconds)
