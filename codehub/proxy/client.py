"""Requests on a client's connection, one after the other, each answered before the next is read.

It reads heads, asks the gate, and says what is answered. What comes too early waits, up to a limit;
then reading stops until there is room.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codehub.proxy.asking import FAILED, Asked, Streamed
from codehub.proxy.bodies import body_reader
from codehub.proxy.connection import HELD_LIMIT, NEVER, State
from codehub.proxy.exchange import Exchange
from codehub.proxy.frames import shakes_hands
from codehub.proxy.framing import Bad, looks_wrong
from codehub.proxy.parsing import END, RequestParser
from codehub.proxy.receiving import Receiving
from codehub.proxy.replies import CLOSE, KEEP_ALIVE, switching, whole
from codehub.proxy.seam import Answer, Forward
from codehub.telemetry.instruments import TRAFFIC
from codehub.telemetry.logs import bound, request_id
from codehub.telemetry.traffic import Answered

if TYPE_CHECKING:
    import asyncio

    from codehub.proxy.parsing import Request
    from codehub.proxy.seam import Ask
    from codehub.proxy.server import Server

log: Final = logging.getLogger("codehub.proxy")

REQUEST_ID: Final = b"x-request-id"

_HEAD, _HOLD, _BODY, _LINGER, _LEFT = (int(each) for each in State)
"""Plain numbers: they are compared for every piece."""


class Client(Receiving):
    """Somebody who asks."""

    __slots__ = ("_looping", "_parser", "_request_id")

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self._parser: RequestParser
        self._request_id: str | None = None
        """Made when somebody first asks: most requests are never told of."""
        self._looping = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        secure = transport.get_extra_info("ssl_object") is not None
        self._parser = RequestParser(self.peer, secure=secure, most=self.server.limits.headers)
        self.server.admit(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.server.release(self)
        super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        state = self._state
        if state == _HEAD:
            if self._buffer:
                self._add(data)
            else:
                self._buffer = data
                self._next()
        elif state == _BODY:
            self._take_body(data)
        elif state == _HOLD:
            self._buffer += data
            if len(self._buffer) > HELD_LIMIT:
                self.hold()

    def _add(self, data: bytes) -> None:
        """More of what is begun; of what has to wait for the client to read, not without limit."""
        self._buffer += data
        self._next()
        if self._state == _HEAD and len(self._buffer) > HELD_LIMIT:
            self.hold()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._state == _HEAD:
            self._next()

    # Requests

    def _next(self) -> None:
        """The next request, and the next, as long as they are here and answered at once."""
        if self._looping:
            return
        self._looping = True
        try:
            while self._state == _HEAD and self._buffer and not self.write_paused:
                if not self._read_head():
                    break
        finally:
            self._looping = False

    def _read_head(self) -> bool:
        data = self._buffer
        end = data.find(END) + len(END)
        if end < len(END) or end > self.server.limits.head_bytes:
            self._check_incomplete(data)
            return False
        self._buffer = data[end:]
        try:
            request = self._parser.parse(data[:end])
        except Bad as bad:
            self.refuse(bad.status, bad.reason)
            return False
        self._request, self._request_id = request, None
        self._body = body_reader(request.length) if request.length else None
        self._state = _HOLD
        self.deadline = NEVER
        self._judge(request)
        return True

    def _check_incomplete(self, data: bytes) -> None:
        limits, now = self.server.limits, self.server.now
        if len(data) > limits.head_bytes:
            self.refuse(431, "the head is too large")
        elif not data[:1].isupper() or looks_wrong(data, data[:1]):
            self.refuse(400, "this is not an HTTP/1.1 request")
        else:
            self.deadline = min(self.deadline, now + limits.head_seconds)

    def _judge(self, request: Request) -> None:
        try:
            verdict = self.server.gate.judge(request.head)
        except Exception:
            with bound(request_id=self.request_id):
                log.exception("the gate failed")
            verdict = FAILED
        if isinstance(verdict, Forward):
            self._forward(request, verdict)
        elif isinstance(verdict, Answer):
            self.reply(verdict)
        else:
            self._ask(request, verdict)

    def _forward(self, request: Request, forward: Forward, body: bytes | None = None) -> None:
        limits = self.server.limits
        if limits.body_bytes is not None and request.length > limits.body_bytes:
            self.refuse(413, "the body is too large")
        elif request.websocket and not (request.length == 0 and shakes_hands(request.head)):
            self.refuse(400, "the WebSocket's handshake is not right")
        else:
            onward = self._named(forward) if forward.own else forward
            self._work = exchange = Exchange(self, request, onward, body)
            if limits.answer_seconds is not None:
                self.deadline = self.server.now + limits.answer_seconds
            exchange.start(self)

    def _ask(self, request: Request, ask: Ask) -> None:
        self._work = asked = Asked(self, ask.handle, ask.most)
        if request.length == 0 or ask.most == 0:
            asked.run()
        elif request.length > ask.most:
            self.refuse(413, "the body is too large")
        else:
            self.want_body(asked, within=self.server.limits.form_seconds)

    def told(self, result: Answer | Forward, body: bytes | None) -> None:
        """What came of a question; `body` if it was read for that."""
        self._work = None
        if isinstance(result, Answer) or self._request is None:
            self.reply(result if isinstance(result, Answer) else FAILED)
        else:
            self._forward(self._request, result, body)

    def _named(self, forward: Forward) -> Forward:
        """For the web application, whose log calls the request by the same name as ours."""
        others = [each for each in forward.headers if each[0].lower() != REQUEST_ID]
        return replace(forward, headers=[*others, (REQUEST_ID, self.request_id.encode())])

    @property
    def request_id(self) -> str:
        """What to call the request under way: one name, from its head to the end of its answer."""
        if self._request_id is None:
            head = self._request.head if self._request is not None else None
            self._request_id = request_id(head.get(REQUEST_ID) if head is not None else None)
        return self._request_id

    def fail(self, forward: Forward) -> None:
        """The workspace gave no answer."""
        TRAFFIC.unanswered += 1
        failed = forward.failed
        if failed is None:
            self.refuse(502, "the workspace does not answer")
        else:
            self._state = _HOLD
            self._work = asked = Asked(self, lambda _: failed())
            asked.run()

    # Answers

    def reply(self, answer: Answer) -> None:
        """Say something of the hub's own."""
        TRAFFIC.requests[answer.counted][answer.status // 100] += 1
        request = self._request
        head_only = request is not None and request.head.method == b"HEAD"
        if not isinstance(answer.body, bytes):
            chunked = request is not None and not request.old
            self._work = streamed = Streamed(self, answer, head_only=head_only, chunked=chunked)
            streamed.run()
        elif answer.status == 101 and request is not None:
            self.transport.write(switching(answer, request))
            self._linger()
        else:
            line = self.connection_line(known=True)
            self.transport.write(whole(answer, answer.body, line, head_only=head_only))
            self.finished()

    def refuse(self, status: int, reason: str) -> None:
        """Say what is wrong, and that this was the last word."""
        if self._work is not None:
            self._work.leave()
        TRAFFIC.requests[Answered.REFUSED][status // 100] += 1
        head = self._request.head if self._request is not None else None
        answer = self.server.gate.refuse(head, status, reason)
        body = answer.body if isinstance(answer.body, bytes) else b""
        head_only = head is not None and head.method == b"HEAD"
        self.transport.write(whole(answer, body, CLOSE, head_only=head_only))
        self._linger()

    def connection_line(self, *, known: bool) -> bytes:
        """What an answer says about this connection; `known` if its body's length is."""
        request = self._request
        if request is None:
            return CLOSE
        if self._body is not None or self.server.draining or (request.old and not known):
            request.keep_alive = False
        if not request.keep_alive:
            return CLOSE
        return KEEP_ALIVE if request.old else b""

    def finished(self) -> None:
        """The answer is out. On with the next request, if there is to be one."""
        request, self._request, self._work = self._request, None, None
        if request is None or not request.keep_alive or self.server.draining:
            self._linger(heard=self._body is None)
            return
        self._state = _HEAD
        if not self.write_paused:
            self.deadline = self.server.now + self.server.limits.idle_seconds
        if self._paused:
            self.let(for_work=True)
            self._let_more()
        if self._buffer:
            self._next()

    # The end

    def overdue(self) -> None:
        """A limit of time is over."""
        state, self.deadline, self.body_by = self._state, NEVER, NEVER
        if state == _LINGER:
            self._stop_lingering()
        elif self.write_paused:
            self.abort()
        elif state == _BODY or (state == _HEAD and self._buffer):
            self._stop(408, "the request took too long to come")
        elif state == _HOLD and isinstance(self._work, Exchange) and not self._work.begun:
            self._work.give_up()
        elif state == _HEAD:
            self.transport.close()

    def drain(self) -> None:
        """The server stops: whoever has no request under way is let go."""
        if self._state == _HEAD and not self._buffer:
            self.transport.close()
