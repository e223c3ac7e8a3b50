"""The engine's calls as a job makes them: a directory of a container as one tar stream, and
questions.

Plain HTTP and not the engine's SDK: that one cannot send a stream and still hear why the engine
turned it down, and loading it takes longer than many a job.
"""

from __future__ import annotations

import json
import socket
import ssl
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from codehub.errors import ActionFailed, CodeHubError, Unreachable
from codehub.jobs.pipeline import CHUNK

if TYPE_CHECKING:
    from types import TracebackType

    from codehub.model.runtime import EngineCopy

SILENCE: Final = 240.0
"""Seconds that the engine may say and take nothing: less than a job may stand still."""
_OK: Final = 200
_LONGEST_ANSWER: Final = 64 * 1024
_TROUBLE: Final = (HTTPException, OSError)
_UNIX: Final = ("unix://", "http+unix://")


class CopyReader:
    """A directory of a container, as the engine's tar stream. Leaving the context ends it."""

    def __init__(self, copy: EngineCopy, directory: str) -> None:
        self._line = _Line(copy)
        try:
            path = _archive_of(copy, directory)
            self._line.begin("GET", path, {"Accept-Encoding": "identity"})
            self._answer = self._line.answer()
        except BaseException:
            self._line.close()
            raise

    def __enter__(self) -> CopyReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._answer.close()
        self._line.close()

    def read(self) -> bytes:
        try:
            return self._answer.read(CHUNK)
        except _TROUBLE as error:
            raise _silent(error) from error


class CopyWriter:
    """A tar stream for the engine to unpack into a directory of a container."""

    def __init__(self, copy: EngineCopy, directory: str) -> None:
        self._line = _Line(copy)
        self._held: list[bytes | memoryview] = []
        self._size = 0
        self._broken: Exception | None = None
        try:
            path = _archive_of(copy, directory)
            self._line.begin("PUT", path, {"Transfer-Encoding": "chunked"})
        except BaseException:
            self._line.close()
            raise

    def __enter__(self) -> CopyWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Left early, the stream breaks off in the middle, and the engine notices."""
        self._line.close()

    def write(self, data: bytes | memoryview) -> None:
        """Once the engine has turned it down, the rest is dropped: `finish` says why."""
        self._held.append(data)
        self._size += len(data)
        if self._size >= CHUNK:
            self._flush()

    def finish(self) -> None:
        """End the stream and hear whether the engine has unpacked it."""
        if self._size:
            self._flush()
        self._send(b"0\r\n\r\n")
        self._line.answer()
        if self._broken is not None:
            raise _silent(self._broken)

    def _flush(self) -> None:
        self._send(b"%x\r\n%s\r\n" % (self._size, b"".join(self._held)))
        self._held, self._size = [], 0

    def _send(self, data: bytes) -> None:
        if self._broken is None:
            try:
                self._line.connection.send(data)
            except OSError as error:
                self._broken = error


def ask(copy: EngineCopy, path: str, *, seconds: float, newest: tuple[int, int]) -> Any:
    """The engine's answer to a question, in a version of the API that is not after `newest`."""
    line = _Line(copy, seconds)
    try:
        line.begin("GET", path, {}, newest)
        return json.loads(line.answer().read())
    except (*_TROUBLE, ValueError) as error:
        raise _silent(error) from error
    finally:
        line.close()


class _Line:
    """A connection for one call, in the version of the API that the engine itself speaks."""

    def __init__(self, copy: EngineCopy, seconds: float = SILENCE) -> None:
        self.connection = _connection(copy.base_url, seconds)

    def begin(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        newest: tuple[int, int] | None = None,
    ) -> None:
        try:
            self.connection.request("GET", "/_ping")
            ping = self.connection.getresponse()
            ping.read()
            version = _not_after(newest, ping.headers.get("Api-Version", ""))
            address = f"/v{version}{path}" if version else path
            self.connection.putrequest(method, address, skip_accept_encoding=True)
            for name, value in headers.items():
                self.connection.putheader(name, value)
            self.connection.endheaders()
        except _TROUBLE as error:
            raise _silent(error) from error

    def answer(self) -> HTTPResponse:
        try:
            answer = self.connection.getresponse()
            said = b"" if answer.status == _OK else answer.read(_LONGEST_ANSWER)
        except _TROUBLE as error:
            raise _silent(error) from error
        if answer.status != _OK:
            raise _refusal(answer.status, said)
        return answer

    def close(self) -> None:
        self.connection.close()


class _UnixConnection(HTTPConnection):
    def __init__(self, path: str, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path
        self._seconds = seconds

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self._seconds)
        self.sock.connect(self._path)


def _connection(base_url: str, seconds: float) -> HTTPConnection:
    for scheme in _UNIX:
        if base_url.startswith(scheme):
            return _UnixConnection(base_url.removeprefix(scheme), seconds)
    address = urlsplit(base_url)
    if address.hostname is None or address.scheme not in ("tcp", "http", "https"):
        raise ActionFailed(
            "homes cannot be copied through an engine at such an address",
            hint="give the engine's address as unix:///path or tcp://host:port",
        )
    if address.scheme == "https":
        context = ssl.create_default_context()
        return HTTPSConnection(address.hostname, address.port, timeout=seconds, context=context)
    return HTTPConnection(address.hostname, address.port, timeout=seconds)


def _archive_of(copy: EngineCopy, directory: str) -> str:
    return f"{container_of(copy)}/archive?path={quote(directory, safe='')}"


def container_of(copy: EngineCopy) -> str:
    """Where the engine has the container that holds the home."""
    return f"/containers/{quote(copy.container, safe='')}"


def _not_after(newest: tuple[int, int] | None, version: str) -> str:
    """What an engine older than that speaks is all that it speaks."""
    numbers = version.split(".")
    if newest is None or not all(each.isdecimal() for each in numbers):
        return version
    return ".".join(map(str, min(newest, tuple(map(int, numbers)))))


def _silent(error: Exception) -> Unreachable:
    words = str(error) or type(error).__name__
    return Unreachable(f"the Docker engine cannot be reached: {words}")


def _refusal(status: int, said: bytes) -> CodeHubError:
    from codehub.adapters.docker.translate import explain_answer

    try:
        words = str(json.loads(said)["message"])
    except (LookupError, TypeError, ValueError):
        words = said.decode(errors="replace")
    return explain_answer(status, words)
