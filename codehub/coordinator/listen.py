"""The EventListener: what Postgres notifies of becomes hints here and messages on Redis.

Hints come first and never wait for Redis. All of this is only about looking sooner; whoever was
deaf for a while looks at everything once.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Final
from uuid import UUID

from codehub.coordinator.outbox import Outbox
from codehub.coordinator.term import end
from codehub.errors import CodeHubError
from codehub.store.listen import notifications
from codehub.store.session import insist, open_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from codehub.config import Settings
    from codehub.coordinator.hints import Hints
    from codehub.coordinator.pace import Failures
    from codehub.ports import Signals
    from codehub.store.listen import Notification

WAKE: Final = "ws_wake"
REQUEST: Final = "leader_request"
WEBHOOK: Final = "webhook_event"
EVENTS: Final = {
    "ws_sse": "workspace_updated",
    "ws_deleted": "workspace_deleted",
    "ws_expiring": "workspace_expiring",
}
"""Channel of Postgres → the event that people's browsers get."""
CHANNELS: Final = (*EVENTS, WAKE, REQUEST, WEBHOOK)
RETRY: Final = 1.0
"""Seconds before the next try to connect."""
ENDING: Final = 2.0
"""Seconds that a message on its way to Redis gets when we end."""


class EventListener:
    """Listens for as long as its process leads, through any number of lost connections."""

    name = "events"

    def __init__(
        self,
        url: str,
        signals: Signals,
        hints: Hints,
        settings: Settings,
        failures: Failures,
        *,
        on_request: Callable[[], None],
        on_change: Callable[[], None],
        on_webhook: Callable[[], None] = lambda: None,
    ) -> None:
        self._url = url
        self._hints = hints
        self._failures = failures
        self._on_request = on_request
        self._on_change = on_change
        self._on_webhook = on_webhook
        self._sse = settings.redis_channel_sse_prefix
        self._wake = f"{settings.redis_channel_wake_prefix}:wc"
        self._outbox = Outbox(signals, failures)
        self._deaf = False

    async def run(self) -> None:
        publishing = asyncio.create_task(self._outbox.run(), name="publishing events")
        try:
            while True:
                await self._attempt()
                await asyncio.sleep(RETRY)
        finally:
            await insist(end({publishing}, ENDING))

    async def _attempt(self) -> None:
        """Listen until the connection is lost, and say so once for each outage."""
        try:
            await self._listen()
        except Exception as error:
            if self._deaf:
                self._failures.count(self.name)
            else:
                self._failures.note(self.name, error)
            self._deaf = True

    async def _listen(self) -> None:
        async with (
            open_session(self._url) as conn,
            aclosing(await notifications(conn, CHANNELS)) as heard,
        ):
            self._catch_up()
            async for each in heard:
                self._handle(each)

    def _catch_up(self) -> None:
        """What was said while nobody listened is not known, so everything is looked at."""
        self._deaf = False
        self._hints.tell(None)
        self._on_change()
        self._on_request()
        self._on_webhook()

    def _handle(self, heard: Notification) -> None:
        if heard.channel == REQUEST:
            self._on_request()
            return
        if heard.channel == WEBHOOK:
            self._on_webhook()
            return
        try:
            workspace_id, user_id = _ids(heard.payload)
        except (ValueError, TypeError, KeyError):
            said = f"a notification on {heard.channel} is none of ours and was ignored"
            self._failures.note(self.name, CodeHubError(said))
            return
        if heard.channel == WAKE:
            self._hints.tell(workspace_id)
            self._outbox.put(self._wake, _message("workspace_wake", workspace_id))
        else:
            event = EVENTS[heard.channel]
            self._outbox.put(f"{self._sse}:{user_id}", _message(event, workspace_id))
            self._on_change()


def _ids(payload: str) -> tuple[UUID, UUID]:
    said = json.loads(payload)
    return UUID(str(said["id"])), UUID(str(said["user_id"]))


def _message(event: str, workspace_id: UUID) -> str:
    return json.dumps({"event": event, "id": str(workspace_id)})
