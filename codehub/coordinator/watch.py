"""The SpecWatcher: turns the spec directory into revisions for as long as its process leads.

File events and a slow poll say when to look (`specs/watch.py`), `service/loading.py` looks and
loads. Specs that are being written are looked at again soon, until they are left alone.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from codehub.coordinator.pace import attempt, log
from codehub.core.amend import amend, first_of
from codehub.service.loading import Known, LoadRules, Result, load_once
from codehub.service.planning import plan_options
from codehub.specs.watch import changes
from codehub.telemetry.instruments import SPECS_AGE
from codehub.telemetry.logs import bound

if TYPE_CHECKING:
    from pathlib import Path

    from codehub.config import Settings
    from codehub.coordinator.hints import Hints
    from codehub.coordinator.lead import Lead
    from codehub.coordinator.pace import Failures
    from codehub.model.workspace import Runtime
    from codehub.service.loading import Outcome

SOON: Final = 0.2
"""The shortest pause before specs that were being written are looked at again."""

LONG: Final = 30
"""Looks in a row that found the specs being written, after which people are told."""


class SpecWatcher:
    """Loads a spec directory (at a git ref, if one is named) whenever it changes."""

    name = "specs"

    def __init__(
        self,
        lead: Lead,
        root: Path,
        ref: str | None,
        settings: Settings,
        enabled: frozenset[Runtime],
        failures: Failures,
        hints: Hints,
    ) -> None:
        self._lead = lead
        self._root = root
        self._ref = ref
        self._interval = settings.coordinator_watch_interval
        self._rules = LoadRules(
            fence=lead.fence,
            options=plan_options(settings, enabled),
            quiet=settings.coordinator_watch_quiet,
            wait_seconds=settings.apply_wait_seconds,
        )
        self._failures = failures
        self._hints = hints
        self._known = Known()
        self._waits = 0
        self._told: int | None = None
        self._wrong = False

    async def tick(self) -> Outcome:
        """One look."""
        outcome = await load_once(self._lead.pool, self._root, self._ref, self._known, self._rules)
        self._waits = self._waits + 1 if outcome.result is Result.WAITING else 0
        if not self._waits:
            SPECS_AGE.since()
        with bound(revision=outcome.revision and outcome.revision.id):
            self._report(outcome)
        if outcome.result is Result.LOADED:
            self._hints.tell()
        return outcome

    async def run(self) -> None:
        """Look at the start, and whenever something may have changed."""
        async with aclosing(changes(self._root, poll=self._interval)) as looks:
            async for _ in looks:
                await self._look()

    async def _look(self) -> None:
        """Until nobody is writing, or the look fails; then the next change or poll leads back."""
        while True:
            done = await attempt(self.name, self.tick, self._failures)
            if not done or not self._waits:
                return
            await asyncio.sleep(max(self._rules.quiet, SOON))

    def _report(self, outcome: Outcome) -> None:
        """Into the log, each thing once."""
        revision = outcome.revision
        if self._waits == LONG:
            log.warning("%s: not read yet: %s", self._root, outcome.reason)
        if revision is None or revision.id == self._told:
            return
        self._told, was_wrong = revision.id, self._wrong
        self._wrong = outcome.result is Result.FAILED
        if was_wrong and not self._wrong:
            # Whoever listens to warnings alone has heard of the failure.
            log.warning("%s: nothing is wrong any more: revision %d", self._root, revision.id)
        elif outcome.result is Result.LOADED:
            log.info("%s: revision %d loaded", self._root, revision.id)
        if self._wrong:
            said = first_of(revision.problems)
            log.warning("%s: not loaded: %s -> %s", self._root, said, amend(revision))
