"""A database restored from a backup: what is newer than it is not thrown away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codehub.model.states import DesiredState
from tests.chaos import picture
from tests.chaos.scenarios import SCENARIOS
from tests.chaos.stage import FILE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chaos.stage import Stage
    from tests.chaos.theatre import Theatre

pytestmark = pytest.mark.anyio

RESTORE = next(each for each in SCENARIOS if each.name == "restore")
NEWER = "typed after the backup"


async def go_back(theatre: Theatre, stage: Stage) -> Path:
    """The rows are of a time when it was archived; since then it was restored and worked in."""
    await theatre.set_up(stage, RESTORE)
    await stage.want(DesiredState.ARCHIVED)
    backup = await stage.take_picture()
    await stage.rest_in(DesiredState.STANDBY)
    await stage.type(NEWER)
    home: str = (await stage.look())["home_store_key"]
    await picture.put_rows(stage.conn, backup.rows)
    return stage.runtime.root / home / FILE


async def test_a_home_that_the_database_does_not_know_stays(theatre: Theatre) -> None:
    async with theatre.stage() as stage:
        newer = await go_back(theatre, stage)
        await stage.settle()
        assert newer.read_text() == NEWER


async def test_nothing_is_restored_in_its_place(theatre: Theatre) -> None:
    async with theatre.stage() as stage:
        newer = await go_back(theatre, stage)
        await stage.rest_in(DesiredState.RUNNING)
        row = await stage.look()
        assert newer.read_text() == NEWER
        assert row["phase"] == "ERROR"
        assert newer.parent.name in row["error_message"]


async def test_once_it_was_moved_away_everything_goes_on(theatre: Theatre) -> None:
    async with theatre.stage() as stage:
        newer = await go_back(theatre, stage)
        await stage.rest_in(DesiredState.RUNNING)
        newer.parent.rename(stage.root / "kept")
        await stage.conn.execute("UPDATE workspaces SET recover_requested = 'plain'")
        await stage.settle()
        assert (await stage.look())["phase"] == "RUNNING"
