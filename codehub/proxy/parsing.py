"""Heads of HTTP/1 messages, read strictly: whatever two programs could read differently is refused.

llhttp (in httptools) takes heads apart and is strict about line ends, folding, spaces, control
characters and chunks. It gets exactly one whole head, never a body: where a body begins and how
long it is, is for `framing` here to say. What llhttp lets pass is checked here: odd encodings,
several hosts, other versions and protocols, targets that are no path, empty lines before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from httptools import (
    HttpParserError,
    HttpParserInvalidURLError,
    HttpParserUpgrade,
    HttpRequestParser,
    HttpResponseParser,
)

from codehub.proxy.framing import (
    UNTIL_CLOSE,
    Bad,
    HeardRequest,
    HeardResponse,
    framing,
    keeps_alive,
    read_length,
    tokens,
)
from codehub.proxy.seam import RequestHead, Same

if TYPE_CHECKING:
    from codehub.proxy.seam import Header

END: Final = b"\r\n\r\n"

_HOST: Final = re.compile(rb"[A-Za-z0-9._~%!$&'()*+,;=:\[\]-]{1,255}")
_STATUS: Final = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: ([\t\x20-\x7e\x80-\xff]*))?")
_RAW_TARGET: Final = re.compile(rb"([A-Z-]+) (/[!\x22\x24-\x7e\x80-\xff]*) (?=HTTP/1\.[01]\r\n)")
_USUAL: Final = re.compile(rb"GET (/[A-Za-z0-9/._~%!$&'()*+,;=:@?-]*) HTTP/1\.1\r\n")
"""First lines about which there is nothing to say."""
_MOST_REMEMBERED: Final = 4096
"""Bytes of headers that are remembered, for each connection."""
_REFUSED_METHODS: Final = frozenset({b"CONNECT", b"TRACE", b"PRI", b"SOURCE"})

_FRAMING: Final = (b"content-length", b"transfer-encoding", b"connection")
_MOST_KNOWN: Final = 256
_statuses: dict[bytes, tuple[int, bool, bytes]] = {}
"""First lines of answers seen before; there are few of them."""
_hosts: set[bytes] = set()
"""Host headers seen before that can be read."""


@dataclass(slots=True)
class Request:
    """A request's head and what it says about its connection and its body."""

    head: RequestHead
    length: int
    """Of its body, or CHUNKED."""
    old: bool
    """HTTP/1.0: it knows neither chunks nor interim answers."""
    keep_alive: bool
    expects: bool
    """Whether it waits for 100 Continue before it sends its body."""
    websocket: bool
    trailers: bool
    """Whether it takes an answer with trailers."""


@dataclass(slots=True)
class Response:
    """An answer's head."""

    status: int
    line: bytes
    """Its number and its words."""
    headers: list[Header]
    noted: list[Header]
    """Those that mean something to the wire, with their names in small letters."""
    length: int
    """Of its body, or CHUNKED or UNTIL_CLOSE."""
    keep_alive: bool
    written: bytes = b""
    """The head as a client gets it, where nothing in it is about the connection."""

    @property
    def is_plain(self) -> bool:
        """Most answers: nothing but the length means anything."""
        return self.length >= 0 and len(self.noted) == 1

    def tokens(self, name: bytes) -> frozenset[bytes]:
        """The words of a header that is noted, in small letters."""
        return tokens(value for key, value in self.noted if key == name)

    @property
    def is_event_stream(self) -> bool:
        return self._begins(b"content-type", b"text/event-stream")

    @property
    def is_attachment(self) -> bool:
        """Whether it is for a file of whoever asked, and for no page."""
        return self._begins(b"content-disposition", b"attachment")

    def _begins(self, name: bytes, word: bytes) -> bool:
        """Whether there is one header of this name, and its value begins so."""
        values = [value for key, value in self.headers if key.lower() == name]
        return len(values) == 1 and values[0].lower().startswith(word)


class RequestParser:
    """Reads the heads of one client's requests, one after the other.

    Browsers and programs say the same in most requests of a connection, but for the first line. So
    headers that are byte for byte those of the request before are not read again.
    """

    __slots__ = ("_before", "_block", "_heard", "_most", "_parser", "_peer", "_secure")

    def __init__(self, peer: str, *, secure: bool, most: int) -> None:
        self._peer = peer
        self._secure = secure
        self._most = most
        self._heard = HeardRequest()
        self._parser = HttpRequestParser(self._heard)
        self._block = b""
        """The headers of the request before, if it was a usual one."""
        self._before: Request | None = None

    def parse(self, head: bytes) -> Request:
        """A whole head, with the empty line at its end. Raises Bad."""
        first = _USUAL.match(head)
        if first is None:
            return self._read(head)
        block = head[first.end() :]
        if self._before is None or block != self._block:
            return self._remembered(self._read(head), block)
        # Nobody needs that one any more: requests are answered one after the other.
        request = self._before
        request.head = request.head.repeated(first[1])
        return request

    def _remembered(self, request: Request, block: bytes) -> Request:
        """For the next, unless it has a body or becomes something else than an answer."""
        if request.length == 0 and not request.websocket and len(block) <= _MOST_REMEMBERED:
            self._block, self._before = block, request
            request.head.same = Same()
        else:
            self._before = None
        return request

    def _read(self, head: bytes) -> Request:
        heard, parser = self._heard, self._parser
        heard.target = b""
        try:
            parser.feed_data(head)
        except HttpParserUpgrade:
            self._parser = HttpRequestParser(heard)
        except HttpParserInvalidURLError:
            return self._parse_raw_target(head)
        except HttpParserError as error:
            raise Bad(400, "the request cannot be read") from error
        return self._parsed(head, parser.get_method(), heard.target)

    def _parse_raw_target(self, head: bytes) -> Request:
        """llhttp wants targets in ASCII; people's programs also send UTF-8 as it is."""
        match = _RAW_TARGET.match(head)
        if match is None:
            raise Bad(400, "the request's target cannot be read")
        self._parser = HttpRequestParser(self._heard)
        request = self._read(b"%b / %b" % (match[1], head[match.end() :]))
        request.head.target = match[2]
        return request

    def _parsed(self, head: bytes, method: bytes, target: bytes) -> Request:
        heard = self._heard
        old = _check_first_line(head, method, target)
        if len(heard.headers) > self._most:
            raise Bad(431, "there are too many headers")
        found = RequestHead(method, target, heard.headers, self._peer, self._secure)
        found.index(heard.named)
        request = _request(found, heard.named, old=old)
        if request.length:
            # This parser waits for a body that it will not see.
            self._parser = HttpRequestParser(heard)
        return request


