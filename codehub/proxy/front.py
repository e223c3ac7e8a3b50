"""The plain front of `codehub up`: the report at `/`, and every workspace below `/w/{name}/`.

It listens on this machine only and answers to this machine's names only: a page from elsewhere
that makes its own name point here (DNS rebinding) gets nothing, and other sites may neither change
anything nor open WebSockets. One request for each connection keeps it simple.
"""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from codehub.errors import CodeHubError
from codehub.proxy import answers
from codehub.proxy.forward import Client, Errand, Gone, NoAnswer, forward
from codehub.proxy.outcome import MISSING, no_answer, outcome, refused, unreadable, vanished
from codehub.proxy.wire import HEAD_LIMIT, Bad, parse_request, read_head
from codehub.render.pages import Waiting

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from codehub.proxy.activity import ActivityBuffer
    from codehub.proxy.answers import Response
    from codehub.proxy.outcome import Outcome
    from codehub.proxy.routes import Routes
    from codehub.proxy.wake import WakeAnswer
    from codehub.proxy.wire import Request
    from codehub.store.workspaces import Found

log: Final = logging.getLogger("codehub.proxy")

HEAD_SECONDS: Final = 10
STOP_SECONDS: Final = 5
HEAR_SECONDS: Final = 2
MOST_CONNECTIONS: Final = 400
"""Two descriptors each; many systems allow a process 1024."""

TRAFFIC: Final = "traffic"

_LOOPBACK: Final = re.compile(
    r"(?:(?:[a-z0-9-]+\.)*localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE
)
_WORKSPACE: Final = re.compile(r"/w/([a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?)(/.*)?", re.DOTALL)
_STARTING: Final = Waiting("CodeHub is starting", "The first report is on its way.", home=False)


