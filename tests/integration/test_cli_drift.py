"""`codehub drift` on a real database: read-only, and clear to people and to scripts."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from codehub.model.conditions import Condition, ConditionName, ConditionStatus
from codehub.model.states import DesiredState, ErrorReason, Phase
from codehub.model.workspace import Status, Workspace
from codehub.store.connect import connect
from tests.integration.command_line import run_codehub
from tests.integration.stored import insert, versions
from tests.integration.watching import TABLES
from tests.make import NOW, workspace

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.command_line import Ran

pytestmark = pytest.mark.anyio

WELL = Status(
    phase=Phase.RUNNING,
    phase_changed_at=NOW - timedelta(hours=1),
    observed_at=NOW,
    container_template="t1",
)
STOPPED_BY_HAND = Status(
    phase=Phase.RUNNING,
    phase_changed_at=NOW - timedelta(hours=1),
    observed_at=NOW,
    container_template="t1",
    conditions={
        ConditionName.CONTAINER_READY: Condition(
            ConditionStatus.FALSE, "Exited", "the process ended", NOW
        )
    },
)
LOST = Status(
    phase=Phase.ERROR,
    phase_changed_at=NOW,
    observed_at=NOW,
    error_reason=ErrorReason.DATA_LOST,
    error_message="the home is gone",
)
SLEEPING = Status(phase=Phase.STANDBY, phase_changed_at=NOW, observed_at=NOW)


def fleet(**statuses: Status) -> list[Workspace]:
    return [
        workspace(name, number=number, status=status)
        for number, (name, status) in enumerate(statuses.items(), 1)
    ]


def drift(root: Path, url: str, *words: str) -> Ran:
    return run_codehub("drift", *words, cwd=root, env={"DATABASE_URL": url})


async def test_drift_is_told_and_nothing_is_written(tmp_path: Path, database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, *fleet(api=STOPPED_BY_HAND, lab=LOST, web=WELL))
        before = await versions(conn, *TABLES)
        ran = drift(tmp_path, database_url, "--exit-code")

        assert ran.code == 3, ran.err
        assert "! workspace api" in ran.out
        assert "! workspace lab" in ran.out
        assert "web" not in ran.out
        assert "Drift: 2 of 3 workspaces." in ran.out
        assert drift(tmp_path, database_url).code == 0
        assert await versions(conn, *TABLES) == before


async def test_what_ttl_lowered_is_no_drift(tmp_path: Path, database_url: str) -> None:
    async with await connect(database_url) as conn:
        asleep = workspace("api", desired=DesiredState.STANDBY, status=SLEEPING)
        await insert(conn, asleep, workspace("web", number=2, status=WELL))
    ran = drift(tmp_path, database_url, "--exit-code")

    assert ran.code == 0, ran.err
    assert "No drift" in ran.out


async def test_scripts_get_all_of_it(tmp_path: Path, database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, *fleet(api=STOPPED_BY_HAND, lab=LOST, web=WELL))
    ran = drift(tmp_path, database_url, "--format", "json", "--exit-code")

    assert ran.code == 3
    data = json.loads(ran.out)
    assert (data["formatVersion"], data["workspaces"], data["drifted"]) == (1, 3, 2)
    assert [(each["name"], each["field"]) for each in data["drift"]] == [
        ("api", "infra.container_ready"),
        ("lab", "home"),
    ]
    assert data["observedAt"] == NOW.isoformat()


async def test_a_hub_that_nobody_looked_at_says_so(tmp_path: Path, database_url: str) -> None:
    empty = drift(tmp_path, database_url)
    assert empty.code == 0, empty.err
    assert "no workspaces" in empty.out
    async with await connect(database_url) as conn:
        await insert(conn, *fleet(api=Status(), web=Status()))
    ran = drift(tmp_path, database_url)
    assert "Nobody has looked at 2 workspaces yet" in ran.out
    assert "never observed" in ran.out
    assert "No drift" not in ran.out
