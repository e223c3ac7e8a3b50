"""A hub that is asked over HTTP, with a token instead of its database: `codehub plan --server`.

The standard library does: one request, certificates checked, no redirect followed (the token is for
this address alone), and every way that it can fail told in one sentence.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, Request, build_opener

from codehub import __version__
from codehub.errors import (
    CodeHubError,
    NotAllowed,
    NotFound,
    NotLetIn,
    SpecsInvalid,
    Unreachable,
    UsageError,
)
from codehub.model.problem import Place, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from codehub.config import Settings

API: Final = "/api/v1"
PATIENCE: Final = 120.0
"""Seconds that the hub may be silent."""
MOST_BYTES: Final = 256 << 20
TRIES: Final = 6
LONGEST_PAUSE: Final = 15.0
_SOON: Final = (429, 503)
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_MAKE_ONE: Final = "make one with 'codehub token create NAME --scope plan', and set CODEHUB_TOKEN"


@dataclass(frozen=True, slots=True)
class Server:
    """Where the hub is, without a slash at the end, and what to show there."""

    url: str
    token: str = field(repr=False)

    @property
    def local(self) -> bool:
        return urlsplit(self.url).hostname in _LOOPBACK

    @property
    def exposed(self) -> bool:
        """Whether those on the way can read what is sent."""
        return not (self.local or self.url.startswith("https:"))


def find_server(
    server: str | None, hub: str | None, data: Path | None, settings: Settings
) -> Server | None:
    """The hub to ask over HTTP; None where the options or settings name none."""
    named = hub is not None or data is not None
    if server is not None and named:
        raise UsageError("--server and --hub or --data name two hubs", hint="give one of them")
    url = None if named else server or settings.codehub_server
    if url is None:
        return None
    if settings.codehub_token is None:
        raise UsageError(f"there is no token to show to {_checked(url)}", hint=_MAKE_ONE)
    return Server(_checked(url), settings.codehub_token.get_secret_value())


def _checked(url: str) -> str:
    parts = urlsplit(url)
    plain = not (parts.username or parts.password or parts.query or parts.fragment)
    if parts.scheme in ("http", "https") and parts.hostname and plain and parts.path in ("", "/"):
        return url.rstrip("/")
    raise UsageError(
        "the address of the server is not one that can be asked",
        hint="give the one that browsers use, such as https://codehub.example.com",
    )


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """What is sent, the token above all, is for nobody else."""


def post(
    server: Server,
    path: str,
    query: Mapping[str, str],
    body: bytes,
    kind: str,
    *,
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """The hub's answer to this, as plain data. One that is too busy is asked again for a while."""
    request = Request(
        f"{server.url}{API}{path}?{urlencode(query)}",
        body,
        {
            "Authorization": f"Bearer {server.token}",
            "Content-Type": kind,
            "Accept": "application/json",
            "User-Agent": f"codehub/{__version__}",
        },
    )
    for left in reversed(range(TRIES)):
        try:
            return _data(_send(server, request), server)
        except HTTPError as answer:
            asked = answer.headers.get("Retry-After", "")
            if answer.code not in _SOON or not asked.isdecimal() or not left:
                raise _refusal(answer, server) from None
            pause(min(float(asked), LONGEST_PAUSE))
    raise AssertionError("the last try gives or raises something")


def _send(server: Server, request: Request) -> bytes:
    try:
        with _opener(server).open(request, timeout=PATIENCE) as answer:
            whole: bytes = answer.read(MOST_BYTES + 1)
    except HTTPError:
        raise
    except (OSError, HTTPException) as error:
        raise _silence(error, server) from None
    if len(whole) > MOST_BYTES:
        raise CodeHubError(f"the answer of {server.url} is too long to be a plan")
    return whole


def _opener(server: Server) -> OpenerDirector:
    # A proxy for the outside world cannot reach this machine's own addresses.
    return build_opener(_NoRedirect, *([ProxyHandler({})] if server.local else []))


def _silence(error: Exception, server: Server) -> Unreachable:
    reason = error.reason if isinstance(error, URLError) else error
    # The class has a subclass of its own for certificates; importing ssl for its name is dear.
    if type(reason).__name__ == "SSLCertVerificationError":
        return Unreachable(
            f"the certificate of {server.url} is not one that this machine trusts: "
            f"{getattr(reason, 'verify_message', reason)}",
            hint="set SSL_CERT_FILE to a file with the certificate of your authority",
        )
    if isinstance(reason, BrokenPipeError | ConnectionResetError):
        return Unreachable(
            f"{server.url} hung up before all was sent",
            hint="are the specs larger than its WEB_PLAN_BYTES allows? If not, try again",
        )
    words = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return Unreachable(
        f"no hub answers at {server.url} ({words})", hint="check the address, and whether it runs"
    )


def _data(whole: bytes, server: Server) -> dict[str, Any]:
    try:
        data = json.loads(whole)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise _stranger(server)
    return data


def _refusal(answer: HTTPError, server: Server) -> CodeHubError:
    """What the hub's no means here, with its own words where it has some."""
    told = _told(answer)
    detail = str(told.get("detail") or "")
    hint = told.get("hint")
    hint = hint if isinstance(hint, str) else None
    if answer.code in range(300, 400):
        return CodeHubError(
            f"{server.url} sends us elsewhere: {answer.headers.get('Location', 'nowhere')}",
            hint="give the address at which the hub itself answers",
        )
    if answer.code == 401:
        return NotLetIn(f"{server.url} does not know this token, or not any more", hint=_MAKE_ONE)
    if not detail or answer.code in (404, 405):
        return _stranger(server, answer.code)
    if answer.code == 403:
        return NotAllowed(f"{server.url} refuses: {detail}", hint=hint)
    if answer.code == 422:
        problems = [_problem(each) for each in told.get("problems") or () if isinstance(each, dict)]
        return SpecsInvalid(problems, hint=hint) if problems else UsageError(detail, hint=hint)
    if answer.code in _SOON:
        return Unreachable(f"{server.url} is too busy: {detail}", hint=hint or "try again later")
    return CodeHubError(f"{server.url} answers with {answer.code}: {detail}", hint=hint)


def _told(answer: HTTPError) -> dict[str, Any]:
    try:
        told = json.loads(answer.read(MOST_BYTES))
    except (OSError, HTTPException, ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _problem(data: Mapping[str, Any]) -> Problem:
    place = Place(str(data.get("file") or ""), _count(data, "line"), _count(data, "column"))
    excerpt = data.get("excerpt")
    return Problem(
        place,
        str(data.get("field") or ""),
        str(data.get("message") or ""),
        excerpt if isinstance(excerpt, str) else None,
    )


def _count(data: Mapping[str, Any], name: str) -> int:
    value = data.get(name)
    return value if isinstance(value, int) else 0


def _stranger(server: Server, status: int = 200) -> NotFound:
    return NotFound(
        f"what answers at {server.url} is not this version's hub (status {status})",
        hint="check the address; a hub older than this command cannot be asked for plans",
    )
