"""Answers that take time: a question to the gate, and bodies that come piece by piece."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, cast

from codehub.proxy.bodies import LAST, chunk
from codehub.proxy.replies import beginning
from codehub.proxy.seam import Answer
from codehub.telemetry.logs import bound

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from codehub.proxy.client import Client
    from codehub.proxy.seam import Forward

log: Final = logging.getLogger("codehub.proxy")

_SORRY: Final = b"Something went wrong in the hub. Try again, or ask an admin: its log says why.\n"
FAILED: Final = Answer(500, [(b"Content-Type", b"text/plain")], _SORRY)


class Asked:
    """A question with its body. Once asked it is answered, even if nobody waits any more."""

    __slots__ = ("_body", "_client", "_handle", "_most", "begun")

    def __init__(
        self, client: Client, handle: Callable[[bytes], Awaitable[Answer | Forward]], most: int = 0
    ) -> None:
        self.begun = False
        self._client: Client | None = client
        self._most = most
        self._handle = handle
        self._body = b""

    def body(self, piece: bytes, *, last: bool) -> None:
        self._body += piece
        if self._client is None:
            return
        if len(self._body) > self._most:
            self._client.refuse(413, "the body is too large")
        elif last:
            self.run()

    def run(self) -> None:
        if self._client is not None:
            self._client.server.spawn(self._answer())

    async def _answer(self) -> None:
        result = await self._find_answer()
        # Not under the name of this request: the connection goes on with the next ones.
        if self._client is not None:
            self._client.told(result, self._body if self._most else None)

    async def _find_answer(self) -> Answer | Forward:
        with bound(request_id=self._client and self._client.request_id):
            try:
                return await self._handle(self._body)
            except Exception:
                log.exception("an answer failed")
                return FAILED

    def hold_answer(self) -> None:
        pass

    def let_answer(self) -> None:
        pass

    def leave(self) -> None:
        self._client = None


class Streamed:
    """An answer of the hub's own that has no length: events, or a long report."""

    __slots__ = ("_answer", "_chunked", "_client", "_head_only", "_room", "_task", "begun")

    def __init__(self, client: Client, answer: Answer, *, head_only: bool, chunked: bool) -> None:
        self.begun = True
        self._client = client
        self._answer = answer
        self._head_only = head_only
        self._chunked = chunked
        self._room = asyncio.Event()
        self._room.set()
        self._task: asyncio.Task[None] | None = None

    def run(self) -> None:
        self._task = self._client.server.spawn(self._send())

    async def _send(self) -> None:
        client = self._client
        last = b"Transfer-Encoding: chunked\r\n" if self._chunked else b""
        client.transport.write(beginning(self._answer, last + client.connection_line(known=False)))
        try:
            if not self._head_only:
                await self._pieces()
        except Exception:
            log.exception("an answer broke off")
            client.abort()
            return
        client.finished()

    async def _pieces(self) -> None:
        transport = self._client.transport
        body = cast("AsyncIterator[bytes]", self._answer.body)
        async with _closing(body):
            async for piece in body:
                if piece:
                    transport.write(chunk(piece) if self._chunked else piece)
                    await self._room.wait()
        if self._chunked:
            transport.write(LAST)

    def body(self, piece: bytes, *, last: bool) -> None:
        """What is left of the request's body is of no interest."""

    def hold_answer(self) -> None:
        self._room.clear()

    def let_answer(self) -> None:
        self._room.set()

    def leave(self) -> None:
        if self._task is not None:
            self._task.cancel()


@asynccontextmanager
async def _closing(body: AsyncIterator[bytes]) -> AsyncIterator[None]:
    """Ends a generator at once when nobody listens any more, and not some time later."""
    try:
        yield
    finally:
        if isinstance(body, AsyncGenerator):
            await body.aclose()
