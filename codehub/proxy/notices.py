"""What the hub itself says: pages for people, problems (RFC 9457) for programs.

Every answer carries the same headers: nothing is kept, guessed at, framed or told to other sites. A
page's policy is in the page too, for when it is served as a file.
"""

from __future__ import annotations

import json
from dataclasses import replace
from http import HTTPStatus
from random import randint
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from codehub.model.access import Way
from codehub.proxy.buttons import DASHBOARD
from codehub.proxy.frames import TRY_AGAIN_LATER, close_frame
from codehub.proxy.hosts import HUB
from codehub.proxy.origin import local_path
from codehub.proxy.seam import Answer
from codehub.proxy.visit import asked_again, says_who, wants_page
from codehub.render.pages import FORM_ACTION, REFERRER, Frame, Link, Trouble, Waiting, served
from codehub.render.words import clean
from codehub.telemetry.traffic import Answered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codehub.model.access import Identity
    from codehub.proxy.hosts import Place
    from codehub.proxy.outcome import Outcome
    from codehub.proxy.seam import Header, RequestHead
    from codehub.render.pages import Rendered

RETRY_SECONDS: Final = 2
LIMIT_SECONDS: Final = (10, 30)
"""Whoever was one too many comes back after a while, and not all at once."""
AT_THE_HUB: Final = "/_codehub/hub"
"""On a workspace's own host: the way to the hub's."""

_SECURITY: Final[tuple[Header, ...]] = (
    (b"X-Content-Type-Options", b"nosniff"),
    (b"X-Frame-Options", b"DENY"),
    (b"Cross-Origin-Resource-Policy", b"same-origin"),
    (b"Referrer-Policy", REFERRER.encode()),
    (b"Cache-Control", b"no-store"),
)
_NOTHING: Final = b"default-src 'none'; frame-ancestors 'none'"
_HTML: Final = b"text/html; charset=utf-8"
_TEXT: Final = b"text/plain; charset=utf-8"
_PROBLEM: Final = b"application/problem+json"
_SOON: Final = frozenset({HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS})


def notice(
    head: RequestHead,
    result: Outcome,
    identity: Identity | None,
    *,
    place: Place = HUB,
    forms: str = FORM_ACTION,
) -> Answer:
    """A page for whoever looks at it, a problem for a program, a close code for a WebSocket.

    `place` is the host that was asked for; `forms` what the page's forms may lead to.
    """
    if wants_page(head) or _sent_a_form(head):
        return said(head, result, identity, place=place, forms=forms)
    if head.is_websocket and (result.told or result.status) in _SOON:
        return Answer(101, [], close_frame(TRY_AGAIN_LATER, clean(result.said.title)))
    return problem_of(result)


def said(
    head: RequestHead,
    result: Outcome,
    identity: Identity | None,
    *,
    place: Place = HUB,
    forms: str = FORM_ACTION,
    wanted: str | None = None,
) -> Answer:
    """The page, whoever asked; `wanted` is where its buttons lead back to, here if not given."""
    shown = result.said
    at_hub = place.workspace is None and not (identity is not None and identity.host)
    if not at_hub:
        shown = _away_from_the_hub(shown)
    frame = Frame(
        csrf=identity.csrf if identity is not None else "",
        wanted=local_path(head.target.decode("latin-1")) if wanted is None else wanted,
        again=_again(head) if wanted is None else "",
        home="/" if at_hub else AT_THE_HUB,
        person=identity.person.name if identity is not None else "",
        logout="/logout" if at_hub and _has_session(identity) else "",
        forms=forms,
    )
    return page(result.status, served(shown, frame))


def _again(head: RequestHead) -> str:
    """Where the page asks again by itself, if its browser would not say that nobody asked."""
    target = head.target.decode("latin-1")
    is_plain = local_path(target) == target
    return "" if says_who(head) or not is_plain else asked_again(target)


def page(status: HTTPStatus, rendered: Rendered, headers: Iterable[Header] = ()) -> Answer:
    """A page as an answer."""
    policy = f"{rendered.policy}; frame-ancestors 'none'".encode()
    return _answer(status, _HTML, policy, rendered.text.encode(), headers)


def file(body: bytes) -> Answer:
    """A page that is a file, with its policy in itself."""
    return _answer(HTTPStatus.OK, _HTML, b"frame-ancestors 'none'", body, ())


def line(status: HTTPStatus, text: str, headers: Iterable[Header] = ()) -> Answer:
    """One sentence; what is wrong is a problem."""
    if status >= HTTPStatus.BAD_REQUEST:
        return problem(status, text, headers)
    return _answer(status, _TEXT, _NOTHING, f"{text}\n".encode(), headers)


