"""`/api/v1/events`: all streams of a process, behind one subscription and one reader.

The coordinator says on Redis that something happened to a workspace; what it is now is read once
(`stream_reader`), becomes events (`stream_telling`) and goes to those who follow it, each over a
bounded queue (`stream_client`). While Redis is away, the database is looked at every second.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from uuid import UUID

from codehub.errors import CodeHubError
from codehub.web.stream_client import Client
from codehub.web.stream_clients import Clients
from codehub.web.stream_reader import Reader
from codehub.web.stream_text import event, greeting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Send

    from codehub.config import Settings
    from codehub.model.access import Identity, Person
    from codehub.ports import Signals
    from codehub.proxy.identity import Identities
    from codehub.store.pool import Pool
    from codehub.web.stream_client import Wish

log: Final = logging.getLogger("codehub.web")

RETRY_SECONDS: Final = 1.0
AWAY_SECONDS: Final = 1.0
"""Between two looks at the database while Redis tells nothing."""
TICK_SECONDS: Final = 1.0
"""Between two looks at whether the logins behind the streams still hold."""


class Streams:
    """`run` keeps them going, for ever; a request joins, and leaves at its end."""

    def __init__(
        self, pool: Pool, signals: Signals, identities: Identities, settings: Settings
    ) -> None:
        self._signals = signals
        self._identities = identities
        self._clients = Clients(most=settings.web_streams, most_each=settings.web_streams_per_user)
        self._reader = Reader(pool, self._clients, settings)
        self._patterns = (
            f"{settings.redis_channel_sse_prefix}:*",
            f"{settings.redis_channel_wake_prefix}:wc",
        )
        self._look_seconds = settings.web_look_seconds
        self._heartbeat = settings.web_heartbeat_seconds

    def __len__(self) -> int:
        return len(self._clients)

    def require_room(self, person: Person) -> None:
        """Raises what the API answers when this person can have no stream more."""
        self._clients.require_room(person)

    @contextmanager
    def join(self, identity: Identity, wish: Wish, address: str, wire: Send) -> Iterator[Client]:
        """A stream as long as the block lasts, over an answer whose head is sent.

        `address` is where a workspace is found, with the mark in place of its name.
        """
        client = Client(identity, wish, address, wire, self._reader.want)
        self._clients.add(client)
        release = self._identities.hold(identity, lambda: _bye(client, "the login has ended"))
        try:
            client.put(greeting())
            self._reader.want(client)
            yield client
        finally:
            release()
            self._clients.remove(client)
            self._reader.forget(client)
            client.release()

    def close(self) -> None:
        """End all streams: this process ends, and another one will answer them."""
        self._clients.close(event("bye", {"reason": "the hub is restarting: connect again"}))

    async def run(self) -> None:
        """Follow what happens, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_hearing())
            tasks.create_task(self._reader.run())
            tasks.create_task(self._keep_beating())

    async def _keep_hearing(self) -> None:
        hearing = True
        while True:
            try:
                async for message in self._signals.follow(self._patterns):
                    if message is None:
                        hearing = True
                        self._reader.look_every(self._look_seconds)
                        self._reader.begin_anew()
                    else:
                        self.hear(message)
            except CodeHubError as error:
                if hearing:
                    self._go_deaf(error)
                hearing = False
            await asyncio.sleep(RETRY_SECONDS)

    def _go_deaf(self, error: CodeHubError) -> None:
        log.warning("changes are looked for every second: %s", error.message)
        self._clients.put(event("resync", {"reason": "changes are not told at the moment"}))
        self._reader.look_every(min(AWAY_SECONDS, self._look_seconds))

    def hear(self, message: str) -> None:
        """Something happened to a workspace."""
        try:
            said = json.loads(message)
            workspace_id = UUID(said["id"])
            expiring = said["event"] == "workspace_expiring"
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            log.warning("something was told on the channels of events that is not ours")
            return
        self._reader.hear(workspace_id, expiring=expiring)

    async def _keep_beating(self) -> None:
        clock = asyncio.get_running_loop().time
        next_beat = clock() + self._heartbeat
        while True:
            await asyncio.sleep(min(TICK_SECONDS, max(0.0, next_beat - clock())))
            self._check_logins()
            if clock() >= next_beat:
                self._clients.put(event("heartbeat", {}))
                next_beat = clock() + self._heartbeat

    def _check_logins(self) -> None:
        """What ends by time is told by nobody; and who sees more or less now has to come again."""
        for client in self._clients:
            known = self._identities.still(client.identity)
            if known is None:
                _bye(client, "the login has ended")
            elif known.person.role is not client.identity.person.role:
                _bye(client, "the role has changed: connect again")


def _bye(client: Client, reason: str) -> None:
    client.end(event("bye", {"reason": reason}))
