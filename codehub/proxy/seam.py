"""What the wire and the gate say to each other: a request's head in, a verdict out.

The wire (`server`, `upstream`, `tunnel`) speaks HTTP and knows nothing of workspaces. The gate
knows who may reach which workspace and what everybody else gets, and never touches a socket. The
way of a request to a running workspace is synchronous: a head, a verdict, bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from codehub.telemetry.traffic import Answered

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from codehub.model.runtime import Upstream
    from codehub.proxy.passage import Passage

Header = tuple[bytes, bytes]


class Same:
    """What requests of one connection share whose headers are the same bytes.

    The gate keeps in `passage` what it made of them, for those that are still to come.
    """

    __slots__ = ("passage",)

    def __init__(self) -> None:
        self.passage: Passage | None = None


@dataclass(slots=True, repr=False)
class RequestHead:
    """A request as it came. `target` is path and query, byte for byte; names as they were sent."""

    method: bytes
    target: bytes
    headers: list[Header]
    peer: str
    """The address of whoever is at the other end of the connection."""
    secure: bool = False
    """Whether that connection is TLS; a trusted proxy in front may say otherwise in a header."""
    again: bool = False
    """Whether a page of the hub's own asks by itself. Its address says so, until that is noted."""
    same: Same | None = None
    """Where it can be that others with the same headers come on this connection."""
    _named: dict[bytes, list[bytes]] | None = field(
        default=None, init=False, repr=False, compare=False
    )
    """The values by name, made when somebody first asks: every request is asked often."""

    def __repr__(self) -> str:
        """Cookies, tokens and one-time codes do not get into a log this way."""
        return f"<{self.method!r} {self.path!r} from {self.peer}>"

    @property
    def path(self) -> bytes:
        return self.target.partition(b"?")[0]

    def get(self, name: bytes) -> bytes | None:
        """The first value under a name in small letters."""
        found = (self._named or self._by_name()).get(name)
        return found[0] if found is not None else None

    def all(self, name: bytes) -> list[bytes]:
        """Every value under a name in small letters."""
        return (self._named or self._by_name()).get(name, [])

    def tokens(self, name: bytes) -> frozenset[bytes]:
        """The words of a comma-separated header, in small letters."""
        parts = (part for value in self.all(name) for part in value.split(b","))
        return frozenset(part.strip().lower() for part in parts) - {b""}

    @property
    def is_websocket(self) -> bool:
        if self.method != b"GET" or self.get(b"upgrade") is None:
            return False
        asks = b"upgrade" in self.tokens(b"connection")
        return asks and self.tokens(b"upgrade") == {b"websocket"}

    def index(self, named: dict[bytes, list[bytes]]) -> None:
        """Whoever read the headers may say what is there, by names in small letters."""
        self._named = named

    def repeated(self, target: bytes) -> RequestHead:
        """Another request with the same headers."""
        head = RequestHead(
            self.method, target, self.headers, self.peer, self.secure, same=self.same
        )
        head._named = self._named
        return head

    def _by_name(self) -> dict[bytes, list[bytes]]:
        named: dict[bytes, list[bytes]] = {}
        for key, value in self.headers:
            named.setdefault(key.lower(), []).append(value)
        self._named = named
        return named


@dataclass(slots=True)
class Answer:
    """One answer of the hub's own. A body that comes piece by piece has no length.

    With status 101 to a WebSocket's handshake, the body is frames; then the connection ends.
    """

    status: int
    headers: list[Header]
    body: bytes | AsyncIterator[bytes] = b""
    counted: Answered = Answered.OWN
    """As what metrics count it."""


class Watcher(Protocol):
    """Hears what passes, to judge what is activity. Called for everything, so it is quick."""

    def answered(self, status: int) -> None:
        """The workspace has answered the request."""

    def moving(self, *, ends: bool) -> None:
        """A long body, the request's or that of a good answer, is still on its way.

        Said every few seconds at most, and only while bytes pass. `ends` says that it is something
        whole that somebody waits for, and not a stream that lasts as long as a page is open.
        """

    def frame(self, opcode: int, length: int, first: bytes, *, from_client: bool) -> None:
        """A WebSocket frame has begun; `first` are the first unmasked bytes of a short one."""

    def opened(self, hang_up: Callable[[], None]) -> None:
        """A WebSocket is open. `hang_up` closes it (1008), when whoever opened it is logged out."""

    def closed(self) -> None:
        """It is closed."""


@dataclass(slots=True)
class Forward:
    """The request goes on to a workspace. Nobody changes one; frozen, each would take longer."""

    upstream: Upstream
    target: bytes
    base: bytes
    """What stood before the workspace's own path (`/w/name`), empty on a host of its own:
    `X-Forwarded-Prefix`, and put before redirects to its own paths."""
    headers: list[Header]
    """The request's headers as they go on, without those that are about a connection."""
    watcher: Watcher
    lines: bytes | None = None
    """The headers as they are written, where that is known already."""
    script: bytes | None = None
    """A tag to put into the document, after its head begins, if the answer turns out to be one."""
    forbidden_cookies: frozenset[bytes] = frozenset()
    """Names that the workspace may not set."""
    failed: Callable[[], Awaitable[Answer]] | None = None
    """What to say when the workspace gives no answer."""
    replaced: int = 0
    """A status that counts as no answer."""
    hold: Callable[[Callable[[], None]], Callable[[], None]] | None = None
    """Has what it is given called when whoever asked may no longer have the answer, if that lasts;
    what it gives back is called at the answer's end."""
    own: bool = False
    """Whether it goes to the hub's own web application, and to no workspace."""
    asker: str = ""
    """Whose share of the web application it takes, a person's or an address's; else the peer's."""


@dataclass(frozen=True, slots=True)
class Ask:
    """The answer needs the request's body, or time. `most` is the longest body it takes.

    With 0 the body is not read before the answer; if that is a Forward, it is streamed on. Once
    asked, a question is answered to its end, even if the client leaves meanwhile.
    """

    handle: Callable[[bytes], Awaitable[Answer | Forward]]
    most: int = 0


Verdict = Answer | Forward | Ask


class Gate(Protocol):
    """Says what becomes of a request."""

    def judge(self, head: RequestHead) -> Verdict:
        """Never raises for what a client sent: that is an Answer too."""

    def refuse(self, head: RequestHead | None, status: int, reason: str) -> Answer:
        """What to say to a request that the wire cannot take.

        400, 408, 413, 417, 429, 431, 501, 503, 505; and 502 for a Forward without `failed`.
        """
