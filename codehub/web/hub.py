"""What every request of the web application works with."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from fastapi import Request

from codehub.model.workspace import Workspace
from codehub.web.followers import Followers

if TYPE_CHECKING:
    from codehub.config import Settings
    from codehub.ports import Signals
    from codehub.proxy.hosts import Hosts
    from codehub.proxy.identity import Identities
    from codehub.proxy.whereabouts import Whereabouts
    from codehub.service.limits import LimitDefaults
    from codehub.store.pool import Pool
    from codehub.web.stream import Streams

ReadLogs: TypeAlias = Callable[[Workspace, int, bool], Awaitable[AsyncGenerator[bytes, None]]]
"""A workspace's last so many lines, and with True what comes.

Raises Unreachable where the runtime gives no answer, before there is anything to read.
"""


@dataclass(frozen=True, slots=True)
class Hub:
    """One process's view of the hub. `front_key` is what a proxy of ours shows.

    `logs` is None where this process has no way to the runtimes.
    """

    pool: Pool
    database_url: str
    settings: Settings
    signals: Signals
    identities: Identities
    hosts: Hosts
    where: Whereabouts
    limits: LimitDefaults
    front_key: bytes
    streams: Streams
    logs: ReadLogs | None = None
    followers: Followers = field(default_factory=Followers)

    def send_away(self) -> None:
        """End the answers that would go on for ever: this process is about to end."""
        self.streams.close()
        self.followers.close()


def hub_of(request: Request) -> Hub:
    """For `Depends`: the hub that this application was made for."""
    hub: Hub = request.app.state.hub
    return hub
