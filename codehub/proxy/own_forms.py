"""Forms of the hub's own pages: read, and found to be what they say they are.

A form of somebody who is logged in carries a proof that is bound to the login. Before a login there
is nothing to bind it to, so the form repeats what a cookie holds: another site can set neither.
Both must come from a page of exactly this origin.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from codehub.core.fingerprint import looks_like_secret, same
from codehub.model.access import Way
from codehub.proxy.cookies import parse_cookies
from codehub.proxy.origin import origin_of, same_origin
from codehub.service.minting import new_secret

if TYPE_CHECKING:
    from codehub.model.access import Identity
    from codehub.proxy.seam import Header, RequestHead

MOST_BYTES: Final = 16 * 1024
MOST_FIELDS: Final = 20
CSRF_HEADER: Final = b"x-codehub-csrf"
_KIND: Final = b"application/x-www-form-urlencoded"


class Bad(Exception):
    """A form that cannot be taken."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Kept:
    """A random value that one browser keeps for us for a while, in a cookie no page can read.

    With TLS and `everywhere` no other host can set it, which takes a cookie for all paths.
    """

    def __init__(self, name: str, path: str, seconds: int, *, everywhere: bool = False) -> None:
        self._name = name
        self._path = path
        self._seconds = seconds
        self._everywhere = everywhere

    @property
    def names(self) -> frozenset[bytes]:
        """No workspace is to get or to set one of these."""
        return frozenset({self._named(secure=False), self._named(secure=True)})

    def find(self, head: RequestHead) -> list[str]:
        """The values that the browser sent: another host of its domain may have added some."""
        found = parse_cookies(head.all(b"cookie"), self._named(secure=head.secure))
        return [each.decode("ascii") for each in found if looks_like_secret(each)]

    def keep(self, head: RequestHead) -> tuple[str, Header]:
        """The value, new where there was none, and the header that has it kept."""
        value = next(iter(self.find(head)), None) or new_secret()
        return value, (b"Set-Cookie", self._made(value, self._seconds, secure=head.secure))

    def forget(self, head: RequestHead) -> Header:
        return (b"Set-Cookie", self._made("", 0, secure=head.secure))

    def _named(self, *, secure: bool) -> bytes:
        if not secure:
            return self._name.encode()
        return f"{'__Host-' if self._everywhere else '__Secure-'}{self._name}".encode()

    def _made(self, value: str, seconds: int, *, secure: bool) -> bytes:
        name = self._named(secure=secure).decode()
        path = "/" if secure and self._everywhere else self._path
        rest = f"; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Lax"
        return f"{name}={value}{rest}{'; Secure' if secure else ''}".encode()


LOGIN: Final = Kept("codehub-login", "/login", 3600)
"""What the login form repeats. The path keeps it from workspaces that share the hub's host."""
STATE: Final = Kept("codehub-state", "/_codehub/", 900, everywhere=True)
"""What a workspace's host knows the browser by that asked for a login; gone once it has one."""
FORM_COOKIES: Final = LOGIN.names | STATE.names


def read_form(head: RequestHead, body: bytes) -> dict[str, str]:
    """The fields of a form, each of them once. Raises Bad."""
    kind = (head.get(b"content-type") or b"").partition(b";")[0].strip().lower()
    if kind != _KIND:
        raise Bad(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "send this as a form (application/x-www-form-urlencoded)",
        )
    try:
        found = parse_qs(
            body.decode("utf-8"),
            keep_blank_values=True,
            max_num_fields=MOST_FIELDS,
            errors="strict",
        )
    except ValueError:
        raise Bad(HTTPStatus.BAD_REQUEST, "this form cannot be read") from None
    if any(len(values) != 1 for values in found.values()):
        raise Bad(HTTPStatus.BAD_REQUEST, "this form has a field twice")
    return {name: values[0] for name, values in found.items()}


def is_own(head: RequestHead) -> bool:
    """Whether a page of this very host sent it."""
    return same_origin(head, origin_of(head.get(b"host") or b"", secure=head.secure))


def is_proven(head: RequestHead, form: dict[str, str], identity: Identity) -> bool:
    """Whether this identity meant to send it. Programs with a token have no pages to be misled."""
    if identity.way is Way.TOKEN:
        return True
    given = form.get("csrf") or (head.get(CSRF_HEADER) or b"").decode("latin-1")
    return is_own(head) and same(given, identity.csrf)


def is_login_form(head: RequestHead, form: dict[str, str]) -> bool:
    """Whether the browser that sent it got the form from us."""
    given = form.get("csrf", "")
    return is_own(head) and any(same(given, kept) for kept in LOGIN.find(head))
