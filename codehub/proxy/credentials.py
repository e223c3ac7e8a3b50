"""What a request shows for itself, and what of it a workspace may see.

Pure reading of headers: which session, token or trusted name is claimed. Whether the claim holds is
`identity`'s to say. A program's token goes before all else; then the name that a single sign-on
proxy vouches for, believed from its address only; then the browser's cookie.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from codehub.core.fingerprint import (
    TOKEN_PREFIX,
    fingerprint,
    looks_like_secret,
    looks_like_token,
)
from codehub.errors import UsageError
from codehub.model.access import Claim, Visitor, Way
from codehub.proxy.cookies import (
    MOST_BROWSERS,
    NAMES,
    cookie_name,
    parse_cookies,
    strip_cookies,
)
from codehub.proxy.networks import Networks
from codehub.proxy.own_forms import FORM_COOKIES

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from codehub.config import Settings
    from codehub.proxy.seam import Header, RequestHead

MOST_COOKIES: Final = 4
"""Cookies of our name that are looked at; a page of another host may have set more."""
LONGEST_NAME: Final = 100
OWN_HEADERS: Final = b"x-codehub-"
OWN_COOKIES: Final = NAMES | FORM_COOKIES
"""No workspace gets or sets one of these."""
_TOKEN_MARK: Final = TOKEN_PREFIX.encode()
_LOOKED_INTO: Final = frozenset(
    {b"cookie", b"authorization", b"proxy-authorization", b"x-csrf-token"}
)
"""A workspace's own go on under these names, the hub's do not: the mark in them tells."""


class Trust:
    """Whether a peer is the single sign-on proxy, and the header in which it names users."""

    def __init__(self, header: str | None = None, addresses: Iterable[str] = ()) -> None:
        self.header: Final = header.lower().encode("ascii") if header else None
        self._networks: Final = Networks(addresses)

    def vouches(self, peer: str) -> bool:
        """Whether what this peer says is believed."""
        return self.header is not None and peer in self._networks

    def name(self, head: RequestHead) -> str | None:
        """Who is vouched for. Said twice, it counts as not said: somebody slipped one in."""
        if self.header is None or not self.vouches(head.peer):
            return None
        said = head.all(self.header)
        name = said[0].strip().decode("utf-8", "replace") if len(said) == 1 else ""
        return name if name.isprintable() and 0 < len(name) <= LONGEST_NAME else None


NO_TRUST: Final = Trust()


def trust_of(settings: Settings) -> Trust:
    """As the settings say. Half of it is a mistake that would let in nobody, or seem to."""
    header, addresses = settings.auth_trusted_header, settings.auth_trusted_addresses
    if bool(header) != bool(addresses):
        raise UsageError(
            "AUTH_TRUSTED_HEADER and AUTH_TRUSTED_ADDRESSES go together",
            hint="set both, or neither",
        )
    return Trust(header, sorted(addresses))


def claims(head: RequestHead, trust: Trust = NO_TRUST) -> list[Claim] | None:
    """What a request claims, empty for nothing; None for what cannot hold, whatever the hub says.

    Several only where several cookies have our name.
    """
    bearer = _bearer(head)
    if bearer is not None:
        if not looks_like_token(bearer):
            return None
        return [Claim(Way.TOKEN, fingerprint(bearer))]
    name = trust.name(head)
    if name is not None:
        return [Claim(Way.HEADER, name)]
    return _sessions(tuple(head.all(b"cookie")), cookie_name(secure=head.secure))


def visitor_of(head: RequestHead, address: str | None = None) -> Visitor:
    """For the audit; `address` where a trusted proxy in front knows better than the wire."""
    agent = head.get(b"user-agent") or b""
    return Visitor(address or head.peer, agent.decode("utf-8", "replace"))


def outgoing(
    headers: Iterable[Header],
    trust: Trust = NO_TRUST,
    *,
    dropped: Container[bytes] = frozenset(),
) -> list[Header]:
    """The headers without all that lets somebody into the hub, for the way to a workspace.

    One Cookie header, in the place of the first; a workspace's own Authorization and X-CSRF-Token
    stay. `dropped` are names in small letters that do not go on for other reasons. Nor do names
    with an underscore: applications that read headers as CGI does (WSGI, PHP) take those for names
    with hyphens, and so for what only the hub may say.
    """
    kept: list[Header] = []
    cookies: list[bytes] = []
    place, vouching = 0, trust.header
    for header in headers:
        lower = header[0].lower()
        if lower in dropped or b"_" in lower or lower == vouching or lower.startswith(OWN_HEADERS):
            continue
        if lower not in _LOOKED_INTO:
            kept.append(header)
        elif lower == b"cookie":
            place = place if cookies else len(kept)
            cookies.append(header[1])
        elif _TOKEN_MARK not in header[1]:
            kept.append(header)
    rest = strip_cookies(cookies, OWN_COOKIES) if cookies else None
    if rest is not None:
        kept.insert(place, (b"Cookie", rest))
    return kept


@lru_cache(MOST_BROWSERS)
def _sessions(cookies: tuple[bytes, ...], name: bytes) -> list[Claim]:
    """A browser says the same at every request."""
    sound = [value for value in parse_cookies(cookies, name) if looks_like_secret(value)]
    return [Claim(Way.SESSION, fingerprint(value)) for value in sound[:MOST_COOKIES]]


def _bearer(head: RequestHead) -> bytes | None:
    """A token of ours, sound or not; other tokens are the workspace's business."""
    shown = head.all(b"authorization")
    said = [value for value in shown if _TOKEN_MARK in value] if shown else None
    if not said:
        return None
    scheme, _, token = said[0].strip().partition(b" ")
    if len(said) > 1 or scheme.lower() != b"bearer":
        return b""
    return token.strip()
