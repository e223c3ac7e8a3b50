"""Room for work that takes much memory and a thread: so much at once, and no more.

A thread cannot be stopped. One that takes too long is not waited for, but it keeps its place until
it is done: otherwise patience would run out before the machine does.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from codehub.service.threads import in_thread
from codehub.store.session import forget

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from fastapi import Request

T = TypeVar("T")

RETRY_SECONDS: Final = 3


class Places:
    """So many at once in this process; with `what` they do, for whoever finds none free."""

    def __init__(self, most: int, what: str) -> None:
        self.free = most
        self._what = what

    def take(self) -> Place:
        """One of them, to be used as a context manager. Raises 503 when all are taken."""
        if self.free < 1:
            raise HTTPException(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"the hub {self._what} for as many as it can at once",
                {"Retry-After": str(RETRY_SECONDS)},
            )
        self.free -= 1
        return Place(self)


class Place:
    """Held until the block ends, and longer by a thread that outlasts it."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._thread: asyncio.Task[Any] | None = None

    async def work(self, job: Callable[[], T], seconds: float) -> T:
        """What `job` gives or raises, in a thread; 503 when it takes longer than this."""
        thread = asyncio.ensure_future(in_thread(job))
        forget(thread)
        self._thread = thread
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(thread)
        except TimeoutError:
            # Not a word about trying again: it would take as long once more.
            raise HTTPException(
                HTTPStatus.SERVICE_UNAVAILABLE, f"it takes longer than {seconds:g} seconds"
            ) from None

    def __enter__(self) -> Place:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._thread is None or self._thread.done():
            self._leave()
        else:
            self._thread.add_done_callback(lambda _: self._leave())

    def _leave(self) -> None:
        self._places.free += 1


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """The whole body, if it is no longer than this and here in time."""
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise HTTPException(
                        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                        f"the body has more than {most:,} bytes",
                    )
    except TimeoutError:
        raise HTTPException(
            HTTPStatus.REQUEST_TIMEOUT, f"the body was not here within {seconds:g} seconds"
        ) from None
    except ClientDisconnect:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "the body ended early") from None
    return bytes(body)
