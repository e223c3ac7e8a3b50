"""What `codehub up` says while it runs: where it is, and what happens to workspaces."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from codehub import __version__
from codehub.adapters.process import NOTICE
from codehub.cli.serving import say
from codehub.errors import CodeHubError
from codehub.model.events import EventKind
from codehub.model.states import Operation, Phase
from codehub.model.workspace import Runtime
from codehub.render.words import clean
from codehub.service.following import begin, follow
from codehub.service.links import create_login_link
from codehub.store.access import first_person
from codehub.store.connect import connect
from codehub.store.workspaces import read_workspaces

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.coordinator.coordinator import Coordinator
    from codehub.model.events import Event
    from codehub.model.workspace import Workspace
    from codehub.service.following import Follower

SHOWN: Final = 20
STANDING: Final = 5.0
"""Seconds after which it is said that something keeps us from leading."""
INVITING: Final = 10.0
"""Seconds that what happens waits for the login link, which stands below the address."""
LOOKING: Final = 15.0
"""Seconds after which what is stored is shown although nobody has looked."""


def greet(data: Path, specs: Path, port: int, enabled: frozenset[Runtime]) -> None:
    """Where everything is."""
    say(f"CodeHub {__version__}")
    say(f"  specs   {specs} (changes are loaded as they are saved)")
    say(f"  data    {data}")
    say(f"  runs on {', '.join(sorted(enabled))}")
    if Runtime.PROCESS in enabled:
        say(f"  note    {NOTICE}")
    say("")
    say(f"  Open http://localhost:{port}/  (Ctrl-C stops everything)")


async def narrate_until(
    ended: asyncio.Event, database_url: str, port: int, coordinator: Coordinator
) -> None:
    """Tell what happens, and what keeps it from happening, until `ended` is set."""
    inviting = asyncio.create_task(_invite(database_url, port))
    telling = asyncio.create_task(_narrate(database_url, port, inviting, coordinator.looked))
    warning = asyncio.create_task(_say_what_is_wrong(coordinator))
    try:
        await ended.wait()
    finally:
        for task in (telling, warning, inviting):
            task.cancel()
        await asyncio.gather(telling, warning, inviting, return_exceptions=True)


async def _invite(database_url: str, port: int) -> None:
    """A way in without a password, as soon as the specs say who there is."""
    while True:
        with suppress(CodeHubError):
            async with await connect(database_url) as conn:
                person = await first_person(conn)
                if person is not None:
                    code = await create_login_link(conn, person.name, by="codehub up")
                    role = "an admin" if person.is_admin else "no admin is declared"
                    say(f"  Log in as {person.name} ({role}), once, within 15 minutes:")
                    say(f"  http://localhost:{port}/login/link?code={code}")
                    return
        await asyncio.sleep(0.5)


async def _narrate(
    database_url: str, port: int, inviting: asyncio.Task[None], looked: asyncio.Event
) -> None:
    """What happens to workspaces, line by line; a lost database is told by others."""
    await asyncio.wait({inviting}, timeout=INVITING)
    say("")
    clock = asyncio.get_running_loop().time
    follower, narrator, introduced = None, Narrator(port), False
    while True:
        with suppress(CodeHubError):
            async with await connect(database_url) as conn:
                follower = follower or await begin(conn, None, clock)
                if not introduced:
                    await introduce(conn, follower, narrator, looked)
                    introduced = True
                async for fresh in follow(conn, follower, None):
                    narrator.tell(fresh)
        await asyncio.sleep(1)


async def introduce(
    conn: AsyncConnection[DictRow], follower: Follower, narrator: Narrator, looked: asyncio.Event
) -> None:
    """Say where everything is, once somebody has looked.

    After a crash the database still has what is dead as RUNNING. What the first look found is told
    as it happened.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(LOOKING):
            await looked.wait()
    fresh = await follower.look(conn, None)
    told = {each.workspace_id for each in fresh if each.kind in (EventKind.PHASE, EventKind.ERROR)}
    narrator.show([each for each in await read_workspaces(conn) if each.id not in told])
    narrator.tell(fresh)


class Narrator:
    """Says what happens to workspaces.

    A container that runs makes a workspace RUNNING before its port answers. People go where they
    are sent at once, so its address is said when STARTING is over.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._starting: set[UUID] = set()
        self._unanswered: dict[UUID, str] = {}

    def show(self, workspaces: Sequence[Workspace]) -> None:
        """What is there already; the rest of a long list is in the report."""
        live = [each for each in workspaces if each.status.phase is not Phase.DELETED]
        now = datetime.now(UTC)
        for each in live:
            if each.status.operation is Operation.STARTING:
                self._starting.add(each.id)
                if each.status.phase is Phase.RUNNING:
                    self._unanswered[each.id] = each.name
        for each in live[:SHOWN]:
            phase, starts = each.status.phase.value, each.id in self._starting
            text = Operation.STARTING.value if starts else self._said(each.name, phase)
            _line(now, each.name, text)
        if len(live) > SHOWN:
            say(f"          and {len(live) - SHOWN} more: 'codehub status' lists them")

    def tell(self, events: Sequence[Event]) -> None:
        """What is new; the events of one write are always among the same ones."""
        for each in events:
            if each.kind is EventKind.PHASE:
                self._tell_phase(each)
            elif each.kind is EventKind.ERROR:
                _line(each.at, each.workspace, f"{each.new}: {clean(each.reason)}")
            elif each.kind is EventKind.OPERATION:
                self._note(each)
        for answered in self._unanswered.keys() - self._starting:
            name = self._unanswered.pop(answered)
            _line(events[-1].at, name, self._said(name, Phase.RUNNING.value))

    def _note(self, event: Event) -> None:
        if event.new == Operation.STARTING:
            self._starting.add(event.workspace_id)
        else:
            self._starting.discard(event.workspace_id)

    def _tell_phase(self, event: Event) -> None:
        self._unanswered.pop(event.workspace_id, None)
        if event.new == Phase.RUNNING and event.workspace_id in self._starting:
            self._unanswered[event.workspace_id] = event.workspace
        else:
            _line(event.at, event.workspace, self._said(event.workspace, event.new))

    def _said(self, name: str, phase: str) -> str:
        """The phase, and where people go from there."""
        if phase == Phase.RUNNING:
            return f"{phase}  http://localhost:{self._port}/w/{name}/"
        if phase == Phase.ERROR:
            return f"{phase}  'codehub explain {clean(name)}' says what to do"
        return phase


def _line(at: datetime, name: str, text: str) -> None:
    say(f"{at.astimezone():%H:%M:%S}  {clean(name):<20} {text}")


async def _say_what_is_wrong(coordinator: Coordinator) -> None:
    while not coordinator.leads:
        await asyncio.sleep(STANDING)
        if not coordinator.leads and coordinator.problem is not None:
            say(f"codehub: not coordinating yet: {coordinator.problem}", err=True)
