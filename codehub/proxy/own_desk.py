"""What the hub's own addresses work with, and the words they share."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from codehub.errors import LimitReached, NotFound, Refused
from codehub.proxy.credentials import visitor_of
from codehub.proxy.notices import line, log_in_first, problem_of, said
from codehub.proxy.outcome import MISSING, Outcome, limited, unreadable
from codehub.proxy.visit import wants_page
from codehub.render.pages import Link, Trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from codehub.errors import CodeHubError
    from codehub.model.access import Identity, Visitor
    from codehub.proxy.hosts import Place
    from codehub.proxy.seam import Answer, RequestHead
    from codehub.proxy.whereabouts import Whereabouts
    from codehub.service.limits import LimitDefaults
    from codehub.service.sessions import Lasting
    from codehub.store.pool import Pool
    from codehub.store.workspaces import Found


@dataclass(frozen=True, slots=True)
class Desk:
    """`address` says where a request comes from, as far as those in front are believed."""

    pool: Pool
    where: Whereabouts
    lasting: Lasting
    limits: LimitDefaults
    address: Callable[[RequestHead], str]

    def visitor(self, head: RequestHead) -> Visitor:
        return visitor_of(head, self.address(head))


@dataclass(frozen=True, slots=True)
class Caller:
    """A request for an address of the hub's own: what, from whom, on which host."""

    head: RequestHead
    identity: Identity | None
    place: Place

    @property
    def looks(self) -> bool:
        """Whether a person will look at the answer, also to a form that they sent."""
        head = self.head
        if head.method == b"GET":
            return wants_page(head)
        navigates = head.get(b"sec-fetch-mode") in (None, b"navigate")
        return navigates and b"text/html" in (head.get(b"accept") or b"").lower()

    @property
    def query(self) -> dict[str, str]:
        """What stands behind the question mark, each thing once; the first of several counts."""
        raw = self.head.target.partition(b"?")[2].decode("latin-1")
        try:
            found = parse_qs(raw, keep_blank_values=True, max_num_fields=20)
        except ValueError:
            return {}
        return {name: values[0] for name, values in found.items()}


def tell(caller: Caller, desk: Desk, result: Outcome, wanted: str | None = None) -> Answer:
    """An outcome, to a person or a program."""
    if caller.looks:
        forms = desk.where.forms(caller.head)
        return said(
            caller.head, result, caller.identity, place=caller.place, forms=forms, wanted=wanted
        )
    return problem_of(result)


def refusal(error: CodeHubError, name: str, back: str) -> Outcome:
    """What the rules, or a silent database, say to somebody who asked for something."""
    if isinstance(error, NotFound):
        return MISSING
    if isinstance(error, LimitReached):
        found = limited(name, error)
        return Outcome(HTTPStatus.TOO_MANY_REQUESTS, found.said)
    if not isinstance(error, Refused):
        return unreadable()
    links = (Link("Back", back),)
    shown = Trouble("That is not possible", f"{error.message}.", error.hint or "", links=links)
    return Outcome(HTTPStatus.CONFLICT, shown)


def old_page(back: str) -> Outcome:
    """Somebody sent a form that was made for another login; `back` is where it is made anew."""
    shown = Trouble(
        "This page is out of date",
        "It was opened under another login, so nothing was done.",
        "open the page again, and try once more",
        links=(Link("Open the page again", back),),
    )
    return Outcome(HTTPStatus.FORBIDDEN, shown)


def log_in(caller: Caller) -> Answer:
    """Nobody is known who asks."""
    return log_in_first(caller.head, caller.place)


def not_allowed(methods: Iterable[bytes]) -> Answer:
    allowed = b", ".join(methods)
    text = f"this address can only be asked with {allowed.decode()}"
    return line(HTTPStatus.METHOD_NOT_ALLOWED, text, [(b"Allow", allowed)])


def is_theirs(found: Found, identity: Identity, place: Place) -> bool:
    """Whether somebody may see this workspace, here: on its own host nothing of others is."""
    workspace, person = found.workspace, identity.person
    if place.workspace is not None and place.workspace != workspace.name:
        return False
    return person.sees(workspace.declaration.owner)
