"""Following a workspace from a page that waits for it: Server-Sent Events.

    state   how it goes on: title, message, details, percent
    beat    nothing new, and the line is alive
    ready   it answers: the page goes on to it
    turn    there is something else to be seen: the page loads again

All pages that wait for one workspace share one watcher, which looks at the database a few times a
second for as long as anybody waits.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from codehub.errors import CodeHubError, Unreachable
from codehub.model.workspace import PathPrefix
from codehub.proxy.outcome import outcome, unasked
from codehub.render.pages import Waiting
from codehub.render.words import clean

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from codehub.model.runtime import Upstream
    from codehub.store.workspaces import Found

LOOK_SECONDS: Final = 0.4
LOST_SECONDS: Final = 2.0
BEAT_SECONDS: Final = 10.0
CONNECT_SECONDS: Final = 2.0
PROBE_SECONDS: Final = 30.0
"""How long an application may take for an answer: many make themselves ready at the first."""
MOST: Final = 2000
"""Pages that wait in one process; those that come then ask again by themselves."""

RETRY: Final = b"retry: 2000\n\n"
BEAT: Final = b"event: beat\ndata: 1\n\n"
READY: Final = b"event: ready\ndata: 1\n\n"
TURN: Final = b"event: turn\ndata: 1\n\n"


async def answers_http(upstream: Upstream, path: str) -> bool:
    """Whether somebody speaks HTTP there; what they say does not matter."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(upstream.host, upstream.port)
        try:
            request = f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            writer.write(request.encode("ascii"))
            async with asyncio.timeout(PROBE_SECONDS):
                return await reader.readexactly(5) == b"HTTP/"
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
    except (OSError, ValueError, OverflowError, asyncio.IncompleteReadError):
        return False


@dataclass(slots=True)
class _Page:
    """One page that waits."""

    news: asyncio.Event = field(default_factory=asyncio.Event)
    gone: bool = False

    def leave(self) -> None:
        self.gone = True
        self.news.set()


@dataclass(slots=True)
class _Watched:
    """What is known of a workspace that pages wait for."""

    waiting: list[_Page] = field(default_factory=list)
    found: Found | None = None
    event: bytes = b""
    task: asyncio.Task[None] | None = None
    asked: Upstream | None = None
    answer: asyncio.Future[bool] | None = None
    """Whether it answers at the address that was asked."""

    def give_up(self) -> None:
        """Ask it no longer."""
        if self.answer is not None:
            self.answer.cancel()
        self.answer = None


class Follow:
    """`find` reads a workspace; `routed` says whether requests to it would reach it by now."""

    def __init__(
        self,
        find: Callable[[str], Awaitable[Found | None]],
        *,
        routed: Callable[[str], bool] = lambda _: True,
        answers: Callable[[Upstream, str], Awaitable[bool]] = answers_http,
        pause: float = LOOK_SECONDS,
        beat: float = BEAT_SECONDS,
    ) -> None:
        self._find = find
        self._routed = routed
        self._answers = answers
        self._pause = pause
        self._beat = beat
        self._watched: dict[str, _Watched] = {}
        self._closed = False

    def __len__(self) -> int:
        return sum(len(each.waiting) for each in self._watched.values())

    @property
    def full(self) -> bool:
        return self._closed or len(self) >= MOST

    async def events(
        self,
        name: str,
        may_see: Callable[[Found], bool],
        hold: Callable[[Callable[[], None]], Callable[[], None]],
    ) -> AsyncGenerator[bytes, None]:
        """What happens to a workspace, until there is no more reason to wait for it.

        `hold` has a function called when the login ends; what it returns is called at the end.
        """
        page, watched = _Page(), self._join(name)
        watched.waiting.append(page)
        release = hold(page.leave)
        said = b""
        try:
            yield RETRY
            while not (page.gone or self._closed):
                page.news.clear()
                event = watched.event
                if event and (watched.found is None or not may_see(watched.found)):
                    event = TURN
                if event and event != said:
                    said = event
                    yield event
                    if event in (READY, TURN):
                        return
                elif not await _within(page.news, self._beat):
                    yield BEAT
        finally:
            release()
            self._leave(name, watched, page)

    def close(self) -> None:
        """Let all pages go: this process ends, and another one will answer them."""
        self._closed = True
        for watched in self._watched.values():
            for page in watched.waiting:
                page.leave()

    def _join(self, name: str) -> _Watched:
        watched = self._watched.get(name)
        if watched is None:
            watched = self._watched[name] = _Watched()
            watched.task = asyncio.create_task(self._watch(name, watched))
        return watched

    def _leave(self, name: str, watched: _Watched, page: _Page) -> None:
        watched.waiting.remove(page)
        if not watched.waiting and watched.task is not None:
            watched.task.cancel()
            if self._watched.get(name) is watched:
                del self._watched[name]

    async def _watch(self, name: str, watched: _Watched) -> None:
        try:
            await self._keep_looking(name, watched)
        finally:
            watched.give_up()

    async def _keep_looking(self, name: str, watched: _Watched) -> None:
        while True:
            pause = self._pause
            try:
                found = await self._find(name)
                event = TURN if found is None else await self._event(found, watched)
            except CodeHubError as error:
                # Nobody can say how it goes on; beats go on, and so does the page.
                pause = LOST_SECONDS if isinstance(error, Unreachable) else pause
            else:
                _tell(watched, found, event)
            await asyncio.sleep(pause)

    async def _event(self, found: Found, watched: _Watched) -> bytes:
        result = outcome(found)
        if result is None:
            return await self._arrived(found, watched)
        watched.give_up()
        said = unasked(result).said
        return _state(said) if isinstance(said, Waiting) else TURN

    async def _arrived(self, found: Found, watched: _Watched) -> bytes:
        """It runs: the page goes on once it would see the workspace, and not another page."""
        workspace = found.workspace
        upstream, name = workspace.status.upstream, workspace.name
        keeps = workspace.declaration.path_prefix is PathPrefix.KEEP
        path = f"/w/{name}/" if keeps else "/"
        if (
            upstream is not None
            and self._routed(name)
            and await self._answered(watched, upstream, path)
        ):
            return READY
        return _state(Waiting(f"{name} is running", "It opens here as soon as it answers."))

    async def _answered(self, watched: _Watched, upstream: Upstream, path: str) -> bool:
        """Whether it has answered by now. What was asked stays asked from one look to the next."""
        if watched.asked != upstream:
            watched.give_up()
        if watched.answer is None:
            watched.asked = upstream
            watched.answer = asyncio.ensure_future(self._answers(upstream, path))
        done, _ = await asyncio.wait({watched.answer}, timeout=self._pause)
        if not done:
            return False
        answer, watched.answer = watched.answer, None
        return answer.result()


def _tell(watched: _Watched, found: Found | None, event: bytes) -> None:
    changed = event != watched.event or _owner(found) != _owner(watched.found)
    watched.found, watched.event = found, event
    if changed:
        for page in watched.waiting:
            page.news.set()


def _owner(found: Found | None) -> str | None:
    return found.workspace.declaration.owner if found is not None else None


async def _within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _state(said: Waiting) -> bytes:
    data = {
        "title": clean(said.title),
        "message": clean(said.message),
        "details": [clean(each) for each in said.details],
        "percent": None if said.part is None else int(said.part * 100),
    }
    return f"event: state\ndata: {json.dumps(data)}\n\n".encode()
