"""An answer's body that does not go out as it came: in chunks of ours, or with something put in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codehub.proxy.bodies import LAST, chunk
from codehub.proxy.trailers import announcement, last_chunk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codehub.proxy.insert import Inserter
    from codehub.proxy.parsing import Request, Response
    from codehub.proxy.seam import Header


class Outgoing:
    """A body whose length is not known when its head goes out; HTTP/1.0 gets it without chunks."""

    __slots__ = ("_chunked", "_inserter", "_response", "_takes_trailers")

    def __init__(self, request: Request, response: Response, inserter: Inserter | None) -> None:
        self._response = response
        self._inserter = inserter
        self._chunked = not request.old
        # Of a document with something in it, they are not true.
        self._takes_trailers = request.trailers and self._chunked and inserter is None

    @property
    def lines(self) -> bytes:
        """What the head says of it."""
        lines = b"Transfer-Encoding: chunked\r\n" if self._chunked else b""
        if self._takes_trailers:
            declared = [value for name, value in self._response.noted if name == b"trailer"]
            lines += announcement(declared, self._response.tokens(b"connection"))
        return lines

    def piece(self, data: bytes) -> bytes:
        if self._inserter is not None:
            data = self._inserter.feed(data)
        return chunk(data) if self._chunked else data

    def end(self, trailers: Sequence[Header]) -> bytes:
        if trailers and self._takes_trailers:
            return last_chunk(trailers, self._response.tokens(b"connection"))
        rest = self._inserter.feed(b"", last=True) if self._inserter is not None else b""
        return chunk(rest) + LAST if self._chunked else rest
