"""One coordinator process, put together: it stands for election and runs the parts while it leads.

`codehub serve coordinator` runs one; `codehub up` runs one beside everything else.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codehub.coordinator.acts import Acts
from codehub.coordinator.archives import Archives
from codehub.coordinator.closing import put_to_sleep
from codehub.coordinator.controller import WorkspaceController
from codehub.coordinator.gc import GcRunner
from codehub.coordinator.hints import Hints
from codehub.coordinator.leader import Leader
from codehub.coordinator.listen import EventListener
from codehub.coordinator.lookout import World
from codehub.coordinator.meeting import StoreMeeting
from codehub.coordinator.pace import Failures
from codehub.coordinator.pages import PageRenderer
from codehub.coordinator.pulls import Pulls
from codehub.coordinator.rhythm import Rhythm
from codehub.coordinator.sense import Sense
from codehub.coordinator.shelf import Shelf
from codehub.coordinator.steps import Tools
from codehub.coordinator.survey import Surveyor
from codehub.coordinator.ttl import TtlRunner
from codehub.coordinator.watch import SpecWatcher
from codehub.coordinator.webhooks import WebhookRunner
from codehub.service.rules import limits_of, rules_of
from codehub.store.status import Idleness

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from pathlib import Path
    from uuid import UUID

    from codehub.config import Settings
    from codehub.coordinator.lead import Lead
    from codehub.coordinator.pace import Component
    from codehub.model.workspace import Runtime as RuntimeName
    from codehub.ports import Mover, Notifier, ObjectStore, Runtime, Signals

    Told = Callable[[UUID, Mapping[str, object]], None]


@dataclass(frozen=True, slots=True)
class Parts:
    """What a coordinator works with.

    Runtimes are opened when the hub's id is known, and tell of the progress they make.
    """

    settings: Settings
    database_url: str
    runtimes: Callable[[UUID, Told], Awaitable[Mapping[RuntimeName, Runtime]]]
    store: ObjectStore
    mover: Mover
    signals: Signals
    notifier: Notifier
    enabled: frozenset[RuntimeName]
    pages: Path | None = None
    specs: Path | None = None
    ref: str | None = None


class Coordinator:
    """Stands for election and coordinates while it leads."""

    def __init__(
        self, parts: Parts, *, on_change: Callable[[bool], None] = lambda _leads: None
    ) -> None:
        self._parts = parts
        self.failures = Failures()
        self.looked = asyncio.Event()
        """Set once the first pass is over: until then the database tells of an earlier time."""
        self._term: tuple[Lead, World, Acts, WorkspaceController] | None = None
        self._leader = Leader(
            parts.database_url,
            f"{socket.gethostname()}:{os.getpid()}",
            interval=parts.settings.coordinator_election_interval,
            components=self._components,
            failures=self.failures,
            on_change=on_change,
        )

    @property
    def leads(self) -> bool:
        return self._leader.leads

    @property
    def problem(self) -> Exception | None:
        """What keeps it from leading, for whoever waits for it."""
        return self._leader.problem

    async def run(self) -> None:
        """For ever; ends only by cancellation."""
        await self._leader.run()

    async def put_to_sleep(self) -> int:
        """Stop every workspace, noting that it was on purpose; only a leader can."""
        if self._term is None:
            return 0
        lead, world, acts, controller = self._term
        controller.pause()
        await acts.close()
        return await put_to_sleep(lead, world, at_once=self._parts.settings.coordinator_actions)

    @asynccontextmanager
    async def _components(self, lead: Lead) -> AsyncIterator[Sequence[Component]]:
        parts, settings = self._parts, self._parts.settings
        pulls = Pulls()
        runtimes = await parts.runtimes(lead.hub_id, pulls.tell)
        hints, shelf = Hints(), Shelf(parts.store, lead.hub_id)
        world = _world(settings, runtimes, shelf, hints)
        acts = Acts(
            Tools(
                lead,
                runtimes,
                parts.mover,
                shelf,
                world.rules.stop_grace,
                settings.secrets_dir,
                pulls,
            ),
            hints,
            actions=settings.coordinator_actions,
            data_moves=settings.coordinator_data_moves,
        )
        controller = WorkspaceController(
            lead, world, acts, hints, _rhythm(settings), self.failures, on_pass=self.looked.set
        )
        self._term = (lead, world, acts, controller)
        try:
            yield (
                controller,
                *self._around(lead, world, hints),
                *(
                    Sense(name, runtime, hints, acts.is_running)
                    for name, runtime in runtimes.items()
                ),
            )
        finally:
            self._term = None
            await world.archives.close()
            shelf.close()
            for runtime in runtimes.values():
                await runtime.close()

    def _around(self, lead: Lead, world: World, hints: Hints) -> list[Component]:
        """The parts that feed the controller and tell of what it did."""
        parts, settings, failures = self._parts, self._parts.settings, self.failures
        gc = GcRunner(lead, parts.store, settings, failures)
        webhooks = WebhookRunner(lead, parts.notifier, settings, failures)
        components: list[Component] = [
            StoreMeeting(lead, parts.store, failures),
            TtlRunner(lead, parts.signals, world.runtimes, settings, failures, hints),
            gc,
            webhooks,
            Surveyor(lead, settings, failures),
        ]

        def on_request() -> None:
            gc.nudge.set()
            webhooks.nudge.set()

        on_change: Callable[[], None] = lambda: None  # noqa: E731
        if parts.pages is not None:
            pages = PageRenderer(lead, parts.pages, settings, failures)
            on_change = pages.nudge.set
            components.append(pages)
        if parts.specs is not None:
            components.append(
                SpecWatcher(lead, parts.specs, parts.ref, settings, parts.enabled, failures, hints)
            )
        components.append(
            EventListener(
                parts.database_url,
                parts.signals,
                hints,
                settings,
                failures,
                on_request=on_request,
                on_change=on_change,
                on_webhook=webhooks.nudge.set,
            )
        )
        return components


def _world(
    settings: Settings, runtimes: Mapping[RuntimeName, Runtime], shelf: Shelf, hints: Hints
) -> World:
    return World(
        runtimes=runtimes,
        archives=Archives(
            shelf,
            interval=settings.coordinator_archive_listing_interval,
            clock=asyncio.get_running_loop().time,
            on_listed=hints.tell,
        ),
        rules=rules_of(settings),
        limits=limits_of(settings),
        idleness=Idleness(
            settings.ttl_standby_seconds,
            settings.activity_flush_interval,
            settings.activity_slack_seconds,
        ),
    )


def _rhythm(settings: Settings) -> Rhythm:
    return Rhythm(
        settings.coordinator_idle_interval,
        settings.coordinator_active_interval,
        settings.coordinator_active_duration,
    )
