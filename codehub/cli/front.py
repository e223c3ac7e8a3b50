"""The front of a hub in one process: the proxy, and the web application behind it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from codehub.cli.outputs import Outputs
from codehub.model.runtime import Upstream
from codehub.proxy.process import Listening, serve_proxy
from codehub.web.process import serve_web
from codehub.wiring import PAGES, settled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from codehub.cli.services import Services
    from codehub.config import Settings
    from codehub.ports import Signals
    from codehub.wiring import HubChoice

_BEHIND: Final = Listening(port=0)
"""A free port of this machine's own: only the proxy is to find it."""


@asynccontextmanager
async def serve_front(
    choice: HubChoice,
    settings: Settings,
    services: Services,
    signals: Signals,
    listening: Listening,
) -> AsyncIterator[int]:
    """Serve both as long as the block lasts; the port is the proxy's."""
    url, leaving = services.database_url, asyncio.Event()
    pages = choice.data / PAGES
    async with (
        Outputs(choice, settings, url) as outputs,
        serve_web(settled(choice, settings), url, signals, _BEHIND, leaving, outputs.read) as web,
        serve_proxy(settings, url, signals, pages, listening, Upstream(_BEHIND.host, web)) as port,
    ):
        try:
            yield port
        finally:
            leaving.set()
