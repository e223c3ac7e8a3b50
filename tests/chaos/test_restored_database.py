"""A database restored from a backup: what is newer than it is not thrown away."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from codehub.core.keys import meta_key
from codehub.model.states import DesiredState
from codehub.service.collecting import CONFIRM, KIND
from codehub.store.requests import ask
from tests.chaos import picture
from tests.chaos.scenarios import SCENARIOS, collect
from tests.chaos.stage import ARCHIVES, FILE

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


async def archived_past_a_backup(theatre: Theatre, stage: Stage) -> tuple[str, str, str]:
    """Three archives: that of the backup, one that it does not know, and one made after it."""
    await theatre.set_up(stage, RESTORE)
    await stage.want(DesiredState.ARCHIVED)
    backup = await stage.take_picture()
    first: str = (await stage.look())["archive_key"]
    unknown = await archived_again(stage, NEWER)
    await picture.put_rows(stage.conn, backup.rows)
    last = await archived_again(stage, "typed into what the backup knew")
    for hours, key in ((2, first), (1, unknown)):
        age(stage, key, hours)
    await stage.conn.execute("UPDATE archive_operations SET noted_at = noted_at - interval '1 day'")
    return first, unknown, last


async def archived_again(stage: Stage, typed: str) -> str:
    await stage.rest_in(DesiredState.STANDBY)
    await stage.type(typed)
    await stage.rest_in(DesiredState.ARCHIVED)
    key: str = (await stage.look())["archive_key"]
    return key


def age(stage: Stage, key: str, hours: int) -> None:
    for name in (key, meta_key(key)):
        path = stage.root / ARCHIVES / name
        at = path.stat().st_mtime - hours * 3600
        os.utime(path, (at, at))


async def collected(stage: Stage) -> set[str]:
    """The archives that are left after collections with no patience at all."""
    async with stage.term() as term:
        for _ in range(3):
            await collect(term)
    root = stage.root / ARCHIVES
    return {str(path.relative_to(root)) for path in root.rglob("*.zst")}


async def test_an_archive_that_the_database_does_not_know_is_not_collected(
    theatre: Theatre,
) -> None:
    """It is older than the one in use, and holds what that one never had."""
    async with theatre.stage() as stage:
        first, unknown, last = await archived_past_a_backup(theatre, stage)
        left = await collected(stage)
        assert unknown in left
        assert left == {unknown, last}, f"{first} was replaced by {last}, and this is recorded"


async def test_it_goes_once_somebody_vouches_for_the_database(theatre: Theatre) -> None:
    async with theatre.stage() as stage:
        _, _, last = await archived_past_a_backup(theatre, stage)
        await ask(stage.conn, KIND, {CONFIRM: True}, "root")
        assert await collected(stage) == {last}
