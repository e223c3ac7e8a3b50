"""Which addresses of an engine are taken, and that nothing but the engine is asked there."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING

import pytest

from codehub.adapters.docker import DockerRuntime
from codehub.adapters.docker.engine import Engine
from codehub.adapters.docker.presence import trouble
from codehub.errors import Unreachable, UsageError
from tests.contract.docker_engine import require_engine
from tests.contract.docker_proxy import Harm, engine_proxy
from tests.contract.engine_relay import remote_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

FAR = (
    "tcp://192.0.2.1:2375",
    "tcp://engine.example.com:2376",
    "tcp://0.0.0.0:2375",
    "tcp://[2001:db8::1]:2375",
    "tcp://127.0.0.1.example.com:2375",
    "tcp://localhost@192.0.2.1:2375",
    "http://192.0.2.1:2375",
    "https://engine.example.com:2376",
    "ssh://root@build-1",
)
NEAR = (
    "unix:///run/user/1000/docker.sock",
    "tcp://127.0.0.1:2375",
    "tcp://127.3.2.1:2375",
    "tcp://localhost:2375",
    "tcp://LOCALHOST:2375",
    "tcp://[::1]:2375",
    "http://127.0.0.1:2375",
    "https://localhost:2376",
)


@pytest.mark.parametrize("address", FAR)
def test_an_engine_of_another_machine_is_refused_and_why(address: str) -> None:
    """Its workspaces are published on the loopback there; here, somebody else may have the port."""
    with pytest.raises(UsageError, match="is on another machine") as refused:
        DockerRuntime("hub", base_url=address)
    assert address in refused.value.message
    assert "cannot be reached from here" in refused.value.message
    assert "run the hub on the engine's machine" in (refused.value.hint or "")


@pytest.mark.parametrize("address", NEAR)
def test_an_engine_of_this_machine_is_taken_however_it_is_reached(address: str) -> None:
    assert Engine(address).base_url == address


@pytest.mark.parametrize("address", ["ssh://localhost", "fd://", "engine:2375", "unix://run/x"])
def test_an_address_of_another_kind_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="of a kind that is not supported"):
        Engine(address)


@pytest.mark.anyio
async def test_the_engine_is_never_asked_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even for its version, which comes before everything else."""
    require_engine()
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with web_proxy() as (proxy, heard), remote_engine() as address:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy)

        assert await trouble(address) is None

    assert heard == []


@pytest.mark.anyio
async def test_an_engine_that_tells_no_version_is_asked_again() -> None:
    require_engine()
    with engine_proxy() as proxy:
        proxy.harm("GET", "/version", Harm.REFUSE, times=1)
        engine = Engine(proxy.base_url)
        try:
            with pytest.raises(Unreachable):
                await engine.look(lambda client: client.ping())

            assert await engine.look(lambda client: client.ping())
        finally:
            engine.close()


@contextmanager
def web_proxy() -> Iterator[tuple[str, list[bytes]]]:
    """A proxy for the web that refuses everything, and what it was asked for."""
    heard: list[bytes] = []

    class Refusal(StreamRequestHandler):
        def handle(self) -> None:
            heard.append(self.rfile.readline())
            self.wfile.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    with ThreadingTCPServer(("127.0.0.1", 0), Refusal) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", heard
        finally:
            server.shutdown()
            thread.join()
