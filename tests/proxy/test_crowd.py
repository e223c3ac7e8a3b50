"""Many come at once: one start for a workspace, and never more that run than may.

All of it is real but the processes: the gate, the rules, the database and a coordinator at work.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from codehub.errors import LimitReached
from codehub.model.access import Scope
from codehub.model.states import DesiredState, IntentSource
from codehub.proxy.seam import Answer, Forward
from codehub.service.intent import set_desired
from codehub.service.limits import LimitDefaults
from tests.contract.runtime_world import eventually
from tests.coordination.held import HeldRuntime
from tests.coordination.hub import hub_world
from tests.make import declaration
from tests.proxy.gate_world import UPSTREAM, gate_world
from tests.proxy.heads_of import FETCH, VISIT, head

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from codehub.model.runtime import Listing
    from tests.coordination.hub import HubWorld, Term
    from tests.proxy.gate_world import GateWorld

pytestmark = pytest.mark.anyio

TWO = LimitDefaults(2, 100)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


class ReachableRuntime(HeldRuntime):
    """What runs can be reached, as far as the proxy is concerned."""

    async def list(self) -> Listing:
        found = await super().list()
        seen = [
            replace(each, upstream=UPSTREAM if each.running else None) for each in found.containers
        ]
        return replace(found, containers=tuple(seen))


@dataclass
class Crowded:
    """A hub with a coordinator at work, and a gate in front of it."""

    hub: HubWorld
    gate: GateWorld
    runtime: ReachableRuntime

    async def phases(self, phase: str = "RUNNING") -> set[str]:
        """Those that rest in a phase."""
        rows = await self.hub.conn.execute(
            "SELECT name FROM workspaces WHERE phase = %s AND operation = 'NONE'", (phase,)
        )
        return {row["name"] for row in await rows.fetchall()}

    async def events(self, kind: str, new: str) -> int:
        rows = await self.hub.conn.execute(
            "SELECT count(*) AS n FROM workspace_events"
            " WHERE kind = %s AND new = %s AND source <> 'spec'",
            (kind, new),
        )
        return int((await rows.fetchall())[0]["n"])

    async def visit(self, names: Sequence[str], cookie: str) -> list[Answer | Forward]:
        """All at once."""
        asked = [head(f"/w/{name}/", VISIT, cookie=cookie) for name in names]
        return await asyncio.gather(*(self.gate.ask(each) for each in asked))


@asynccontextmanager
async def crowded(
    url: str, redis_url: str, path: Path, names: Sequence[str], limits: LimitDefaults
) -> AsyncIterator[Crowded]:
    """These workspaces of alice's are all asleep, and the coordinator is at work."""
    async with hub_world(url, path) as made:
        runtime = ReachableRuntime(path / "volumes")
        hub = replace(made, runtime=runtime, limits=limits)
        await hub.declare(*(declaration(name) for name in names))
        await hub.conn.execute(
            "UPDATE workspaces SET desired_state = 'STANDBY' WHERE name = ANY(%s)", (list(names),)
        )
        async with hub.term() as term, gate_world(url, redis_url, limits=limits) as gate:
            await term.settle()
            world = Crowded(hub, gate, runtime)
            assert await world.phases("STANDBY") == set(names)
            async with at_work(term):
                yield world


@asynccontextmanager
async def at_work(term: Term) -> AsyncIterator[None]:
    task = asyncio.create_task(term.controller.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert term.failures.counts == {}


async def test_two_hundred_visits_at_once_are_one_start(
    database_url: str, redis_url: str, tmp_path: Path
) -> None:
    async with crowded(database_url, redis_url, tmp_path, ["api"], TWO) as world:
        world.runtime.starting.shut()
        cookies = [await world.gate.log_in() for _ in range(4)]
        found = await asyncio.gather(*(world.visit(["api"] * 25, cookie) for cookie in cookies))

        async def begun() -> bool:
            return world.runtime.starting.inside == 1

        await eventually(begun, "a start")
        found += await asyncio.gather(*(world.visit(["api"] * 25, cookie) for cookie in cookies))
        answers = [each for some in found for each in some]
        assert len(answers) == 200
        assert {getattr(each, "status", None) for each in answers} == {503}
        world.runtime.starting.open()

        async def reached() -> bool:
            return isinstance(await world.gate.ask(head(headers=FETCH, cookie=cookies[0])), Forward)

        await eventually(reached, "the way to it")
        assert world.runtime.starts == [await world.hub.id_of("api")]
        assert await world.events("operation", "STARTING") == 1
        assert await world.events("desired", "RUNNING") == 1
        assert await world.phases() == {"api"}


async def test_fifty_starts_at_once_by_one_user_are_two(
    database_url: str, redis_url: str, tmp_path: Path
) -> None:
    """By visits, by a program with a token and by commands, in no order."""
    names = [f"ws{number:02}" for number in range(50)]
    async with crowded(database_url, redis_url, tmp_path, names, TWO) as world:
        cookie, token = await world.gate.log_in(), await world.gate.token(Scope.WAKE)

        async def visit(name: str) -> bool:
            (answer,) = await world.visit([name], cookie)
            assert isinstance(answer, Answer)
            assert answer.status in (502, 503)
            return answer.status == 503

        async def wake(name: str) -> bool:
            asked = head(f"/w/{name}/", {"X-CodeHub-Wake": "1"}, bearer=token)
            answer = await world.gate.answer(asked)
            assert answer.status in (429, 503)
            return answer.status == 503

        async def command(name: str) -> bool:
            try:
                async with world.gate.pool.connection() as conn:
                    await set_desired(
                        conn,
                        name,
                        DesiredState.RUNNING,
                        source=IntentSource.CLI,
                        by="alice",
                        limits=TWO,
                    )
            except LimitReached:
                return False
            return True

        ways = (visit, wake, command)
        let_in = await asyncio.gather(*(ways[n % 3](name) for n, name in enumerate(names)))
        assert sum(let_in) == 2
        expected = {name for name, yes in zip(names, let_in, strict=True) if yes}

        async def all_run() -> bool:
            return await world.phases() == expected

        await eventually(all_run, "two that run")
        assert len(world.runtime.starts) == 2
        assert world.runtime.crowd == 2
        assert await world.events("desired", "RUNNING") == 2


async def test_when_one_stops_one_of_those_who_come_again_takes_its_place(
    database_url: str, redis_url: str, tmp_path: Path
) -> None:
    names = [f"ws{number}" for number in range(6)]
    async with crowded(database_url, redis_url, tmp_path, names, TWO) as world:
        cookie = await world.gate.log_in()
        await world.visit(names, cookie)

        async def two_run() -> bool:
            return len(await world.phases()) == 2

        await eventually(two_run, "two that run")
        before = await world.phases()
        gone = sorted(before)[0]
        await world.hub.want(gone, DesiredState.STANDBY)

        async def stopped() -> bool:
            return gone in await world.phases("STANDBY")

        await eventually(stopped, "the end of one")
        await world.visit([name for name in names if name != gone], cookie)
        await eventually(two_run, "the next one")
        assert world.runtime.crowd == 2
        assert gone not in await world.phases()
