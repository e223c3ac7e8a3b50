"""The machine's engine as a remote one: reached by TCP on the loopback, as bytes and no more."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING

from tests.contract.docker_engine import SOCKET

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def remote_engine() -> Iterator[str]:
    """The address of the engine; nothing on this machine says that its volumes are here."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"tcp://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


class _Server(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64


class _Handler(BaseRequestHandler):
    def handle(self) -> None:
        client: socket.socket = self.request
        with socket.socket(socket.AF_UNIX) as engine:
            engine.connect(SOCKET)
            back = threading.Thread(target=_pass_on, args=(engine, client), daemon=True)
            back.start()
            _pass_on(client, engine)
            back.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Until either side ends; then both do."""
    with suppress(OSError):
        while piece := source.recv(262144):
            target.sendall(piece)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
