"""`codehub plan --server`: the very output of a plan against the database, with a token instead."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from codehub.model.access import Scope
from tests.integration.command_line import run_codehub
from tests.integration.repository import commit, git
from tests.web.plan_world import SPECS, write_files
from tests.web.web_world import served

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.integration.command_line import Ran
    from tests.web.web_world import WebWorld

pytestmark = pytest.mark.anyio

UNTIL = "2099-01-01T00:00Z"
TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d\.\d+\+00:00)?|in \d+d\d+h")


@dataclass
class Place:
    """A directory with specs, and the hub on its port."""

    root: Path
    world: WebWorld
    url: str
    token: str

    async def ask(self, *words: str, token: str | None = None, server: str | None = None) -> Ran:
        """Over HTTP, with no database named anywhere."""
        named = () if server == "" else ("--server", server or self.url)
        env = {"CODEHUB_TOKEN": self.token if token is None else token}
        if server == "":
            env["CODEHUB_SERVER"] = self.url
        return await self._run("plan", *words, *named, env=env)

    async def look(self, *words: str) -> Ran:
        """The same with the database."""
        return await self._run("plan", *words, "--hub", self.world.url, env={})

    async def _run(self, *words: str, env: dict[str, str]) -> Ran:
        return await asyncio.to_thread(run_codehub, *words, cwd=self.root, env=env)

    async def secret(self, name: str, *scopes: Scope) -> str:
        client = await self.world.token(name, *scopes)
        return client.headers["Authorization"].removeprefix("Bearer ")


@pytest.fixture
async def place(world: WebWorld, tmp_path: Path) -> AsyncIterator[Place]:
    write_files(tmp_path / "specs")
    async with served(world) as url:
        made = Place(tmp_path, world, url, "")
        made.token = await made.secret("root", Scope.PLAN)
        yield made


@pytest.mark.parametrize("form", ["text", "json", "md", "html"])
async def test_the_output_is_the_same(place: Place, form: str) -> None:
    words = ("--format", form, "--as-of", UNTIL, "--exit-code")
    there, here = await place.ask(*words), await place.look(*words)
    assert there.err == here.err == ""
    assert TIME.sub("", there.out) == TIME.sub("", here.out)
    assert "new" in there.out
    assert there.code == here.code == 4


async def test_the_commit_is_known_over_there(place: Place) -> None:
    git(place.root, "init", "-q", "-b", "main")
    hash_ = commit(place.root)
    (place.root / "specs/people.yaml").write_text(SPECS["people.yaml"] + "# a comment\n")
    changed = json.loads((await place.ask("--format", "json")).out)["specs"]
    assert (changed["commit"], changed["dirty"]) == (hash_, True)
    (place.root / "specs/people.yaml").unlink()
    at_ref = json.loads((await place.ask("--format", "json", "--ref", "main")).out)["specs"]
    assert (at_ref["directory"], at_ref["commit"], at_ref["dirty"]) == ("specs", hash_, False)


async def test_a_saved_plan_can_be_applied_with_the_database(place: Place) -> None:
    saved = await place.ask("--save", "plan.json", "--out", "plan.md", "--format", "md")
    assert saved.code == 0
    assert saved.err.splitlines() == [
        "plan saved; apply it with 'codehub apply plan.json'",
        "plan written to plan.md",
    ]
    assert (place.root / "plan.md").read_text().startswith("### CodeHub plan")
    words = ("apply", "plan.json", "--yes", "--force", "--hub", place.world.url)
    applied = await place._run(*words, env={})
    assert applied.code == 0, applied.err
    rows = await place.world.rows("SELECT name FROM workspaces WHERE name = 'new'")
    assert len(rows) == 1


async def test_the_settings_name_the_server_too(place: Place) -> None:
    told = await place.ask("--target", "new", "--exit-code", server="")
    assert (told.code, told.err) == (2, "")
    assert "1 to create" in told.out


async def test_problems_are_told_as_without_a_server(place: Place) -> None:
    (place.root / "specs/team/new.yaml").write_text("kind: Workspace\nspec: {colour: red}\n")
    there, here = await place.ask(), await place.look()
    assert (there.code, there.out, there.err) == (here.code, here.out, here.err)
    assert there.code == 1
    assert there.err.startswith("specs/team/new.yaml:1:1: ")
    (place.root / "specs/team/new.yaml").write_text("kind: [\n")
    there, here = await place.ask(), await place.look()
    assert (there.code, there.out, there.err) == (here.code, here.out, here.err)


async def test_a_wrong_question_is_one_with_a_server_too(place: Place) -> None:
    for words in (("--target", "nobody"), ("--as-of", "soon")):
        there, here = await place.ask(*words), await place.look(*words)
        assert (there.code, there.out, there.err) == (here.code, here.out, here.err)
        assert there.code == 64


async def test_a_token_that_is_not_good_for_it(place: Place) -> None:
    unknown = await place.ask(token="chub_nobody")
    assert unknown.code == 1
    assert unknown.err == (
        f"codehub: {place.url} does not know this token, or not any more\n"
        "  make one with 'codehub token create NAME --scope plan', and set CODEHUB_TOKEN\n"
    )
    reader = await place.ask(token=await place.secret("root", Scope.READ))
    assert (reader.code, reader.err.splitlines()[0]) == (
        1,
        f'codehub: {place.url} refuses: this token has no scope "plan"',
    )
    member = await place.ask(token=await place.secret("ana", Scope.PLAN))
    assert (member.code, member.err.splitlines()[0]) == (
        1,
        f"codehub: {place.url} refuses: a plan shows the whole hub, so it is for admins and their "
        "tokens",
    )


async def test_words_that_do_not_go_together(place: Place) -> None:
    both = await place.ask("--hub", place.world.url)
    assert both.code == 64
    assert "two hubs" in both.err
    shown = await place.ask("--show-env")
    assert shown.code == 64
    assert "--show-env needs the hub's database" in shown.err
    silent = await place.ask(token="")
    assert silent.code == 64
    assert "there is no token to show" in silent.err


async def test_a_database_that_is_named_goes_first(place: Place) -> None:
    env = {"CODEHUB_SERVER": "http://127.0.0.1:1", "CODEHUB_TOKEN": "chub_x"}
    told = await place._run("plan", "--hub", place.world.url, env=env)
    assert (told.code, told.err) == (0, "")


async def test_the_token_is_nowhere_in_what_is_printed(place: Place) -> None:
    for words in ((), ("--debug",), ("--format", "json"), ("--target", "nobody", "--debug")):
        told = await place.ask(*words)
        assert place.token not in told.out + told.err
