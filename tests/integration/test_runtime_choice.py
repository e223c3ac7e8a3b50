"""Where `codehub up` runs workspaces: as asked for, or as the machine allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codehub.cli.runtimes import choose_runtimes
from codehub.cli.up import RuntimeChoice
from codehub.config import Settings
from codehub.errors import Unreachable, UsageError
from codehub.model.workspace import Runtime
from codehub.store.connect import connect
from tests.integration.stored import apply
from tests.make import declaration, spec_set

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


@pytest.fixture
def no_engine(tmp_path: Path) -> Settings:
    return Settings(docker_host=f"unix://{tmp_path}/none.sock")


async def test_without_an_engine_there_are_processes(
    no_engine: Settings, database_url: str
) -> None:
    chosen = await choose_runtimes(RuntimeChoice.AUTO, no_engine, database_url)
    assert chosen == {Runtime.PROCESS}


async def test_an_engine_that_holds_homes_is_waited_for(
    no_engine: Settings, database_url: str
) -> None:
    async with await connect(database_url) as conn:
        declared = declaration(runtime=Runtime.DOCKER, image="ide:1")
        await apply(conn, spec_set(declared), immediately=True)
        await conn.execute("UPDATE workspaces SET home_store_key = 'ws-x-home-g1'")
    chosen = await choose_runtimes(RuntimeChoice.AUTO, no_engine, database_url)
    assert chosen == {Runtime.PROCESS, Runtime.DOCKER}


async def test_what_is_asked_for_must_be_there(no_engine: Settings, database_url: str) -> None:
    with pytest.raises(Unreachable, match="workspaces cannot run on docker") as raised:
        await choose_runtimes(RuntimeChoice.DOCKER, no_engine, database_url)
    assert raised.value.hint


@pytest.mark.parametrize("choice", [RuntimeChoice.DOCKER, RuntimeChoice.AUTO])
@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("npipe:////./pipe/docker", "npipe:////./pipe/docker is of a kind"),
        ("ssh://somewhere", "ssh://somewhere is on another machine"),
        ("tcp://192.0.2.1:2375", "tcp://192.0.2.1:2375 is on another machine"),
    ],
)
async def test_an_address_that_cannot_be_used_is_a_mistake(
    choice: RuntimeChoice, host: str, words: str, database_url: str
) -> None:
    with pytest.raises(UsageError, match=words):
        await choose_runtimes(choice, Settings(docker_host=host), database_url)


async def test_settings_win_over_a_guess(no_engine: Settings, database_url: str) -> None:
    asked = no_engine.model_copy(update={"runtime_enabled": frozenset({Runtime.DOCKER})})
    chosen = await choose_runtimes(RuntimeChoice.AUTO, asked, database_url)
    assert chosen == {Runtime.DOCKER}
    chosen = await choose_runtimes(RuntimeChoice.PROCESS, asked, database_url)
    assert chosen == {Runtime.PROCESS}
