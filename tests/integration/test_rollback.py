"""`codehub rollback` and `codehub diff` on a real database, as separate processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from codehub.model.revision import Origin
from codehub.service.loading import Result
from codehub.specs.load import load_directory
from codehub.store.connect import connect
from codehub.store.revisions import record_failed
from tests.integration.command_line import run_codehub
from tests.integration.spec_files import document, write_specs, write_workspace
from tests.integration.stored import apply, versions
from tests.integration.watching import TABLES, lead

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.command_line import Ran

pytestmark = pytest.mark.anyio


class Place:
    """Specs that are loaded in this process, and a hub that commands are run on."""

    def __init__(self, root: Path, url: str) -> None:
        self.root = root
        self.url = url
        self.specs = write_specs(root)

    def run(self, *words: str) -> Ran:
        return run_codehub(*words, cwd=self.root, env={"DATABASE_URL": self.url})

    async def load(self, **images: str) -> None:
        """A revision in which these workspaces, and no others, have these images."""
        for file in self.specs.glob("*.yaml"):
            if file.name != "people.yaml":
                file.unlink()
        for name, image in images.items():
            write_workspace(self.specs, name, f"{{owner: alice, image: {image}}}")
        async with await connect(self.url) as conn:
            assert await apply(conn, load_directory(self.specs)) is not None

    def images(self) -> dict[str, str]:
        query = "SELECT name, image_ref FROM workspaces WHERE desired_state <> 'DELETED'"
        return dict(self.rows(query))

    def rows(self, query: str) -> list[Any]:
        with psycopg.connect(self.url) as conn:
            return conn.execute(query.encode()).fetchall()


@pytest.fixture
async def place(tmp_path: Path, database_url: str) -> Place:
    """A hub at revision 3; between 1 and 3 api changed, web came and old went."""
    place = Place(tmp_path, database_url)
    await place.load(api="one", old="i", **{f"ws-{n}": "i" for n in range(8)})
    await place.load(api="two", old="i", **{f"ws-{n}": "i" for n in range(8)})
    await place.load(api="two", web="i", **{f"ws-{n}": "i" for n in range(8)})
    return place


async def test_a_rollback_is_a_new_revision_with_the_old_specs(place: Place) -> None:
    back = place.run("rollback", "1", "--yes")

    assert back.code == 0, back.err
    assert back.out.startswith("Back to revision 1.\n")
    assert '"two" -> "one"' in back.out
    assert "Revision 4 applied" in back.out
    kept = {f"ws-{n}": "i" for n in range(8)}
    assert place.images() == {**kept, "api": "one", "old": "i"}
    newest = place.rows("SELECT source, directory, applied FROM spec_revisions WHERE id = 4")
    assert newest == [("rollback", str(place.specs), True)]
    query = "SELECT count(DISTINCT (digest, documents)) FROM spec_revisions WHERE id IN (1, 4)"
    assert place.rows(query) == [(1,)]
    again = place.run("rollback", "1", "--yes")
    assert again.code == 0
    assert "Nothing to apply" in again.out


async def test_the_next_poll_does_not_undo_a_rollback(place: Place) -> None:
    async with lead(place.url) as world:
        watcher = world.watcher(place.specs)
        await watcher.tick()
        assert place.run("rollback", "1", "--yes").code == 0

        assert (await watcher.tick()).result is Result.UNCHANGED
        assert (await world.watcher(place.specs).tick()).result is Result.UNCHANGED
        assert place.images()["api"] == "one"


async def test_nobody_to_ask_or_an_unsafe_plan_changes_nothing(place: Place) -> None:
    await place.load(**{f"new-{n}": "i" for n in range(3)}, api="two")
    async with await connect(place.url) as conn:
        before = await versions(conn, *TABLES)
        asked = place.run("rollback", "3")
        unsafe = place.run("rollback", "3", "--yes")

        assert (asked.code, unsafe.code) == (1, 1)
        assert "--force" in unsafe.err
        assert await versions(conn, *TABLES) == before
    assert place.run("rollback", "3", "--yes", "--force").code == 0
    assert "web" in place.images()


async def test_revisions_that_cannot_be_used_are_told_with_those_that_can(place: Place) -> None:
    async with await connect(place.url) as conn:
        failed = await record_failed(
            conn,
            digest="d",
            origin=Origin("specs"),
            problems=["broken"],
            author="watcher",
            source="watch",
        )
    for verb in ("rollback", "diff"):
        unknown = place.run(verb, "99")
        assert unknown.code == 1
        assert "there is no revision 99" in unknown.err
        assert "there are 3, 2, 1;" in unknown.err
        never = place.run(verb, str(failed.id))
        assert never.code == 1
        assert f"revision {failed.id} failed" in never.err
    assert place.run("rollback", "one").code == 64
    assert place.run("diff").code == 64


async def test_specs_that_this_hub_can_no_longer_hold_are_refused(place: Place) -> None:
    ran = run_codehub(
        "rollback",
        "1",
        "--yes",
        cwd=place.root,
        env={"DATABASE_URL": place.url, "RUNTIME_ENABLED": "process"},
    )
    assert ran.code == 1
    assert "runtime docker is not enabled" in ran.err
    assert place.images()["api"] == "two"


@pytest.mark.parametrize("words", [("rollback", "1"), ("diff", "1"), ("drift",)])
def test_without_a_hub_there_is_nothing_to_look_at(tmp_path: Path, words: tuple[str, ...]) -> None:
    ran = run_codehub(*words, cwd=tmp_path)
    assert ran.code == 1
    assert "no hub here" in ran.err
    assert not (tmp_path / ".codehub").exists()


async def test_diff_tells_what_differs_and_scripts_whether(place: Place) -> None:
    both = place.run("diff", "1", "3", "--exit-code")
    assert both.code == 2, both.err
    assert '~ image   "one" -> "two"' in both.out
    assert "+ workspace web" in both.out
    assert "- workspace old" in both.out
    assert "1 added, 1 changed, 1 removed" in both.out
    assert "ws-1" not in both.out
    assert place.run("diff", "1", "3").code == 0

    current = place.run("diff", "2")
    assert "to revision 3" in current.out
    assert "+ workspace web" in current.out
    same = place.run("diff", "3", "--exit-code")
    assert same.code == 0
    assert "No difference" in same.out


async def test_diff_keeps_secrets(place: Place) -> None:
    canary = "canary-51c2"
    spec = f"{{owner: alice, image: i, env: {{KEY: {canary}}}, secretEnv: {{TOKEN: {canary}}}}}"
    hashed = f"{{passwordHash: '$argon2id$v=19$m=65536,t=3,p=4${canary}'}}"
    write_workspace(place.specs, "api", spec)
    (place.specs / "carol.yaml").write_text(document("User", "carol", hashed))
    async with await connect(place.url) as conn:
        await apply(conn, load_directory(place.specs))
    ran = place.run("diff", "3", "4")
    assert "env.KEY" in ran.out
    assert "passwordHash" in ran.out
    assert canary not in ran.out + ran.err
