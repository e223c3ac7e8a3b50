"""Who is at the other end: a person who looks at a page, a page by itself, or a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from codehub.proxy.seam import RequestHead

AGAIN: Final = b"_codehub=again"
"""At the end of an address: no person asks, but a page of the hub's own by itself."""
_LOOKED_AT: Final = (b"GET", b"HEAD")
_AHEAD: Final = (b"prefetch", b"prerender", b"preview")
_PURPOSES: Final = (b"sec-purpose", b"purpose", b"x-purpose", b"x-moz")


def wants_page(head: RequestHead) -> bool:
    """Whether a person will look at the answer: a navigation that takes HTML."""
    if head.method not in _LOOKED_AT or head.is_websocket:
        return False
    mode = head.get(b"sec-fetch-mode")
    return mode in (None, b"navigate") and b"text/html" in (head.get(b"accept") or b"").lower()


def opens_page(head: RequestHead) -> bool:
    """Whether the answer becomes a page of its own, and not a frame of another.

    What a browser fetches ahead, in case somebody goes there, is none: most of it nobody sees.
    """
    is_whole = head.get(b"sec-fetch-dest") in (None, b"document")
    return head.method == b"GET" and is_whole and wants_page(head) and not _is_ahead(head)


def is_visit(head: RequestHead, base: bytes) -> bool:
    """Whether a person came; `base` is what stands before the workspace's own paths.

    A browser says which navigations somebody asked for: a tab that reloads itself, or a page shown
    in a frame of another, is nobody's visit. Browsers that say nothing are believed, but for pages
    of the hub's own, whose addresses say when they ask again by themselves; and but for what comes
    from inside the workspace, where they tell: that is as likely a tab that reloads itself.
    """
    if head.again or not opens_page(head):
        return False
    mark = head.get(b"sec-fetch-user")
    if mark is not None or says_who(head):
        return mark == b"?1"
    return not _is_from_inside(head, base)


def says_who(head: RequestHead) -> bool:
    """Whether the browser marks what a person asked for.

    Most do not where there is no TLS. WebKit (Safari, and all browsers on an iPhone) says where a
    request comes from and what for, but not whether a person asked.
    """
    return head.get(b"sec-fetch-mode") is not None and not _is_webkit(head)


def referring_path(head: RequestHead) -> bytes:
    """The path of the page that a request names as where it comes from; empty without one."""
    beyond = (head.get(b"referer") or b"").partition(b"://")[2]
    return b"/" + beyond.partition(b"/")[2].partition(b"?")[0] if beyond else b""


def note_again(head: RequestHead) -> None:
    """Take the mark off the address of a page that asks again by itself, and remember it."""
    if head.target.endswith(AGAIN) and wants_page(head):
        head.again = True
        head.target = head.target[: -len(AGAIN) - 1]


def asked_again(address: str) -> str:
    """The address with the mark: whoever asks for it is no visitor."""
    return f"{address}{'&' if '?' in address else '?'}{AGAIN.decode()}"


def _is_ahead(head: RequestHead) -> bool:
    said = b",".join(head.get(name) or b"" for name in _PURPOSES).lower()
    return any(word in said for word in _AHEAD)


def _is_webkit(head: RequestHead) -> bool:
    """Chromium calls itself by that name, too."""
    agent = head.get(b"user-agent") or b""
    return b"AppleWebKit/" in agent and b"Chrome/" not in agent


def _is_from_inside(head: RequestHead, base: bytes) -> bool:
    site = head.get(b"sec-fetch-site")
    is_same = _is_from_host(head) if site is None else site == b"same-origin"
    return is_same and referring_path(head).startswith(base + b"/")


def _is_from_host(head: RequestHead) -> bool:
    """Whether the page that a request names as where it comes from is of the same host."""
    beyond = (head.get(b"referer") or b"").partition(b"://")[2]
    return beyond.partition(b"/")[0].lower() == (head.get(b"host") or b"").lower()
