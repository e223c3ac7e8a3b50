"""A registry on the loopback that has one image, and answers for others as a test wants.

The engine speaks plain HTTP to registries on the loopback, so nothing has to be configured.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import threading
from base64 import b64encode
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
BASIC = {"WWW-Authenticate": 'Basic realm="test"'}


@dataclass(frozen=True)
class Answer:
    """What the registry says: a status, an error of its protocol, more headers."""

    status: int
    code: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        return json.dumps({"errors": [{"code": self.code, "message": self.code}]}).encode()


class Registry:
    """Its address; `answers` by the path of an image, where it does not have it.

    With a `login` (user and password) nobody is let in without it.
    """

    login: tuple[str, str] | None = None

    def __init__(self, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self.answers: dict[str, Answer] = {}
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, bytes] = {}

    def put(self, path: str, root: bytes) -> str:
        """An image of one layer; its name for a pull."""
        layer = gzip.compress(root, mtime=0)
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [_digest(root)]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self._keep(CONFIG, json.dumps(config).encode()),
            "layers": [self._keep(LAYER, layer)],
        }
        self.manifests[path] = json.dumps(manifest).encode()
        return f"{self.address}/{path}:1"

    def refuse(self, path: str, answer: Answer) -> str:
        self.answers[path] = answer
        return f"{self.address}/{path}:1"

    def lets_in(self, authorization: str | None) -> bool:
        if self.login is None:
            return True
        return authorization == f"Basic {b64encode(':'.join(self.login).encode()).decode()}"

    def _keep(self, kind: str, data: bytes) -> dict[str, Any]:
        self.blobs[_digest(data)] = data
        return {"mediaType": kind, "size": len(data), "digest": _digest(data)}


@contextmanager
def registry() -> Iterator[Registry]:
    server = _Server(("127.0.0.1", 0), _Handler)
    server.registry = Registry(server.server_port)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    registry: Registry


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, _Server)
        registry = self.server.registry
        path, _, what = self.path.removeprefix("/v2/").rpartition("/")
        image, _, kind = path.rpartition("/")
        if not registry.lets_in(self.headers["Authorization"]):
            answer = Answer(401, "UNAUTHORIZED", BASIC)
            self._say(answer.status, answer.body, "application/json", answer.headers)
        elif self.path == "/v2/":
            self._say(200, b"{}", "application/json")
        elif image in registry.answers:
            answer = registry.answers[image]
            self._say(answer.status, answer.body, "application/json", answer.headers)
        elif kind == "manifests" and image in registry.manifests:
            data = registry.manifests[image]
            self._say(200, data, MANIFEST, {"Docker-Content-Digest": _digest(data)})
        elif kind == "blobs" and what in registry.blobs:
            self._say(200, registry.blobs[what], "application/octet-stream")
        else:
            self._say(404, Answer(404, "MANIFEST_UNKNOWN").body, "application/json")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _say(
        self, status: int, body: bytes, kind: str, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Tests say what they need to."""