def _check_first_line(head: bytes, method: bytes, target: bytes) -> bool:
    """That it is what we would write, and whether it is HTTP/1.0."""
    line = head[: head.index(b"\r\n")]
    if line == b"%b %b HTTP/1.1" % (method, target):
        old = False
    elif line == b"%b %b HTTP/1.0" % (method, target):
        old = True
    else:
        _refuse_line(line)
    if method in _REFUSED_METHODS:
        raise Bad(501, "this method is not served here")
    if not target.startswith(b"/") or b"#" in target:
        raise Bad(400, "the request's target is not a path")
    return old


def _refuse_line(line: bytes) -> NoReturn:
    if re.search(rb" HTTP/[0-9.]+$", line) and not line.endswith((b"/1.1", b"/1.0")):
        raise Bad(505, "this version of HTTP is not spoken here")
    raise Bad(400, "the request's first line cannot be read")


def _request(head: RequestHead, named: dict[bytes, list[bytes]], *, old: bool) -> Request:
    _check_host(named.get(b"host"), old=old)
    length = 0
    if b"content-length" in named or b"transfer-encoding" in named:
        lengths, encodings = named.get(b"content-length"), named.get(b"transfer-encoding")
        length = framing(lengths, encodings, otherwise=0, old=old)
    expects = b"expect" in named and _expects(named[b"expect"]) and length != 0 and not old
    keep_alive = keeps_alive(named.get(b"connection"), old=old)
    websocket = b"upgrade" in named and not old and head.is_websocket
    trailers = b"te" in named and not old and b"trailers" in tokens(named[b"te"])
    return Request(head, length, old, keep_alive, expects, websocket, trailers)


def _check_host(hosts: list[bytes] | None, *, old: bool) -> None:
    if hosts is None and old:
        return
    if hosts is None or len(hosts) != 1:
        raise Bad(400, "a request has exactly one Host header")
    if hosts[0] not in _hosts:
        if not _HOST.fullmatch(hosts[0]):
            raise Bad(400, "the Host header cannot be read")
        if len(_hosts) < _MOST_KNOWN:
            _hosts.add(hosts[0])


def _expects(values: list[bytes]) -> bool:
    expected = tokens(values)
    if expected - {b"100-continue"}:
        raise Bad(417, "the only expectation met here is 100-continue")
    return bool(expected)


class ResponseParser:
    """Reads the heads of one workspace's answers; one that comes again is not read again."""

    __slots__ = ("_before", "_head")

    def __init__(self) -> None:
        self._head = b""
        self._before: Response | None = None

    def parse(self, head: bytes) -> Response:
        """A whole head, with the empty line at its end. Raises Bad."""
        if self._before is not None and head == self._head:
            return self._before
        response = parse_response(head)
        is_kept = response.is_plain and len(head) <= _MOST_REMEMBERED
        self._head, self._before = head, response if is_kept else None
        return response


def parse_response(head: bytes) -> Response:
    """A whole head, with the empty line at its end. Raises Bad."""
    heard = HeardResponse()
    status, old, line = _status(head[: head.index(b"\r\n")])
    try:
        # A new one each time: llhttp waits for a body that it will not see.
        HttpResponseParser(heard).feed_data(head)
    except HttpParserUpgrade:
        pass
    except HttpParserError as error:
        raise Bad(502, "the answer cannot be read") from error
    noted = heard.noted
    if len(noted) == 1 and noted[0][0] == b"content-length":  # most answers
        return Response(status, line, heard.headers, noted, read_length(noted[0][1]), not old)
    lengths, encodings, connection = (
        [value for key, value in noted if key == name] for name in _FRAMING
    )
    length = framing(lengths, encodings, otherwise=UNTIL_CLOSE, old=old)
    alive = keeps_alive(connection or None, old=old)
    return Response(status, line, heard.headers, noted, length, alive)


def _status(line: bytes) -> tuple[int, bool, bytes]:
    """Number, whether it is HTTP/1.0, and number and words of an answer's first line."""
    found = _statuses.get(line)
    if found is None:
        match = _STATUS.fullmatch(line)
        if match is None:
            raise Bad(502, "the answer is not HTTP/1.1")
        found = (int(match[2]), match[1] == b"0", b"%b %b" % (match[2], match[3] or b""))
        if len(_statuses) < _MOST_KNOWN:
            _statuses[line] = found
    return found
