"""An engine's copy calls without an engine: it gives back what it was given, or what a test wants.

Real engines swallow errors in ways that cannot be brought about at will; this one does it on order.
"""

from __future__ import annotations

import io
import json
import tarfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from codehub.model.runtime import EngineCopy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOLDER = "h"
VOLUME = "ws-home-g1"


def tar_of(*members: tuple[str, bytes | None], end: bool = True, **fields: Any) -> bytes:
    """A tar as an engine writes it; without content a member is a folder. `fields` go to all."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.mode = 0o40755 if content is None else 0o100644
            info.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            info.size = len(content or b"")
            for key, value in fields.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(content or b""))
        size = buffer.tell()
    return buffer.getvalue()[:size] + (bytes(1024) if end else b"")


EMPTY = tar_of((FOLDER, None))


def as_it_is(tar: bytes) -> bytes:
    return tar


@dataclass
class FakeEngine:
    """`home` is what it says is in the home; `unpack` makes that of what it was given.

    `status` and `said` are its answer to that; `listens` False answers without reading on. `cut`
    ends its answers after so many bytes, as an engine does that dies. `usage` is what it says of
    the volume when it has measured all of them, the size of `home` if None; before, it has so many
    other askers (`busy`).
    """

    path: Path
    home: bytes = EMPTY
    unpack: Callable[[bytes], bytes] = as_it_is
    status: int = 200
    said: str = ""
    listens: bool = True
    cut: int | None = None
    given: list[bytes] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    busy: int = 0

    @property
    def size(self) -> int:
        """Bytes of files and links in the home."""
        with tarfile.open(fileobj=io.BytesIO(self.home)) as tar:
            return sum(len(each.linkname) if each.issym() else each.size for each in tar)

    @property
    def copy(self) -> EngineCopy:
        return EngineCopy(f"unix://{self.path}", "c0ffee", f"/{FOLDER}")


@contextmanager
def fake_engine() -> Iterator[FakeEngine]:
    with TemporaryDirectory(prefix="codehub-engine-") as directory:
        engine = FakeEngine(Path(directory) / "engine.sock")
        with _Server(str(engine.path), _Handler) as server:
            server.engine = engine
            thread = threading.Thread(target=server.serve_forever, args=(0.02,))
            thread.start()
            try:
                yield engine
            finally:
                server.shutdown()
                thread.join()


class _Server(ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False
    engine: FakeEngine

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever asked has gone."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "a socket"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    @property
    def engine(self) -> FakeEngine:
        assert isinstance(self.server, _Server)
        return self.server.engine

    def do_GET(self) -> None:
        if self.path == "/_ping":
            self._answer(200, b"OK")
        elif self.path == "/v1.41/containers/c0ffee/json":
            self._tell({"Mounts": [{"Destination": f"/{FOLDER}", "Name": VOLUME}]})
        elif self.path.partition("?")[0] == "/v1.41/system/df":
            self._measure()
        elif self.path != f"/v1.41/containers/c0ffee/archive?path=%2F{FOLDER}":
            self._answer(404, b'{"message": "No such container: c0ffee"}')
        else:
            self._stream(self.engine.home)

    def do_PUT(self) -> None:
        engine = self.engine
        assert self.path == "/v1.41/containers/c0ffee/archive?path=%2F"
        if not engine.listens:
            self._answer(engine.status, b'{"message": "%s"}' % engine.said.encode())
            self.close_connection = True
            return
        engine.given.append(self._read_chunks())
        if engine.status == 200:
            whole = engine.unpack(engine.given[-1])
            engine.home = whole if any(whole) else EMPTY
        self._answer(engine.status, b'{"message": "%s"}' % engine.said.encode())

    def _measure(self) -> None:
        engine = self.engine
        if engine.busy:
            engine.busy -= 1
            self._answer(500, b'{"message": "a disk usage operation is already running"}')
            return
        usage = {"UsageData": {"Size": engine.size}} if engine.usage is None else engine.usage
        others = {"Name": "another", "UsageData": {"Size": 7}}
        self._tell({"Volumes": [others, {"Name": VOLUME} | usage]})

    def _tell(self, answer: object) -> None:
        self._answer(200, json.dumps(answer).encode())

    def _read_chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Api-Version", "1.41")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, data: bytes) -> None:
        """In chunks of a length that fits nothing."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        cut = len(data) if self.engine.cut is None else self.engine.cut
        for at in range(0, cut, 3001):
            piece = data[at : min(at + 3001, cut)]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        if self.engine.cut is None:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.close_connection = True
