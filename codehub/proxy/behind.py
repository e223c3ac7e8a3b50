"""What is behind the proxy: the web application gets all that is the hub's and not answered here.

It recognises people by itself, from the same cookies and tokens. What it cannot see from where it
stands (the visitor's address, TLS, a name that a single sign-on proxy vouches for) it believes from
whoever knows the hub's key, which no client and no workspace does.
"""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from codehub.errors import CodeHubError
from codehub.proxy.heads import HOP_BY_HOP
from codehub.proxy.notices import log_in_first, notice
from codehub.proxy.onward import OURS
from codehub.proxy.outcome import unattended, unreadable
from codehub.proxy.seam import Ask, Forward
from codehub.proxy.visit import wants_page
from codehub.service.fronting import FRONT_HEADER, front_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from codehub.model.access import Identity
    from codehub.model.runtime import Upstream
    from codehub.proxy.gate import Front, OwnAddresses
    from codehub.proxy.hosts import Place
    from codehub.proxy.outcome import Outcome
    from codehub.proxy.seam import Answer, Header, RequestHead, Verdict
    from codehub.store.pool import Pool

_DROPPED: Final = OURS | HOP_BY_HOP | {FRONT_HEADER}


class _Unwatched:
    """Looking at the hub's own pages is not activity in a workspace."""

    def answered(self, status: int) -> None: ...

    def moving(self, *, ends: bool) -> None: ...

    def frame(self, opcode: int, length: int, first: bytes, *, from_client: bool) -> None: ...

    def opened(self, hang_up: Callable[[], None]) -> None: ...

    def closed(self) -> None: ...


_UNWATCHED: Final = _Unwatched()


class Behind:
    """Hands over to the web application at `web`; `home` answers in its place while it is away."""

    def __init__(self, web: Upstream, pool: Pool, front: Front, home: OwnAddresses) -> None:
        self._web = web
        self._pool = pool
        self._front = front
        self._home = home
        self._key: bytes | None = None

    def judge(self, head: RequestHead, identity: Identity | None, place: Place) -> Verdict | None:
        if place.workspace is not None or head.path.startswith(b"/_codehub/"):
            return None
        if identity is None and wants_page(head):
            return log_in_first(head, place)
        if self._key is None:
            return Ask(partial(self._introduced, head, identity, place))
        return self._hand_over(head, identity, place, self._key)

    async def _introduced(
        self, head: RequestHead, identity: Identity | None, place: Place, _body: bytes
    ) -> Answer | Forward:
        try:
            async with self._pool.connection() as conn:
                self._key = (await front_key(conn)).encode()
        except CodeHubError:
            return await self._away(head, identity, place, unreadable)
        return self._hand_over(head, identity, place, self._key)

    def _hand_over(
        self, head: RequestHead, identity: Identity | None, place: Place, key: bytes
    ) -> Forward:
        return Forward(
            upstream=self._web,
            target=head.target,
            base=b"",
            headers=self._headers(head, key),
            watcher=_UNWATCHED,
            failed=partial(self._away, head, identity, place, unattended),
            # It says so while the database is away: for the front page there is the last good one.
            replaced=HTTPStatus.SERVICE_UNAVAILABLE if head.path == b"/" else 0,
            own=True,
            asker=self._front.address(head) if identity is None else str(identity.person.id),
        )

    def _headers(self, head: RequestHead, key: bytes) -> list[Header]:
        trust = self._front.trust
        dropped = _DROPPED | head.tokens(b"connection") - {b"host"}
        if trust.header is not None and not trust.vouches(head.peer):
            dropped |= {trust.header}
        return [
            *((name, value) for name, value in head.headers if name.lower() not in dropped),
            (b"X-Forwarded-For", self._front.address(head).encode("latin-1", "replace")),
            (b"X-Forwarded-Host", head.get(b"host") or b""),
            (b"X-Forwarded-Proto", b"https" if head.secure else b"http"),
            (FRONT_HEADER, key),
        ]

    async def _away(
        self,
        head: RequestHead,
        identity: Identity | None,
        place: Place,
        why: Callable[[], Outcome],
    ) -> Answer:
        """The web application gives no answer: show the last good page where there is one."""
        verdict = self._home.judge(head, identity, place)
        if isinstance(verdict, Ask):
            answer = await verdict.handle(b"")
            if not isinstance(answer, Forward):
                return answer
        return notice(head, why(), identity, place=place)
