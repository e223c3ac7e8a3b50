"""A coordinator at work over a real database, as its metrics and its log tell of it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from codehub.config import Settings
from codehub.coordinator.lead import Lead
from codehub.coordinator.pace import Failures
from codehub.coordinator.survey import Surveyor
from codehub.errors import ActionFailed, Unreachable
from codehub.model.people import Hub
from codehub.model.states import DesiredState
from tests.coordination.direct_mover import DirectMover
from tests.coordination.hub import HubWorld, hub_world
from tests.integration.elections import Candidate, rest, standing
from tests.integration.spec_files import write_specs, write_workspace
from tests.integration.stored import apply
from tests.integration.ttl_world import asleep, awake, ttl_world
from tests.integration.watching import lead
from tests.make import declaration, spec_set
from tests.telemetry.shown import Rises, leading, lines, shown, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from io import StringIO
    from pathlib import Path

pytestmark = pytest.mark.anyio

MINUTE = timedelta(minutes=1)


@pytest.fixture
async def world(database_url: str, tmp_path: Path) -> AsyncIterator[HubWorld]:
    async with hub_world(database_url, tmp_path) as made:
        yield made


def done(rises: Rises, operation: str, result: str = "done") -> float:
    return rises.of("codehub_operations_total", operation=operation, result=result)


async def test_a_full_circle_moves_the_metrics(world: HubWorld) -> None:
    rises = Rises()
    async with world.term() as term:
        with leading():
            await term.settle()
            assert shown("codehub_workspaces", phase="RUNNING") == 1
            assert shown("codehub_running") == 1
            await world.want("api", DesiredState.ARCHIVED)
            await term.settle()
            assert shown("codehub_workspaces", phase="ARCHIVED") == 1
            assert shown("codehub_workspaces", phase="RUNNING") == 0
            assert shown("codehub_running") == 0
            await world.want("api", DesiredState.RUNNING, "visit")
            await term.settle()
            assert shown("codehub_operations_in_flight", kind="action") == 0
            assert shown("codehub_operations_in_flight", kind="data_move") == 0
            assert shown("codehub_operations_waiting", reason="hand") == 0
    assert done(rises, "PROVISIONING") == 1
    assert (done(rises, "STARTING"), done(rises, "STOPPING")) == (2, 1)
    assert (done(rises, "ARCHIVING"), done(rises, "RESTORING")) == (1, 1)
    assert rises.of("codehub_operation_seconds_count", operation="STARTING") == 2
    assert rises.of("codehub_reconcile_seconds_count", kind="full") > 5
    assert rises.of("codehub_wake_seconds_count", source="visit") == 1
    written = rises.of("codehub_archive_bytes_total", direction="archive")
    assert written == rises.of("codehub_archive_bytes_total", direction="restore") > 0


async def test_what_a_limit_holds_is_counted(world: HubWorld) -> None:
    world.limits = type(world.limits)(1, 100)
    await world.declare(declaration("api"), declaration("web"), declaration("docs"))
    async with world.term() as term:
        with leading():
            await term.settle()
            assert shown("codehub_running") == 1
            assert shown("codehub_operations_waiting", reason="limit") == 2


class FailingMover(DirectMover):
    """Archives nothing; says why."""

    async def archive(self, *_: Any) -> Any:
        raise Unreachable("the archive store does not answer")


async def test_an_archive_that_fails_is_counted_and_said(world: HubWorld, logged: StringIO) -> None:
    world.mover = FailingMover(world.store)
    rises = Rises()
    async with world.term() as term:
        await term.settle()
        await world.want("api", DesiredState.ARCHIVED)
        for _ in range(4):
            await term.pass_once()
    failed = {"direction": "archive", "reason": "Unreachable"}
    assert rises.of("codehub_archive_failures_total", **failed) >= 1
    assert done(rises, "ARCHIVING", "retried") >= 1
    line = next(each for each in lines(logged) if "does not answer" in each["event"])
    assert (line["workspace"], line["operation"], line["revision"]) == ("api", "ARCHIVING", 1)
    assert len(line["op_id"]) == 36


async def test_a_workspace_that_fails_is_named_in_the_log_and_not_in_metrics(
    world: HubWorld, logged: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise ActionFailed("the database refuses")

    monkeypatch.setattr("codehub.coordinator.controller.save", refuse)
    rises = Rises()
    async with world.term() as term:
        await term.pass_once()
        assert term.failures.counts == {"controller (api)": 1}
    assert rises.of("codehub_component_failures_total", component="controller") == 1
    (line,) = [each for each in lines(logged) if "refuses" in each["event"]]
    assert (line["workspace"], line["operation"]) == ("api", "PROVISIONING")


async def test_the_leader_shows_that_it_leads(database_url: str, logged: StringIO) -> None:
    candidate = Candidate(database_url, rest)
    async with standing(candidate):
        await until(lambda: candidate.leader.leads)
        assert shown("codehub_leader") == 1
        assert shown("codehub_leader_epoch") == candidate.leader.epoch
    assert shown("codehub_leader") == 0
    assert shown("codehub_leader_epoch") is None
    assert "leads, epoch 1" in [each["event"] for each in lines(logged)]


async def test_idleness_is_counted_and_so_is_a_look_that_could_not_be(database_url: str) -> None:
    rises = Rises()
    sleeper = asleep("old", 2, desired=DesiredState.STANDBY)
    async with ttl_world(database_url, awake("api"), sleeper) as world:
        with leading():
            await world.tick()
            assert rises.of("codehub_ttl_skipped_total", reason="blind") == 1
            lag = shown("codehub_activity_lag_seconds")
            assert lag is not None
            assert lag < 60
            await world.watch(60 * MINUTE)
            world.signals.down = True
            await world.pass_time(10 * MINUTE)
            await world.tick()
            lag = shown("codehub_activity_lag_seconds")
            assert lag is not None
            assert lag > 600
    assert rises.of("codehub_ttl_skipped_total", reason="unreachable") == 1
    assert rises.of("codehub_component_failures_total", component="ttl") == 1
    assert rises.of("codehub_ttl_moves_total", kind="standby") == 1
    assert rises.of("codehub_ttl_moves_total", kind="archive") == 1


async def test_a_move_for_idleness_names_its_workspace(database_url: str, logged: StringIO) -> None:
    async with ttl_world(database_url, awake("api")) as world:
        await world.watch(60 * MINUTE)
    (line,) = [each for each in lines(logged) if "is to be STANDBY" in each["event"]]
    assert line["workspace"] == "api"


async def test_the_revision_in_force_and_the_limit_are_read(world: HubWorld) -> None:
    async with world.term() as term:
        settings = Settings(limits_max_running_global=7)
        surveyor = Surveyor(term.lead, settings, Failures())
        with leading():
            await surveyor.tick()
            assert shown("codehub_revision") == 1
            age = shown("codehub_revision_age_seconds")
            assert age is not None
            assert 0 <= age < 600
            assert shown("codehub_revision_problems") == 0
            assert shown("codehub_running_limit") == 7
            specs = spec_set(declaration(), digest="d2", hub=Hub(max_running_global=3))
            await apply(world.conn, specs, immediately=True)
            await surveyor.tick()
            assert shown("codehub_revision") == 2
            assert shown("codehub_running_limit") == 3


async def test_a_hub_without_a_revision_shows_none(database_url: str) -> None:
    async with lead(database_url) as world:
        term = Lead(UUID(int=1), world.fence, world.pool)
        surveyor = Surveyor(term, Settings(), Failures())
        with leading():
            await surveyor.tick()
            assert shown("codehub_revision") is None
            assert shown("codehub_revision_problems") == 0


async def test_specs_that_fail_are_shown_and_said_with_their_revision(
    database_url: str, tmp_path: Path, logged: StringIO
) -> None:
    specs = write_specs(tmp_path, "api")
    async with lead(database_url) as world:
        watcher = world.watcher(specs)
        surveyor = Surveyor(watcher._lead, Settings(), Failures())
        with leading():
            assert shown("codehub_specs_age_seconds") is None
            await watcher.tick()
            assert (shown("codehub_specs_age_seconds") or 0) < 60
            write_workspace(specs, "web", "{owner: nobody, image: i}")
            await watcher.tick()
            await surveyor.tick()
            assert shown("codehub_revision") == 1
            assert shown("codehub_revision_problems") == 1
    loaded = next(each for each in lines(logged) if "loaded" in each["event"])
    failed = next(each for each in lines(logged) if "not loaded" in each["event"])
    assert loaded["revision"] == 1
    assert failed["revision"] > 1
