"""Who asks, and whether they may: the same people, cookies and tokens as at the proxy.

A request that comes through a proxy of ours shows the hub's key, and is believed in what it says of
the visitor. One that comes past it is its own visitor, and nobody vouches for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hmac import compare_digest
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import Depends, Request

from codehub.errors import NotAllowed, NotLetIn
from codehub.model.access import Identity, Scope, Way
from codehub.proxy.credentials import visitor_of
from codehub.proxy.identity import UNKNOWN
from codehub.proxy.origin import SAFE_METHODS, may_change, origin_of
from codehub.proxy.seam import RequestHead
from codehub.service.fronting import FRONT_HEADER
from codehub.web.hub import Hub, hub_of

if TYPE_CHECKING:
    from codehub.model.access import Person, Visitor

CSRF_HEADER: Final = "x-csrf-token"
_HINT: Final = "log in, or send a token of 'codehub token create' as a bearer token"


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who is known, and the request that they make."""

    identity: Identity
    head: RequestHead

    @property
    def person(self) -> Person:
        return self.identity.person

    @property
    def visitor(self) -> Visitor:
        """For the audit."""
        return visitor_of(self.head)

    @property
    def owner(self) -> str | None:
        """Whose workspaces they see: None for everybody's."""
        return None if self.person.is_admin else self.person.name

    def sees(self, owner: str) -> bool:
        return self.person.sees(owner)


def head_of(request: Request, hub: Hub) -> RequestHead:
    """The request as the proxy's parts read it, with what a proxy of ours says of the visitor."""
    scope = request.scope
    target = scope.get("raw_path", b"") + (b"?" + scope["query_string"]) * bool(
        scope["query_string"]
    )
    headers = [(bytes(name), bytes(value)) for name, value in scope["headers"]]
    head = RequestHead(scope["method"].encode(), target, headers, scope["client"][0])
    shown = head.get(FRONT_HEADER) or b""
    if not compare_digest(shown, hub.front_key):
        vouching = (hub.settings.auth_trusted_header or "").lower().encode()
        kept = [each for each in headers if each[0].lower() != vouching]
        return RequestHead(head.method, target, kept, head.peer)
    host = head.get(b"x-forwarded-host") or b""
    kept = [(name, value) for name, value in headers if name.lower() not in (b"host", FRONT_HEADER)]
    return RequestHead(
        head.method,
        target,
        [*kept, (b"host", host)],
        (head.get(b"x-forwarded-for") or b"").decode("latin-1"),
        head.get(b"x-forwarded-proto") == b"https",
    )


async def find_caller(request: Request, hub: Annotated[Hub, Depends(hub_of)]) -> Caller | None:
    """Who asks, None for nobody. Raises Unreachable when the database cannot say."""
    head = head_of(request, hub)
    identity = hub.identities.who(head)
    if identity is UNKNOWN:
        identity = await hub.identities.look_up(head)
    if identity is None or not isinstance(identity, Identity):
        return None
    return Caller(identity, head)


async def known_caller(caller: Annotated[Caller | None, Depends(find_caller)]) -> Caller:
    """Who asks. What changes something must come from a page of ours, or with a token."""
    if caller is None:
        raise NotLetIn("nobody is logged in", hint=_HINT)
    _check_origin(caller)
    return caller


def may(scope: Scope) -> Callable[[Caller], Awaitable[Caller]]:
    """A dependency: somebody whose token, if it is one, is good for this."""

    async def check(caller: Annotated[Caller, Depends(known_caller)]) -> Caller:
        if not caller.identity.may(scope):
            raise NotAllowed(
                f'this token has no scope "{scope}"', hint="make one that has, or log in"
            )
        return caller

    return check


Known = Annotated[Caller, Depends(known_caller)]
Reader = Annotated[Caller, Depends(may(Scope.READ))]
Writer = Annotated[Caller, Depends(may(Scope.WRITE))]
Waker = Annotated[Caller, Depends(may(Scope.WAKE))]


def _check_origin(caller: Caller) -> None:
    """A browser's cookie goes along with what other sites' pages send; our pages show more."""
    head, identity = caller.head, caller.identity
    if head.method in SAFE_METHODS or identity.way is Way.TOKEN:
        return
    origin = origin_of(head.get(b"host") or b"", secure=head.secure)
    if not may_change(head, origin, identity.way):
        raise NotAllowed("another site's page may not do this", hint="use the hub's own pages")
    shown = head.get(CSRF_HEADER.encode()) or b""
    if not compare_digest(shown, identity.csrf.encode()):
        raise NotAllowed("this page belongs to another login, or to none", hint="load it again")
