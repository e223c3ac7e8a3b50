"""An archive store that takes every connection and never says a word: the hub does without it."""

from __future__ import annotations

import signal
import socket
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.hub import DEMO, a_hub, until
from tests.end_to_end.tree import processes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(300)


@contextmanager
def silence() -> Iterator[int]:
    """The port of a server that accepts, and that is all."""
    kept: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    kept.append(server.accept()[0])
                except OSError:
                    return

        Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    for each in kept:
        each.close()


def test_workspaces_start_and_stop_beside_a_silent_store() -> None:
    """Asking it takes boto minutes, and ends within none of the waits here."""
    with silence() as port:
        settings = {
            "ARCHIVE_STORE_URL": "s3://bucket/p",
            "S3_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }
        with a_hub(**settings) as hub:
            hub.declare(api=DEMO)
            hub.start()
            hub.until_settled(api="RUNNING")
            until(lambda: "archive store: no answer for" in hub.said(hub.up), "a word of it")

            assert hub.signal(signal.SIGINT) == 0, hub.said(hub.up)

            assert hub.said(hub.up).endswith("1 stopped.\nStopped.\n")
            assert processes_of(hub.data) == []