class Front:
    """One listening address. `pages` is where the PageRenderer writes."""

    def __init__(
        self,
        *,
        routes: Routes,
        pages: Path,
        activity: ActivityBuffer,
        wake: Callable[[str], Awaitable[WakeAnswer]],
        host: str = "127.0.0.1",
        port: int = 8080,
    ) -> None:
        self._routes = routes
        self._pages = pages
        self._activity = activity
        self._wake = wake
        self._address = (host, port)
        self._server: asyncio.Server | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._clients: dict[asyncio.Task[None], Client] = {}

    async def start(self) -> int:
        """Listen; the port, which the system chooses where 0 was asked for."""
        host, port = self._address
        try:
            self._server = await asyncio.start_server(self._accept, host, port, limit=HEAD_LIMIT)
        except OSError as error:
            raise CodeHubError(
                f"cannot listen on {host}:{port}: {error.strerror or error}",
                hint="choose another port with --port",
            ) from error
        self._flushing = asyncio.create_task(self._activity.run())
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Accept nothing more, let requests finish, tell of the last activity."""
        if self._server is not None:
            self._server.close()
        for task, client in list(self._clients.items()):
            if client.upgraded:  # it has no end to wait for
                task.cancel()
        if self._clients:
            _, rest = await asyncio.wait(set(self._clients), timeout=STOP_SECONDS)
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)
        if self._flushing is not None:
            self._flushing.cancel()
            await asyncio.gather(self._flushing, return_exceptions=True)
        await self._activity.try_flush()
        await self._routes.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Client(reader, writer)
        task = asyncio.create_task(self._serve(client))
        self._clients[task] = client
        task.add_done_callback(lambda done: self._clients.pop(done, None))

    async def _serve(self, client: Client) -> None:
        """One request and its answer; then the connection ends, whatever came of it."""
        try:
            if len(self._clients) > MOST_CONNECTIONS:
                raise Bad(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections")
            await self._handle(client)
        except Bad as bad:
            client.writer.write(answers.line(bad.status, bad.message).encode())
            await _hear_out(client)
        except (Gone, ConnectionError):
            client.writer.transport.abort()
        except Exception:
            log.exception("a request failed")
            client.writer.transport.abort()
        finally:
            client.writer.close()

    async def _handle(self, client: Client) -> None:
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await read_head(client.reader)
        except TimeoutError:
            raise Bad(HTTPStatus.REQUEST_TIMEOUT, "the request took too long to come") from None
        if head is None:
            return
        request = parse_request(head)
        _check_caller(request)
        response = await self._respond(request, client)
        if response is not None:
            client.writer.write(response.encode(head_only=request.method == "HEAD"))
        await _hear_out(client)

    async def _respond(self, request: Request, client: Client) -> Response | None:
        """Our own answer; None once the workspace's was passed on."""
        match = _WORKSPACE.fullmatch(request.path)
        if match is not None:
            name, rest = match[1], match[2]
            if not rest:
                return answers.redirect(f"/w/{name}/{request.target[len(request.path) :]}")
            return await self._workspace(request, name, client)
        if request.method not in ("GET", "HEAD"):
            return answers.line(HTTPStatus.METHOD_NOT_ALLOWED, "there is nothing to change here")
        if request.path == "/healthz":
            return answers.line(HTTPStatus.OK, "ok")
        if request.path == "/":
            return await self._report(request)
        return _said(request, MISSING)

    async def _report(self, request: Request) -> Response:
        """The last good report, as the PageRenderer left it."""
        try:
            body = await asyncio.to_thread((self._pages / "index.html").read_bytes)
        except OSError:
            return answers.notice(request, HTTPStatus.SERVICE_UNAVAILABLE, _STARTING)
        return answers.html(HTTPStatus.OK, body)

    async def _workspace(self, request: Request, name: str, client: Client) -> Response | None:
        try:
            found = await self._routes.find(name)
            result = outcome(found)
            if found is None or result is not None:
                return _said(request, await self._woken(request, name, result or MISSING))
            upstream = await self._routes.upstream(found.workspace.id)
        except CodeHubError:
            return _said(request, unreadable())
        if upstream is None:
            self._routes.forget(name, found.workspace.id)
            return _said(request, vanished(name))
        prefix = found.workspace.declaration.path_prefix
        seen = partial(self._activity.record, found.workspace.id, TRAFFIC)
        return await self._forward(Errand(request, name, prefix, upstream, seen), found, client)

    async def _forward(self, errand: Errand, found: Found, client: Client) -> Response | None:
        try:
            await forward(errand, client)
        except NoAnswer:
            self._routes.forget(errand.name, found.workspace.id)
            return _said(errand.request, no_answer(errand.name))
        return None

    async def _woken(self, request: Request, name: str, result: Outcome) -> Outcome:
        """What to say after a visit asked for the workspace, where visits do."""
        if not (result.wakes and answers.is_visit(request)):
            return result
        answer = await self._wake(name)
        return result if answer.coming else refused(name, answer.message, answer.hint)


def _check_caller(request: Request) -> None:
    """Only names of this machine, and nothing that another site's page may not do."""
    host = request.head.get("host") or ""
    if not _LOOPBACK.fullmatch(host):
        raise Bad(HTTPStatus.MISDIRECTED_REQUEST, "this hub answers on localhost only")
    if request.method in ("GET", "HEAD") and "upgrade" not in request.head.tokens("connection"):
        return
    origins = request.head.all("origin")
    site = request.head.get("sec-fetch-site")
    own = [each.lower() for each in origins] == [f"http://{host}".lower()]
    if not own and (origins or site not in (None, "same-origin", "none")):
        raise Bad(HTTPStatus.FORBIDDEN, "another site may not do this")


def _said(request: Request, result: Outcome) -> Response:
    return answers.notice(request, result.status, result.said)


async def _hear_out(client: Client) -> None:
    """Read what still comes: closing on unread bytes would tear the answer away."""
    with suppress(TimeoutError, OSError):
        client.writer.write_eof()
        async with asyncio.timeout(HEAR_SECONDS):
            while await client.reader.read(HEAD_LIMIT):
                pass
