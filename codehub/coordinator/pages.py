"""The PageRenderer: status report and error pages as files, there even when all else is away.

The leader renders them; the front serves the last good ones, and nginx or Caddy can too.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codehub.coordinator.pace import attempt
from codehub.errors import CodeHubError
from codehub.service.reporting import read_report, render_pages, write_pages

if TYPE_CHECKING:
    from pathlib import Path

    from codehub.config import Settings
    from codehub.coordinator.lead import Lead
    from codehub.coordinator.pace import Failures

POLL: Final = 12
"""Page intervals between two renderings when nothing changed: times on the page grow old."""

REST: Final = 9
"""How much longer than a rendering the rest after it is: a huge hub's pages are rarer."""


class PageRenderer:
    """Renders on a nudge, at most every `coordinator_page_interval`, and now and then without."""

    name = "pages"

    def __init__(self, lead: Lead, directory: Path, settings: Settings, failures: Failures) -> None:
        self.nudge = asyncio.Event()
        self._lead = lead
        self._directory = directory
        self._settings = settings
        self._failures = failures

    async def tick(self) -> None:
        """Render everything; a page that cannot be written is a noted failure, no more."""
        async with self._lead.pool.connection() as conn:
            report = await read_report(conn, self._settings)
        # A page of many workspaces takes a while: the others go on meanwhile.
        pages = await asyncio.to_thread(render_pages, report, self._settings.proxy_public_url)
        await self._lead.confirm()
        try:
            await asyncio.to_thread(write_pages, self._directory, pages)
        except CodeHubError as error:
            self._failures.note(self.name, error)

    async def run(self) -> None:
        """Until cancelled, or until another one leads."""
        interval, clock = self._settings.coordinator_page_interval, asyncio.get_running_loop().time
        while True:
            # A nudge during a tick or the rest after it is kept for the next.
            self.nudge.clear()
            began = clock()
            await attempt(self.name, self.tick, self._failures)
            took = clock() - began
            await asyncio.sleep(max(interval, min(REST * took, POLL * interval)))
            with suppress(TimeoutError):
                async with asyncio.timeout(interval * POLL):
                    await self.nudge.wait()
