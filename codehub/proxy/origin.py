"""Where a request comes from: may a page of that origin change something, or open a WebSocket?

A cookie goes along with requests that other sites' pages make. SameSite keeps most of them out, but
not those of workspaces on hosts below the same domain; an exact comparison of origins does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.model.access import Way

if TYPE_CHECKING:
    from codehub.proxy.seam import RequestHead

SAFE_METHODS: Final = frozenset({b"GET", b"HEAD", b"OPTIONS"})
LONGEST_NEXT: Final = 2000
_BROWSER_SAYS: Final = b"sec-fetch-site"


def origin_of(host: bytes, *, secure: bool) -> bytes:
    """The origin of the hub's pages as a browser writes it, for the Host that it asked for."""
    name = host.strip().lower()
    default = b":443" if secure else b":80"
    return (b"https://" if secure else b"http://") + name.removesuffix(default)


def same_origin(head: RequestHead, origin: bytes) -> bool:
    """Whether a page of exactly this origin asks. Nobody who says nothing counts as one."""
    said = head.all(b"origin")
    site = head.all(_BROWSER_SAYS)
    if site and site != [b"same-origin"]:
        return False
    if not said:
        return bool(site)
    return len(said) == 1 and said[0] == origin


def own_page(head: RequestHead, origin: bytes) -> bool:
    """As `same_origin`, also for a page whose referrer policy hides its name.

    Browsers then send `null`, as they do for documents that have no origin at all; but of those
    they never say that they are of the same one.
    """
    hidden = head.all(b"origin") == [b"null"] and head.all(_BROWSER_SAYS) == [b"same-origin"]
    return hidden or same_origin(head, origin)


def may_change(head: RequestHead, origin: bytes, way: Way | None) -> bool:
    """Whether a request may have an effect: safe methods, programs with a token, our own pages."""
    return head.method in SAFE_METHODS or way is Way.TOKEN or same_origin(head, origin)


def may_send(head: RequestHead, origin: bytes, way: Way | None) -> bool:
    """As `may_change`, for what goes on to a workspace, whose pages have policies of their own."""
    return may_change(head, origin, way) or own_page(head, origin)


def may_open_socket(head: RequestHead, origin: bytes, way: Way | None) -> bool:
    """Browsers ask nobody before they open a WebSocket to another site, cookies and all.

    Only browsers send an Origin, so a program with a token needs none; one it sends must fit.
    """
    said = head.all(b"origin")
    if not said:
        return way is Way.TOKEN
    return len(said) == 1 and said[0] == origin


def local_path(target: str | None, default: str = "/") -> str:
    """Where to go after a login: a path on this host, or the default.

    Browsers take `//host`, `/\\host` and both with tabs and line breaks in between for addresses
    of other hosts, so everything that is not plain is refused, not repaired.
    """
    if not target or len(target) > LONGEST_NEXT:
        return default
    if not target.startswith("/") or target.startswith("//"):
        return default
    if any(char <= " " or char >= "\x7f" or char == "\\" for char in target):
        return default
    return target
