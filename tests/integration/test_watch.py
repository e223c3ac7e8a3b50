"""The watcher on real directories and a real database: what it loads, and above all what not."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from codehub.errors import FenceLost
from codehub.model.plan import PlanOptions
from codehub.model.revision import UNSAFE
from codehub.model.workspace import Runtime
from codehub.service.loading import Known, LoadRules, Result, load_once
from codehub.specs.cache import SpecCache
from codehub.specs.load import load_directory
from codehub.store.declare import loader_lock
from codehub.store.fence import take_epoch
from tests.integration.repository import commit, git
from tests.integration.spec_files import write_specs, write_workspace
from tests.integration.stored import apply, change, versions
from tests.integration.test_loader import until_waiting
from tests.integration.watching import LOCK, TABLES, lead, make_repository

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from codehub.service.loading import Outcome
    from tests.integration.watching import World

pytestmark = pytest.mark.anyio


def edit(specs: Path, image: str, name: str = "api") -> None:
    write_workspace(specs, name, f"{{owner: alice, image: {image}}}")


async def by_hand(world: World, specs: Path, source: str = "cli", **edits: str) -> None:
    """An apply or a rollback by a person, of these specs or of some with other images."""
    if edits:
        specs = shutil.copytree(specs, specs.parent / "elsewhere", dirs_exist_ok=True)
    for name, image in edits.items():
        edit(specs, image, name)
    async with world.pool.connection() as conn:
        assert await apply(conn, load_directory(specs), source=source) is not None


async def snapshot(world: World) -> list[tuple[str, str, str]]:
    async with world.pool.connection() as conn:
        return await versions(conn, *TABLES)


async def test_the_first_look_loads_everything(tmp_path: Path, database_url: str) -> None:
    specs = write_specs(tmp_path, "api", "web")
    async with lead(database_url) as world:
        outcome = await world.watcher(specs).tick()

        assert outcome.result is Result.LOADED
        assert await world.images() == {"api": "i", "web": "i"}
        (revision,) = await world.revisions()
        assert (revision.author, revision.origin.directory) == ("watcher", str(specs))
        async with world.pool.connection() as conn:
            row = await (await conn.execute("SELECT source FROM spec_revisions")).fetchone()
        assert row == {"source": "watch"}
        assert world.hints.take().everything


async def test_a_look_at_the_same_writes_nothing(tmp_path: Path, database_url: str) -> None:
    specs = write_specs(tmp_path, "api")
    async with lead(database_url) as world:
        watcher = world.watcher(specs)
        await watcher.tick()
        world.hints.take()
        before = await snapshot(world)
        (specs / "api.yaml").write_text("# a comment\n" + (specs / "api.yaml").read_text())

        assert (await watcher.tick()).result is Result.UNCHANGED
        assert (await world.watcher(specs).tick()).result is Result.UNCHANGED
        assert await snapshot(world) == before
        assert not world.hints.take()


async def test_a_change_is_loaded_whole(tmp_path: Path, database_url: str) -> None:
    specs = write_specs(tmp_path, "api", "web", "lab", "old")
    async with lead(database_url) as world:
        watcher = world.watcher(specs)
        await watcher.tick()
        edit(specs, "second")
        edit(specs, "new", "more")
        (specs / "old.yaml").unlink()

        assert (await watcher.tick()).result is Result.LOADED
        assert await world.images() == {"api": "second", "web": "i", "lab": "i", "more": "new"}


def _garbage(specs: Path) -> None:
    (specs / "api.yaml").write_text("}{ \0 nothing of this is a spec")


def _half(specs: Path) -> None:
    whole = (specs / "api.yaml").read_text()
    (specs / "api.yaml").write_text(whole[: whole.index("owner") + 4])


def _twice(specs: Path) -> None:
    (specs / "copy.yaml").write_text((specs / "api.yaml").read_text())


def _gone(specs: Path) -> None:
    shutil.rmtree(specs)


def _empty(specs: Path) -> None:
    shutil.rmtree(specs)
    specs.mkdir()


def _a_file(specs: Path) -> None:
    shutil.rmtree(specs)
    specs.write_text("not a directory")


def _a_dead_link(specs: Path) -> None:
    shutil.rmtree(specs)
    specs.symlink_to("nowhere")


def _without_workspaces(specs: Path) -> None:
    for each in ("api", "web"):
        (specs / f"{each}.yaml").unlink()


@pytest.mark.parametrize(
    "harm",
    [_garbage, _half, _twice, _gone, _empty, _a_file, _a_dead_link, _without_workspaces],
)
async def test_whatever_is_wrong_the_last_good_revision_stays(
    tmp_path: Path, database_url: str, harm: Callable[[Path], None]
) -> None:
    specs = write_specs(tmp_path, "api", "web")
    async with lead(database_url) as world:
        watcher = world.watcher(specs)
        await watcher.tick()
        harm(specs)

        assert (await watcher.tick()).result is Result.FAILED
        # Looked at again, also after a restart, it is not recorded again.
        await watcher.tick()
        await world.watcher(specs).tick()
        assert await world.images() == {"api": "i", "web": "i"}
        good, bad = await world.revisions()
        assert good.applied
        assert not bad.applied
        assert str(specs) in bad.problems[0] or bad.problems[0].startswith(UNSAFE)


async def test_every_other_failure_is_recorded_and_its_end_too(
    tmp_path: Path, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    specs = write_specs(tmp_path, "api")
    async with lead(database_url) as world:
        watcher = world.watcher(specs)
        await watcher.tick()
        good = (specs / "api.yaml").read_text()
        for text in ("}{", "]["):
            (specs / "api.yaml").write_text(text)
            await watcher.tick()
            await watcher.tick()
        (specs / "api.yaml").write_text(good)
        assert (await watcher.tick()).result is Result.UNCHANGED
        await world.watcher(specs).tick()

        assert [each.applied for each in await world.revisions()] == [True, False, False, True]
        assert caplog.messages[-1] == f"{specs}: nothing is wrong any more: revision 4"
        edit(specs, "second")
        assert (await watcher.tick()).result is Result.LOADED


class EditingCache(SpecCache):
    """Somebody writes right after each of the first readings: one edit for each."""

    def __init__(self, edits: Iterable[Callable[[], object]]) -> None:
        super().__init__()
        self._edits = list(edits)

    def keep_only(self, files: Iterable[str]) -> None:
        super().keep_only(files)
        if self._edits:
            self._edits.pop(0)()


async def look(world: World, specs: Path, known: Known) -> Outcome:
    rules = LoadRules(world.fence, PlanOptions(), quiet=0)
    return await load_once(world.pool, specs, None, known, rules)


async def test_specs_that_are_being_written_are_not_loaded(
    tmp_path: Path, database_url: str
) -> None:
    """Every reading meets other specs, all of them valid: only the last ones are ever loaded."""
    specs = write_specs(tmp_path, "api", "web")
    edits = [lambda number=number: edit(specs, f"draft-{number}") for number in range(5)]
    async with lead(database_url) as world:
        known = Known(cache=EditingCache(edits))
        outcomes = [await look(world, specs, known) for _ in range(3)]

        assert [each.result for each in outcomes] == [Result.WAITING] * 3
        assert "still changing" in outcomes[0].reason
        assert await world.revisions() == []
        assert (await look(world, specs, known)).result is Result.LOADED
        assert await world.images() == {"api": "draft-4", "web": "i"}
        assert len(await world.revisions()) == 1


async def test_a_file_that_is_half_there_is_no_failure_yet(
    tmp_path: Path, database_url: str
) -> None:
    specs = write_specs(tmp_path, "api")
    whole = (specs / "api.yaml").read_text()
    (specs / "api.yaml").write_text(whole[:40])
    async with lead(database_url) as world:
        known = Known(cache=EditingCache([lambda: (specs / "api.yaml").write_text(whole)]))

        assert (await look(world, specs, known)).result is Result.WAITING
        assert (await look(world, specs, known)).result is Result.LOADED
        assert [each.applied for each in await world.revisions()] == [True]


async def test_head_must_stay_where_it_is(tmp_path: Path, database_url: str) -> None:
    specs = write_specs(tmp_path, "api")
    make_repository(tmp_path)
    async with lead(database_url) as world:
        known = Known(cache=EditingCache([lambda: None, lambda: commit(tmp_path)]))

        assert (await look(world, specs, known)).result is Result.WAITING
        assert (await look(world, specs, known)).result is Result.LOADED
        (revision,) = await world.revisions()
        assert revision.origin.commit == git(tmp_path, "rev-parse", "HEAD")
        assert not revision.origin.dirty


@pytest.mark.parametrize("worktree", [False, True])
async def test_nothing_is_read_while_git_holds_its_lock(
    tmp_path: Path, database_url: str, worktree: bool
) -> None:
    specs = write_specs(tmp_path / "repo", "api")
    make_repository(tmp_path / "repo")
    held = tmp_path / "repo" / ".git" / "index.lock"
    if worktree:
        git(tmp_path / "repo", "worktree", "add", "-q", str(tmp_path / "tree"))
        specs = tmp_path / "tree" / "specs"
        held = tmp_path / "repo" / ".git" / "worktrees" / "tree" / "index.lock"
    held.touch()
    async with lead(database_url) as world:
        watcher = world.watcher(specs)
        waiting = await watcher.tick()

        assert waiting.result is Result.WAITING
        assert str(held) in waiting.reason
        assert await world.revisions() == []
        held.unlink()
        assert (await watcher.tick()).result is Result.LOADED


async def test_a_ref_is_read_from_its_commit_alone(tmp_path: Path, database_url: str) -> None:
    specs = write_specs(tmp_path, "api")
    first = make_repository(tmp_path)
    async with lead(database_url) as world:
        watcher = world.watcher(specs, "main")
        _garbage(specs)
        (tmp_path / ".git" / "index.lock").touch()
        assert (await watcher.tick()).result is Result.LOADED
        assert (await watcher.tick()).result is Result.UNCHANGED
        (tmp_path / ".git" / "index.lock").unlink()

        edit(specs, "second")
        second = commit(tmp_path)
        assert (await watcher.tick()).result is Result.LOADED
        assert await world.images() == {"api": "second"}
        git(tmp_path, "reset", "-q", "--hard", first)
        assert (await watcher.tick()).result is Result.LOADED
        assert [each.origin.commit for each in await world.revisions()] == [first, second, first]


async def test_a_ref_that_breaks_or_goes_is_a_failure(tmp_path: Path, database_url: str) -> None:
    specs = write_specs(tmp_path, "api")
    make_repository(tmp_path)
    async with lead(database_url) as world:
        watcher = world.watcher(specs, "main")
        await watcher.tick()
        _garbage(specs)
        broken = commit(tmp_path)
        assert (await watcher.tick()).result is Result.FAILED
        git(tmp_path, "checkout", "-q", "-b", "other")
        git(tmp_path, "branch", "-q", "-D", "main")
        assert (await watcher.tick()).result is Result.FAILED

        _, unreadable, gone = await world.revisions()
        assert (unreadable.origin.commit, gone.origin.commit) == (broken, None)
        assert 'no commit "main"' in gone.problems[0]
        assert await world.images() == {"api": "i"}


async def test_a_swapped_link_is_followed(tmp_path: Path, database_url: str) -> None:
    """As git-sync does it: a new directory beside, then one rename."""
    write_specs(tmp_path / "rev-1", "api")
    edit(write_specs(tmp_path / "rev-2", "api"), "second")
    current = tmp_path / "current"
    current.symlink_to("rev-1")
    async with lead(database_url) as world:
        watcher = world.watcher(current / "specs")
        await watcher.tick()
        swap(current, "rev-2")

        assert (await watcher.tick()).result is Result.LOADED
        assert await world.images() == {"api": "second"}


def swap(link: Path, target: str) -> None:
    beside = link.with_name("beside")
    beside.symlink_to(target)
    beside.rename(link)


async def test_a_link_swapped_between_two_readings_is_not_mixed(
    tmp_path: Path, database_url: str
) -> None:
    for name, image in (("rev-1", "first"), ("rev-2", "second")):
        specs = write_specs(tmp_path / name, "api", "web")
        edit(specs, image)
        edit(specs, image, "web")
    current = tmp_path / "current"
    current.symlink_to("rev-1/specs")
    async with lead(database_url) as world:
        known = Known(cache=EditingCache([lambda: swap(current, "rev-2/specs")]))

        assert (await look(world, current, known)).result is Result.WAITING
        assert (await look(world, current, known)).result is Result.LOADED
        assert await world.images() == {"api": "second", "web": "second"}


async def test_a_rollback_or_an_apply_by_hand_stands(tmp_path: Path, database_url: str) -> None:
    specs = write_specs(tmp_path, "api")
    async with lead(database_url) as world:
        watcher = world.watcher(specs)
        await watcher.tick()
        for source in ("cli", "rollback"):
            await by_hand(world, specs, source, api=source)
            before = await snapshot(world)
            assert (await watcher.tick()).result is Result.UNCHANGED
            assert (await world.watcher(specs).tick()).result is Result.UNCHANGED
            assert await snapshot(world) == before

        edit(specs, "new-in-git")
        assert (await world.watcher(specs).tick()).result is Result.LOADED
        assert await world.images() == {"api": "new-in-git"}


async def test_a_short_outage_of_the_specs_does_not_undo_a_rollback(
    tmp_path: Path, database_url: str
) -> None:
    specs = write_specs(tmp_path, "api")
    async with lead(database_url) as world:
        watcher = world.watcher(specs)
        await watcher.tick()
        await by_hand(world, specs, "rollback", api="older")
        specs.rename(tmp_path / "away")
        assert (await watcher.tick()).result is Result.FAILED
        (tmp_path / "away").rename(specs)

        assert (await watcher.tick()).result is Result.UNCHANGED
        assert (await world.watcher(specs).tick()).result is Result.UNCHANGED
        assert await world.images() == {"api": "older"}


async def test_specs_that_came_by_hand_first_count_as_read(
    tmp_path: Path, database_url: str
) -> None:
    """Applied from a laptop, then found in git, then rolled back: a restart must not undo that."""
    specs = write_specs(tmp_path, "api")
    async with lead(database_url) as world:
        await by_hand(world, specs)
        assert (await world.watcher(specs).tick()).result is Result.UNCHANGED
        assert (await world.watcher(specs).tick()).result is Result.UNCHANGED
        assert [each.author for each in await world.revisions()] == ["alice", "watcher"]
        await by_hand(world, specs, "rollback", api="older")

        assert (await world.watcher(specs).tick()).result is Result.UNCHANGED
        assert await world.images() == {"api": "older"}


async def test_each_directory_has_its_own_memory(tmp_path: Path, database_url: str) -> None:
    one, two = write_specs(tmp_path / "one", "api"), write_specs(tmp_path / "two", "api")
    edit(two, "second")
    async with lead(database_url) as world:
        await world.watcher(one).tick()
        assert (await world.watcher(two).tick()).result is Result.LOADED
        assert (await world.watcher(one).tick()).result is Result.UNCHANGED
        assert await world.images() == {"api": "second"}


async def test_an_unsafe_plan_is_recorded_and_never_forced(
    tmp_path: Path, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    specs = write_specs(tmp_path, "web")
    write_workspace(specs, "api", "{owner: alice, image: i, protect: true}")
    async with lead(database_url) as world:
        watcher = world.watcher(specs)
        await watcher.tick()
        (specs / "api.yaml").unlink()

        assert (await watcher.tick()).result is Result.FAILED
        # That it has become safe meanwhile does not load it: a person has to look.
        async with world.pool.connection() as conn:
            await change(conn, "api", protect=False)
        assert (await watcher.tick()).result is Result.UNCHANGED
        assert (await world.watcher(specs).tick()).result is Result.UNCHANGED
        _, failed = await world.revisions()
        assert failed.problems == (f"{UNSAFE}api is protected in the hub and would be deleted",)
        assert set(await world.images()) == {"api", "web"}
        assert f"'codehub apply --force {specs}' does it" in caplog.text

        edit(specs, "second", "web")
        assert (await watcher.tick()).result is Result.LOADED
        assert await world.images() == {"web": "second"}


async def test_what_the_hub_refuses_is_tried_again(tmp_path: Path, database_url: str) -> None:
    specs = write_specs(tmp_path, "api")
    process = frozenset({Runtime.PROCESS})
    async with lead(database_url) as world:
        watcher = world.watcher(specs, enabled=process)
        for _ in range(3):
            assert (await watcher.tick()).result is Result.FAILED
        (refused,) = await world.revisions()
        assert "runtime docker is not enabled" in refused.problems[0]

        assert (await world.watcher(specs).tick()).result is Result.LOADED
        assert await world.images() == {"api": "i"}


async def test_what_the_hub_refused_does_not_come_back_over_other_specs(
    tmp_path: Path, database_url: str
) -> None:
    specs = write_specs(tmp_path, "api")
    async with lead(database_url) as world:
        await world.watcher(specs, enabled=frozenset({Runtime.PROCESS})).tick()
        await by_hand(world, specs, api="by-hand")

        assert (await world.watcher(specs).tick()).result is Result.UNCHANGED
        assert await world.images() == {"api": "by-hand"}


async def test_two_watchers_at_once_load_once(tmp_path: Path, database_url: str) -> None:
    specs = write_specs(tmp_path, *(f"ws-{number}" for number in range(20)))
    async with lead(database_url) as world:
        watchers = [world.watcher(specs) for _ in range(3)]
        outcomes = await asyncio.gather(*(each.tick() for each in watchers))

        assert sorted(each.result for each in outcomes) == ["loaded", "unchanged", "unchanged"]
        assert len(await world.revisions()) == 1
        _garbage(specs)
        (specs / "api.yaml").rename(specs / "ws-0.yaml")
        await asyncio.gather(*(each.tick() for each in watchers))
        assert [each.applied for each in await world.revisions()] == [True, False]


async def test_another_loader_is_waited_for_and_then_tried_again(
    tmp_path: Path, database_url: str
) -> None:
    specs = write_specs(tmp_path, "api")
    async with lead(database_url) as world:
        watcher = world.watcher(specs, apply_wait_seconds=0)
        async with world.pool.connection() as other, loader_lock(other, author="bob"):
            waiting = await watcher.tick()
        assert waiting.result is Result.WAITING
        assert "by bob" in waiting.reason
        assert (await watcher.tick()).result is Result.LOADED


@pytest.mark.parametrize("harm", [None, _garbage])
async def test_a_leader_that_was_replaced_writes_nothing(
    tmp_path: Path, database_url: str, harm: Callable[[Path], None] | None
) -> None:
    specs = write_specs(tmp_path, "api")
    if harm:
        harm(specs)
    async with lead(database_url) as world:
        async with world.pool.connection() as conn:
            newer = await take_epoch(conn, LOCK, "new")
        watcher = world.watcher(specs)
        for _ in range(2):
            with pytest.raises(FenceLost):
                await watcher.tick()
        assert await world.revisions() == []
        with pytest.raises(FenceLost):
            await watcher.run()

        await world.watcher(specs, fence=newer).tick()
        assert len(await world.revisions()) == 1


async def test_waiting_for_a_loader_does_not_hold_up_a_new_leader(
    tmp_path: Path, database_url: str
) -> None:
    specs = write_specs(tmp_path, "api")
    async with lead(database_url) as world:
        async with world.pool.connection() as other:
            async with loader_lock(other):
                looking = asyncio.create_task(world.watcher(specs).tick())
                await until_waiting(other)
                async with world.pool.connection() as successor:
                    await take_epoch(successor, LOCK, "new")
            with pytest.raises(FenceLost):
                await looking
        assert await world.revisions() == []


async def test_problems_without_end_are_cut(tmp_path: Path, database_url: str) -> None:
    specs = write_specs(tmp_path)
    for number in range(250):
        write_workspace(specs, f"ws-{number}", "{owner: nobody, image: i}")
    async with lead(database_url) as world:
        outcome: Any = await world.watcher(specs).tick()

        assert len(outcome.revision.problems) == 201
        assert "50 more" in outcome.revision.problems[-1]
