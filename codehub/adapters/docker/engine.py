"""The Docker SDK in threads: every call has a time limit, and a call that exceeds it is unknown.

The SDK blocks. Short calls run in a small pool of threads; each stream (events, logs, a pull) has
a thread of its own, which ends when the stream's socket is closed under it. An abandoned call's
thread ends with the socket's own time limit, so a hanging engine cannot collect threads for ever.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

import docker
from docker.constants import DEFAULT_DOCKER_API_VERSION

from codehub.adapters.docker.translate import (
    FOREIGN,
    NOT_FOUND,
    Declined,
    explain_act,
    explain_look,
    is_trouble,
)
from codehub.errors import Unreachable, UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

T = TypeVar("T")

LOOK_SECONDS: Final = 15.0
ACT_SECONDS: Final = 60.0
THREADS: Final = 16
_SOCKET: Final = "/var/run/docker.sock"
_SCHEMES: Final = ("unix:///", "tcp://", "http://", "https://")
_NETWORK: Final = ("tcp://", "http://", "https://", "ssh://")
_NEAR: Final = (
    "run the hub on the engine's machine; for an engine of this one, unset DOCKER_HOST, or set it "
    "to unix:///path"
)
_END: Final[Any] = object()


class Engine:
    """One Docker engine. Connects when it is first used, and again after `close`."""

    def __init__(
        self,
        base_url: str | None = None,
        *,
        look_seconds: float = LOOK_SECONDS,
        act_seconds: float = ACT_SECONDS,
    ) -> None:
        self.base_url = base_url or f"unix://{_SOCKET}"
        _require_near(self.base_url)
        self.look_seconds = look_seconds
        self.act_seconds = act_seconds
        self._lock = threading.Lock()
        self._client: docker.APIClient | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._streams: set[_Stream] = set()

    @property
    def is_local(self) -> bool:
        """Whether it is reached through a socket of this machine's file system."""
        return self.base_url.startswith("unix://")

    async def look(self, ask: Callable[[docker.APIClient], T]) -> T:
        """Ask for a fact; whatever goes wrong, it is unknown."""
        try:
            return await self._call(ask, self.look_seconds)
        except FOREIGN as error:
            raise explain_look(error) from error

    async def find(self, ask: Callable[[docker.APIClient], T]) -> T | None:
        """Ask for one thing; None when there is none."""
        try:
            return await self.look(ask)
        except Declined as error:
            if error.status != NOT_FOUND:
                raise
            return None

    async def act(self, do: Callable[[docker.APIClient], T], *, extra: float = 0) -> T:
        """Change something, in the usual time and `extra` seconds; a refusal is `Declined`."""
        try:
            return await self._call(do, self.act_seconds + extra)
        except FOREIGN as error:
            raise explain_act(error) from error

    async def remove(self, do: Callable[[docker.APIClient], object]) -> None:
        """Remove something; gone already is fine."""
        try:
            await self.act(do)
        except Declined as error:
            if error.status != NOT_FOUND:
                raise

    async def stream(
        self, begin: Callable[[docker.APIClient], Any], *, silence: float | None = None
    ) -> AsyncIterator[Any]:
        """The items of a `CancellableStream`, for as long as they are asked for.

        Ends when the stream does, whatever the cause. `silence` limits the time between two items.
        """
        stream = _Stream(lambda: self._attempt(begin))
        self._streams.add(stream)
        try:
            await self._limited(stream.open(), silence or self.act_seconds)
            while (item := await self._limited(stream.next(), silence)) is not _END:
                yield item
        except FOREIGN as error:
            raise explain_act(error) from error
        finally:
            self._streams.discard(stream)
            stream.close()

    def close(self) -> None:
        """Let go of all connections; streams end."""
        for stream in tuple(self._streams):
            stream.close()
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)
        self._forget()

    async def _call(self, step: Callable[[docker.APIClient], T], seconds: float) -> T:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="docker")
        running = asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: self._attempt(step)
        )
        return await self._limited(running, seconds)

    async def _limited(self, waiting: asyncio.Future[T], seconds: float | None) -> T:
        try:
            async with asyncio.timeout(seconds):
                return await waiting
        except TimeoutError:
            raise Unreachable("the Docker engine did not answer in time") from None

    def _attempt(self, step: Callable[[docker.APIClient], T]) -> T:
        """After trouble the next call connects anew: the engine may have become another version."""
        try:
            return step(self._connected())
        except FOREIGN as error:
            if not isinstance(error, docker.errors.APIError) or is_trouble(error):
                self._forget()
            raise

    def _connected(self) -> docker.APIClient:
        client = self._client
        if client is None:
            if not self._lock.acquire(timeout=self.look_seconds):
                raise TimeoutError("timed out")
            try:
                client = self._client = self._client or self._connect()
            finally:
                self._lock.release()
        return client

    def _connect(self) -> docker.APIClient:
        """Asks for the version; an engine that hangs here keeps its callers only for a look."""
        self._require_socket()
        client = docker.APIClient(
            self.base_url,
            version=DEFAULT_DOCKER_API_VERSION,
            timeout=self.look_seconds,
            max_pool_size=THREADS,
        )
        # Settings of this machine's user (proxies, netrc) are not the engine's. The client takes
        # them until it is told, so it must not ask for the version while it is made.
        client.trust_env = False
        try:
            client._version = client._retrieve_server_version()
        except FOREIGN:
            client.close()
            raise
        client.timeout = self.act_seconds
        return client

    def _require_socket(self) -> None:
        """The SDK loses the descriptor of a socket that it cannot connect."""
        if self.is_local:
            with socket.socket(socket.AF_UNIX) as attempt:
                attempt.settimeout(self.look_seconds)
                attempt.connect(self.base_url.removeprefix("unix://"))

    def _forget(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _require_near(base_url: str) -> None:
    """Workspaces are published on the engine's own loopback, so that must be this machine's.

    From another machine they would not answer, or people would be sent to whatever has their port
    here.
    """
    if base_url.startswith(_NETWORK) and not _is_loopback(base_url):
        raise UsageError(
            f"the Docker engine at {base_url} is on another machine: it publishes workspaces on "
            "that machine's loopback, where they cannot be reached from here",
            hint=_NEAR,
        )
    if not base_url.startswith(_SCHEMES):
        raise UsageError(
            f"the Docker engine's address {base_url} is of a kind that is not supported",
            hint=_NEAR,
        )


def _is_loopback(base_url: str) -> bool:
    """By the address alone: what a name leads to may change. Without a host it is this machine."""
    try:
        host = urlsplit(base_url).hostname
        return host in (None, "localhost") or ip_address(host).is_loopback
    except ValueError:
        return False


class _Stream:
    """A blocking stream and the thread that reads it."""

    def __init__(self, begin: Callable[[], Any]) -> None:
        self._begin = begin
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="docker-stream")
        self._lock = threading.Lock()
        self._closed = False
        self._source: Any = None

    def open(self) -> asyncio.Future[None]:
        return asyncio.get_running_loop().run_in_executor(self._thread, self._open)

    def next(self) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(self._thread, self._next)

    def close(self) -> None:
        """Cut the socket, so that a blocked read ends; then let the thread tidy up and end."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._cut()
        self._thread.submit(self._release)
        self._thread.shutdown(wait=False)

    def _open(self) -> None:
        source = self._begin()
        with self._lock:
            self._source = source
        if self._closed:
            self._cut()

    def _next(self) -> Any:
        return _END if self._closed else next(self._source, _END)

    def _cut(self) -> None:
        # One that has ended by itself has no socket any more.
        with suppress(docker.errors.DockerException, OSError, AttributeError):
            if self._source is not None:
                self._source.close()

    def _release(self) -> None:
        with suppress(*FOREIGN, AttributeError):
            self._source._response.close()
