"""One request on its way to a workspace, and the answer on its way back.

It stands between the client's connection, which brings the request's body, and the workspace's,
which brings the answer. Whoever cannot be written to makes the other stop reading.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from codehub.proxy.bodies import LAST, chunk
from codehub.proxy.connection import NEVER
from codehub.proxy.framing import CHUNKED
from codehub.proxy.heads import UPGRADE, kept_headers, request_head, response_head
from codehub.proxy.insert import Inserter, changed_headers, takes_script
from codehub.proxy.outgoing import Outgoing
from codehub.proxy.trailers import last_chunk
from codehub.proxy.tunnel import Tunnel, agrees
from codehub.telemetry.instruments import TRAFFIC
from codehub.telemetry.traffic import Answered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codehub.proxy.client import Client
    from codehub.proxy.parsing import Request, Response
    from codehub.proxy.seam import Forward, Header
    from codehub.proxy.upstream import Link

MOVING_SECONDS: Final = 2.0
"""How often the watcher hears that a body is still on its way."""

_REPEATABLE: Final = frozenset({b"GET", b"HEAD", b"OPTIONS", b"PUT", b"DELETE", b"PROPFIND"})
_BODILESS: Final = frozenset({204, 304})
_FORWARDED: Final = TRAFFIC.requests[Answered.FORWARDED]
_OWN: Final = TRAFFIC.requests[Answered.OWN]


class Exchange:
    """From the verdict to the last byte of the answer."""

    __slots__ = (
        *("_body", "_client", "_forward", "_length", "_link", "_outgoing", "_owed"),
        *("_repeatable", "_request", "_response", "_tell_at", "_upgrade", "begun"),
    )

    def __init__(
        self, client: Client, request: Request, forward: Forward, body: bytes | None = None
    ) -> None:
        self._client: Client | None = client
        self._request = request
        self._forward = forward
        self._body = body
        """The whole body, where it was read before the verdict; else it is still to come."""
        self._length = request.length if body is None else len(body)
        self._upgrade = request.websocket
        self._repeatable = not self._length and request.head.method in _REPEATABLE
        self._link: Link | None = None
        self._outgoing: Outgoing | None = None
        """What is made of the answer's body; nothing of most."""
        self._response: Response | None = None
        self._owed: Callable[[], None] | None = None
        """To call at the end: gives back a share of the web application, or a hold on a login."""
        self._tell_at = NEVER
        """When the watcher is next to hear that a body is on its way."""
        self.begun = False
        """Whether the answer is on its way."""

    def start(self, client: Client) -> None:
        """Send the request, on a kept connection or a new one."""
        if self._forward.own and not self._take_share(client):
            client.refuse(429, "too many requests of yours are under way")
            return
        upstream = self._forward.upstream
        address = (upstream.host, upstream.port)
        link = client.server.pool.take(address, fresh=not self._repeatable)
        if link is not None:
            self._send(client, link)
        else:
            self._connect(client)

    def _take_share(self, client: Client) -> bool:
        asker = self._forward.asker or self._request.head.peer
        shares = client.server.shares
        if shares.take(asker):
            self._owed = partial(shares.give, asker)
        return self._owed is not None

    def _hold_login(self) -> None:
        """What lasts is theirs only as long as they may have it, and not as long as it lasts."""
        if self._owed is None and self._forward.hold is not None:
            self._owed = self._forward.hold(self.hang_up)

    def _give_back(self) -> None:
        owed, self._owed = self._owed, None
        if owed is not None:
            owed()

    def _connect(self, client: Client) -> None:
        address = (self._forward.upstream.host, self._forward.upstream.port)
        if client.server.pool.is_full(address):
            client.refuse(503, "the workspace has too many connections")
            return
        client.server.spawn(self._connected(client))

    async def _connected(self, client: Client) -> None:
        address = (self._forward.upstream.host, self._forward.upstream.port)
        pool = client.server.pool
        try:
            link = await pool.connect(address)
        except (OSError, ValueError, OverflowError):
            # The last two are of an address that cannot be; who asked must not wait for ever.
            self.broken(silent=False)
            return
        if self._client is None:
            pool.give(link)
        else:
            self._send(client, link)

    def _send(self, client: Client, link: Link) -> None:
        self._link = link
        link.exchange = self
        head = request_head(self._request, self._forward, self._length, upgrade=self._upgrade)
        link.transport.write(head + self._body if self._body else head)
        if self._length and self._body is None:
            self._tell_at = client.server.now + MOVING_SECONDS
            within = client.server.limits.own_body_seconds if self._forward.own else NEVER
            client.want_body(self, within=within)

    # The request's body

    def body(self, piece: bytes, *, last: bool) -> None:
        """A piece of the request's body."""
        client, link = self._client, self._link
        if client is None or link is None:
            return
        if client.server.now >= self._tell_at:
            self._tell_it_moves(client.server.now)
        if self._length == CHUNKED:
            piece = chunk(piece) + self._body_end(client) if last else chunk(piece)
        link.transport.write(piece)

    def _body_end(self, client: Client) -> bytes:
        """The last chunk of the request's body; its trailers are for workspaces alone."""
        if self._forward.own or not client.trailers:
            return LAST
        return last_chunk(client.trailers, self._request.head.tokens(b"connection"))

    def hold_body(self) -> None:
        if self._client is not None:
            self._client.hold(for_work=True)

    def let_body(self) -> None:
        if self._client is not None:
            self._client.let(for_work=True)

    # The answer

    def body_length(self, response: Response) -> int:
        """How much of a body follows this head: that depends on what was asked, too."""
        nothing = response.status in _BODILESS or self._request.head.method == b"HEAD"
        return 0 if nothing else response.length

    def begin(self, response: Response, piece: bytes) -> None:
        """The head of the answer, with what came along of its body."""
        client, forward, status = self._client, self._forward, response.status
        if client is None:
            return
        if status == forward.replaced:
            self.give_up()
            return
        self.begun = True
        self._response = response
        self._tell_at = client.server.now + MOVING_SECONDS
        client.deadline = NEVER
        (_OWN if forward.own else _FORWARDED)[status // 100] += 1
        forward.watcher.answered(status)
        head = self._head(client, response)
        if self._outgoing is not None and piece:
            piece = self._outgoing.piece(piece)
        client.transport.write(head + piece)

    def _head(self, client: Client, response: Response) -> bytes:
        forward = self._forward
        if forward.script is None and response.is_plain:
            line = client.connection_line(known=True)
            if line:
                return response_head(response, response.headers, line)
            if not response.written:
                response.written = response_head(response, response.headers, b"")
            return response.written
        headers = kept_headers(response, forward, self._request.head.get(b"host"))
        known = self.body_length(response) >= 0
        if not known:
            self._hold_login()
        inserter = None
        if forward.script is not None and self._takes_script(response):
            inserter = Inserter(forward.script)
            headers, known = changed_headers(headers), False
        lines = client.connection_line(known=known)
        if not known:
            self._outgoing = Outgoing(self._request, response, inserter)
            lines = self._outgoing.lines + lines
        return response_head(response, headers, lines)

    def _takes_script(self, response: Response) -> bool:
        head = self._request.head
        return head.method == b"GET" and takes_script(response, head.get(b"host"))

    def piece(self, data: bytes) -> None:
        """A piece of the answer's body, passed on at once."""
        client = self._client
        if client is not None:
            if client.server.now >= self._tell_at:
                self._tell_it_moves(client.server.now)
            if self._outgoing is not None:
                data = self._outgoing.piece(data)
            client.transport.write(data)

    def _tell_it_moves(self, now: float) -> None:
        self._tell_at = now + MOVING_SECONDS
        self._hold_login()
        response = self._response
        if response is None:
            self._forward.watcher.moving(ends=True)
        elif response.status // 100 == 2 and not self._is_open_end(response):
            self._forward.watcher.moving(ends=response.length >= 0 or response.is_attachment)

    def _is_open_end(self, response: Response) -> bool:
        """Whether it is a page's stream of events, which lasts as long as the page is open."""
        return self._request.head.method == b"GET" and response.is_event_stream

    def ended(self, *, reusable: bool, trailers: Sequence[Header] = ()) -> None:
        """The answer is whole."""
        client, link = self._client, self._link
        self._client = self._link = None
        if client is None or link is None:
            return
        if self._owed is not None:
            self._give_back()
        if reusable and (not self._length or self._all_sent(client, link)):
            if client.write_paused:
                link.transport.resume_reading()
            client.server.pool.give(link)
        else:
            link.transport.abort()
        if self._outgoing is not None:
            client.transport.write(self._outgoing.end(trailers))
        client.finished()

    def _all_sent(self, client: Client, link: Link) -> bool:
        """Whether nothing of this request is still on its way to the workspace."""
        return client.body_is_in and not link.transport.get_write_buffer_size()

    def broken(self, *, silent: bool) -> None:
        """No answer, or only a part of one; `silent` if nothing at all came back."""
        client, link = self._client, self._link
        if client is None:
            return
        stale = silent and link is not None and link.used
        self._link = None
        if stale and self._repeatable:
            # On a new connection, which cannot be stale: so not more than once.
            self._connect(client)
            return
        self._client = None
        if self._owed is not None:
            self._give_back()
        if self.begun:
            client.abort()
        else:
            client.fail(self._forward)

    def switched(self, response: Response, rest: bytes) -> None:
        """The workspace says that this is a WebSocket from now on."""
        client, link = self._client, self._link
        if client is None or link is None:
            return
        link.exchange = None
        if not self._upgrade or not agrees(self._request.head, response):
            link.transport.abort()
            self.broken(silent=False)
            return
        self._client = self._link = None
        if self._owed is not None:
            self._give_back()
        _FORWARDED[response.status // 100] += 1
        self._forward.watcher.answered(response.status)
        headers = kept_headers(response, self._forward, self._request.head.get(b"host"))
        client.transport.write(response_head(response, headers, UPGRADE))
        tunnel = Tunnel(client.server, client, link, self._forward.watcher)
        tunnel.open(client.leave(), rest)

    # The client

    def give_up(self) -> None:
        """No answer that is of use has come, or not in time."""
        client = self._client
        self.leave()
        if client is not None:
            client.fail(self._forward)

    def hang_up(self) -> None:
        """Whoever asked may no longer have the answer."""
        if self._client is not None:
            self._client.abort()

    def leave(self) -> None:
        """The client is gone: nobody waits for the answer."""
        link, self._client, self._link = self._link, None, None
        self._give_back()
        if link is not None:
            link.exchange = None
            link.transport.abort()

    def hold_answer(self) -> None:
        if self._link is not None:
            self._link.transport.pause_reading()

    def let_answer(self) -> None:
        if self._link is not None:
            self._link.transport.resume_reading()
