"""One tag put into an HTML document on its way: after its head begins, and nowhere else.

Only the beginning of a document is looked at: space, comments, the doctype, `<html>` and `<head>`.
The tag goes in after the last of these; a document that begins otherwise is left alone. Nothing is
held back but a token that is not whole yet.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from codehub.proxy.parsing import Response
    from codehub.proxy.seam import Header

FAR_ENOUGH: Final = 64 * 1024
"""How far into a document its head is looked for."""
MOST_PIECES: Final = 256
"""In how many pieces it may come: each is looked at with all that is held back."""

_ATTRIBUTES: Final = rb"""(?:[\s/](?:[^>"']|"[^"]*"|'[^']*')*)?"""
_TOKEN: Final = re.compile(
    rb"(\xef\xbb\xbf|\s+|<!--.*?-->|<\?[^>]*>)"
    rb"|(<!doctype[^>]*>|<html" + _ATTRIBUTES + rb">)"
    rb"|(<head" + _ATTRIBUTES + rb">)",
    re.IGNORECASE | re.DOTALL,
)
_BEGINNINGS: Final = (b"<!--", b"<!doctype", b"<html", b"<head", b"<?", b"\xef\xbb\xbf")
_CHANGED: Final = frozenset(
    {b"accept-ranges", b"content-digest", b"content-length", b"content-md5", b"digest"}
    | {b"repr-digest"}
)
"""What is no longer true of a document with something in it."""

_ENCODED: Final = (b"content-encoding", b"content-range")
_BLOCKERS: Final = frozenset({b"'none'", b"'strict-dynamic'"})
_SCRIPTS: Final = (b"script-src-elem", b"script-src", b"default-src")
_REPORTS: Final = (b"connect-src", b"default-src")


class Inserter:
    """Follows one document, in pieces of any size."""

    __slots__ = ("_begun", "_held", "_pieces", "_seen", "_tag")

    def __init__(self, tag: bytes) -> None:
        self._tag: bytes | None = tag
        self._held = b""
        self._begun = False
        """Whether it is a document at all, as its doctype or `<html>` say."""
        self._seen = 0
        self._pieces = 0

    def feed(self, piece: bytes, *, last: bool = False) -> bytes:
        """What goes on now."""
        if self._tag is None:
            return piece
        data, self._held = self._held + piece, b""
        self._pieces += 1
        last = last or self._pieces > MOST_PIECES
        at = 0
        while match := _TOKEN.match(data, at):
            at = match.end()
            self._begun = self._begun or bool(match[2])
            if match[3]:
                return self._put(data, at)
        if not last and self._seen + len(data) < FAR_ENOUGH and _may_become_token(data[at:]):
            self._seen += at
            self._held = data[at:]
            return data[:at]
        return self._put(data, at) if self._begun else self._leave(data)

    def _put(self, data: bytes, at: int) -> bytes:
        tag, self._tag = self._tag or b"", None
        return b"".join((data[:at], tag, data[at:]))

    def _leave(self, data: bytes) -> bytes:
        self._tag = None
        return data


def _may_become_token(rest: bytes) -> bool:
    """Whether what follows could be one of our tokens, of which only the beginning is here."""
    low = rest.lower()
    if any(each.startswith(low) for each in _BEGINNINGS):
        return True
    if low.startswith(b"<!--"):
        return True
    if low.startswith((b"<!doctype", b"<?")):
        return True
    # A name that goes on is another name: <header>.
    return low.startswith((b"<html", b"<head")) and (low[5:6].isspace() or low[5:6] == b"/")


def takes_script(response: Response, host: bytes | None) -> bool:
    """Whether an answer is a document into which a script of the hub's origin may go."""
    if response.status != 200:
        return False
    named = [(name.lower(), value) for name, value in response.headers]
    kinds = [value for name, value in named if name == b"content-type"]
    if len(kinds) != 1 or not _is_html(kinds[0]):
        return False
    for name, value in named:
        if name in _ENCODED and value.lower() != b"identity":
            return False
        if name == b"content-disposition" and value.lower().startswith(b"attachment"):
            return False
        if name == b"cache-control" and b"no-transform" in value.lower():
            return False
    policies = [value for name, value in named if name == b"content-security-policy"]
    return all(_allows(each, host) for value in policies for each in value.lower().split(b","))


def _is_html(kind: bytes) -> bool:
    name, _, parameters = kind.lower().partition(b";")
    return name.strip() == b"text/html" and b"utf-16" not in parameters


def _allows(policy: bytes, host: bytes | None) -> bool:
    """Whether a policy lets the page load a script from its own origin, and report to it."""
    rules: dict[bytes, list[bytes]] = {}
    for directive in policy.split(b";"):
        words = directive.split()
        if words:
            rules.setdefault(words[0], words[1:])
    if b"sandbox" in rules:
        return False
    return all(_own_origin(rules, names, host) for names in (_SCRIPTS, _REPORTS))


def _own_origin(
    rules: dict[bytes, list[bytes]], names: tuple[bytes, ...], host: bytes | None
) -> bool:
    sources = next((rules[name] for name in names if name in rules), None)
    if sources is None:
        return True
    if not sources or _BLOCKERS & set(sources):
        return False
    own = {b"'self'", b"*", b"http:"}
    if host is not None:
        own |= {host.lower(), b"http://" + host.lower()}
    return bool(own & set(sources))


def changed_headers(headers: list[Header]) -> list[Header]:
    """The headers of a document that gets longer.

    Its entity tag is made weak: whoever has this copy may ask whether it is still good, but may
    not fill it up with byte ranges of the original.
    """
    kept = [(name, value) for name, value in headers if name.lower() not in _CHANGED]
    return [
        (name, b"W/" + value if name.lower() == b"etag" and value.startswith(b'"') else value)
        for name, value in kept
    ]