def refusal(status: HTTPStatus, text: str, headers: Iterable[Header] = ()) -> Answer:
    """One sentence to whoever is not let in."""
    answer = line(status, text, headers)
    answer.counted = Answered.REFUSED
    return answer


def problem(
    status: HTTPStatus,
    detail: str,
    headers: Iterable[Header] = (),
    *,
    title: str = "",
    **facts: Any,
) -> Answer:
    """What a program gets to read."""
    content = {"title": clean(title or status.phrase), "status": status.value}
    body = json.dumps(content | {"detail": clean(detail)} | facts, ensure_ascii=False)
    return _answer(status, _PROBLEM, _NOTHING, body.encode() + b"\n", headers)


def problem_of(result: Outcome) -> Answer:
    """What a page would say, for a program."""
    shown = result.said
    title = "" if result.of_hub else shown.title
    return problem(result.told or result.status, shown.message, title=title, **_facts_of(shown))


def redirect(target: bytes, *, permanent: bool = False, headers: Iterable[Header] = ()) -> Answer:
    """To another address; `permanent` keeps the method and may be remembered."""
    status = HTTPStatus.PERMANENT_REDIRECT if permanent else HTTPStatus.SEE_OTHER
    return _answer(status, _TEXT, _NOTHING, b"", [(b"Location", target), *headers])


def log_in_first(head: RequestHead, place: Place = HUB) -> Answer:
    """Somebody who looks at a page is shown the way; a program is told."""
    if not wants_page(head) or head.method != b"GET":
        return refusal(
            HTTPStatus.UNAUTHORIZED,
            "log in first, or send a token of 'codehub token create' as a bearer token",
            [(b"WWW-Authenticate", b'Bearer realm="codehub"')],
        )
    begin = "/_codehub/begin" if place.workspace is not None else "/login"
    answer = redirect(f"{begin}?next={quote(head.target, safe='')}".encode())
    answer.counted = Answered.REFUSED
    return answer


def _answer(
    status: HTTPStatus, kind: bytes, policy: bytes, body: bytes, headers: Iterable[Header]
) -> Answer:
    given = list(headers)
    if status in _SOON and not any(name.lower() == b"retry-after" for name, _ in given):
        given.append((b"Retry-After", str(_retry(status)).encode()))
    return Answer(
        status,
        [
            (b"Content-Type", kind),
            (b"Content-Security-Policy", policy),
            *_SECURITY,
            *given,
        ],
        body,
    )


def _retry(status: HTTPStatus) -> int:
    return randint(*LIMIT_SECONDS) if status is HTTPStatus.TOO_MANY_REQUESTS else RETRY_SECONDS


def _facts_of(shown: Waiting | Trouble) -> Mapping[str, Any]:
    """What a program may want to know beside the sentence."""
    facts: dict[str, Any] = {}
    if isinstance(shown, Trouble) and shown.advice:
        facts["advice"] = clean(shown.advice)
    if isinstance(shown, Trouble) and shown.code:
        facts["reason"] = shown.code
    if isinstance(shown, Waiting) and shown.part is not None:
        facts["progress"] = round(shown.part, 3)
    if shown.choices:
        facts["running"] = [each.name for each in shown.choices]
    return facts


def _away_from_the_hub(shown: Waiting | Trouble) -> Waiting | Trouble:
    """On a workspace's own host nothing is done to others: that is for the hub's."""
    shown = replace(shown, links=tuple(_by_the_hub(each) for each in shown.links))
    if not any(each.button for each in shown.choices):
        return shown
    names = tuple(replace(each, button=None) for each in shown.choices)
    fields = (field for each in shown.choices if each.button for field in each.button.fields)
    then = dict(fields).get("then", "")
    link = Link("Choose one to stop", f"{AT_THE_HUB}?to=/_codehub/limit/{then}")
    return replace(shown, choices=names, buttons=(), links=(*shown.links, link))


def _by_the_hub(link: Link) -> Link:
    if not link.href.startswith(DASHBOARD):
        return link
    return replace(link, href=f"{AT_THE_HUB}?to={link.href}")


def _sent_a_form(head: RequestHead) -> bool:
    """Whether a person sees the answer to what their browser sent from a page."""
    navigates = head.get(b"sec-fetch-mode") == b"navigate"
    return navigates and b"text/html" in (head.get(b"accept") or b"").lower()


def _has_session(identity: Identity | None) -> bool:
    return identity is not None and identity.way is Way.SESSION
