"""Connections and routes of the demo.

It serves below its base path whether the proxy strips that prefix or keeps it: a prefix that is
there is taken off, and the page itself only uses relative addresses.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codehub.demo.messages import Bad, Request, Response, answer, answer_json, read_request
from codehub.demo.notes import Changed, Notes, version
from codehub.demo.terminal import reply
from codehub.demo.websocket import WebSocket, accept, is_same_origin

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_STATIC: Final = Path(__file__).parent / "static"
_FILES: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_MAX_LINE: Final = 2_000
_HEAR_SECONDS: Final = 1


class Demo:
    """One demo workspace: whose it is, where it keeps its file, and its routes."""

    def __init__(self, *, name: str, home: Path, base_path: str, started_at: datetime) -> None:
        self.name = name
        self.home = home
        self.started_at = started_at
        self._base = "/" + base_path.strip("/") if base_path.strip("/") else ""
        self._notes = Notes(home)
        self._sockets: dict[str, Callable[[WebSocket], Awaitable[None]]] = {
            "/terminal": self._terminal,
            "/echo": self._echo,
        }

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        try:
            while (request := await read_request(reader)) and await self._handle(
                request, reader, writer
            ):
                pass
        except Bad as bad:
            writer.write(bad.response.encode(close=True))
            await _hear_out(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            with suppress(ConnectionError):
                writer.close()

    async def _handle(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer one request; whether the connection goes on."""
        talk = self._sockets.get(self._route(request.path) or "")
        if talk and request.method == "GET":
            writer.write(accept(request).encode(head_only=True))
            await talk(WebSocket(reader, writer))
            return False
        response = await self._respond(request)
        close = request.has_token("connection", "close")
        writer.write(response.encode(head_only=request.method == "HEAD", close=close))
        await writer.drain()
        return not close

    async def _respond(self, request: Request) -> Response:
        path = self._route(request.path)
        if path is None:
            return answer(HTTPStatus.PERMANENT_REDIRECT, "here", Location=f"{self._base}/")
        if path == "/api/notes" and request.method == "PUT":
            return await self._save(request)
        if request.method not in ("GET", "HEAD"):
            return answer(
                HTTPStatus.METHOD_NOT_ALLOWED, "look, but do not touch", Allow="GET, HEAD"
            )
        if path in _FILES:
            name, media_type = _FILES[path]
            return Response(HTTPStatus.OK, (_STATIC / name).read_bytes(), media_type)
        if path == "/api/info":
            return answer_json(self._info())
        if path == "/api/notes":
            return await self._read()
        return answer(HTTPStatus.NOT_FOUND, "there is nothing here")

    def _route(self, path: str) -> str | None:
        """The path below the base path; None for the base path without its slash."""
        if not self._base or not path.startswith(self._base):
            return path
        rest = path[len(self._base) :]
        if not rest:
            return None
        return rest if rest.startswith("/") else path

    def _info(self) -> dict[str, str]:
        return {
            "workspace": self.name,
            "home": str(self.home),
            "startedAt": self.started_at.isoformat(),
        }

    async def _read(self) -> Response:
        try:
            text = await asyncio.to_thread(self._notes.read)
        except OSError as error:
            return _failed("read", error)
        headers = {"ETag": f'"{version(text)}"', "Cache-Control": "no-store"}
        return Response(HTTPStatus.OK, text, headers=headers)

    async def _save(self, request: Request) -> Response:
        if not is_same_origin(request):
            return answer(HTTPStatus.FORBIDDEN, "another site may not write here")
        seen = request.headers.get("if-match", "").strip('"') or None
        try:
            saved = await asyncio.to_thread(self._notes.write, request.body, seen=seen)
        except Changed:
            return answer(HTTPStatus.PRECONDITION_FAILED, "the notes were changed elsewhere")
        except OSError as error:
            return _failed("save", error)
        return Response(HTTPStatus.NO_CONTENT, headers={"ETag": f'"{saved}"'})

    async def _terminal(self, socket: WebSocket) -> None:
        await socket.send(f"Welcome to {self.name}. Type help and press Enter.")
        while (line := await socket.receive()) is not None:
            text = line if isinstance(line, str) else line.decode(errors="replace")
            now = datetime.now(UTC)
            said = reply(text[:_MAX_LINE], home=self.home, now=now, started_at=self.started_at)
            await socket.send(said)

    async def _echo(self, socket: WebSocket) -> None:
        while (message := await socket.receive()) is not None:
            await socket.send(message)


async def _hear_out(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read what is still coming: closing on unread bytes would tear the answer away."""
    with suppress(TimeoutError, ConnectionError):
        writer.write_eof()
        async with asyncio.timeout(_HEAR_SECONDS):
            while await reader.read(2**16):
                pass


def _failed(what: str, error: OSError) -> Response:
    reason = error.strerror or str(error)
    return answer(HTTPStatus.INTERNAL_SERVER_ERROR, f"could not {what} the notes: {reason}")
