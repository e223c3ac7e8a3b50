"""When the watcher looks: file events, roots made anew, swapped links, and the poll alone.

The poll is an hour away unless a test is about it, so whatever is loaded was brought by events.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from codehub.service.loading import Result
from codehub.specs import watch
from tests.integration.spec_files import write_specs, write_workspace
from tests.integration.watching import PATIENCE, lead, make_repository, until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import Path

    from tests.integration.watching import NotedWatcher

pytestmark = pytest.mark.anyio

AN_HOUR = 3600


def edit(specs: Path, image: str, name: str = "api") -> None:
    """A file is never seen half written: written elsewhere and renamed."""
    beside = specs / ".beside"
    beside.mkdir(exist_ok=True)
    written = write_workspace(beside, name, f"{{owner: alice, image: {image}}}")
    written.rename(specs / written.name)


@asynccontextmanager
async def running(watcher: NotedWatcher) -> AsyncIterator[NotedWatcher]:
    task = asyncio.create_task(watcher.run())
    try:
        yield watcher
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def listening(root: Path, poll: float = AN_HOUR) -> AsyncIterator[AsyncGenerator[None, None]]:
    """Hints from a root, from the moment on at which every event counts."""
    async with aclosing(watch.changes(root, poll=poll)) as hints:
        await hinted(hints)
        await hinted(hints)
        yield hints


async def hinted(hints: AsyncGenerator[None, None]) -> None:
    async with asyncio.timeout(PATIENCE):
        await anext(hints)


def results(watcher: NotedWatcher) -> list[Result]:
    return [each.result for each in watcher.seen]


def listeners() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "codehub-specs"]


async def test_a_running_watcher_follows_the_files(tmp_path: Path, database_url: str) -> None:
    specs = write_specs(tmp_path, "api")
    async with lead(database_url) as world:
        async with running(world.watcher(specs)):
            await world.until_images({"api": "i"})
            edit(specs, "second")
            await world.until_images({"api": "second"})
            (specs / "deep" / "deeper").mkdir(parents=True)
            edit(specs / "deep" / "deeper", "new", "web")
            await world.until_images({"api": "second", "web": "new"})
            (specs / "deep" / "deeper" / "web.yaml").unlink()
            await world.until_images({"api": "second"})
        assert listeners() == []
        assert not world.failures.counts


async def test_a_root_that_is_removed_and_made_anew_is_watched_again(
    tmp_path: Path, database_url: str
) -> None:
    specs = write_specs(tmp_path, "api")
    async with lead(database_url) as world, running(world.watcher(specs)) as watcher:
        await world.until_images({"api": "i"})
        for image in ("second", "third"):
            watcher.seen.clear()
            shutil.rmtree(specs)
            await until(lambda: Result.FAILED in results(watcher))
            assert "api" in await world.images()
            edit(write_specs(tmp_path), image)
            await world.until_images({"api": image})
            edit(specs, f"{image}-edited")
            await world.until_images({"api": f"{image}-edited"})


async def test_a_root_that_comes_later_is_found(tmp_path: Path, database_url: str) -> None:
    """Not even the directories above it are there at first."""
    root = tmp_path / "a" / "b" / "specs"
    async with lead(database_url) as world, running(world.watcher(root)) as watcher:
        await until(lambda: Result.FAILED in results(watcher))
        write_specs(tmp_path / "a" / "b", "api")
        await world.until_images({"api": "i"})


async def test_a_swapped_link_is_noticed(tmp_path: Path, database_url: str) -> None:
    """The link is above the root, as git-sync has it; nothing in either directory changes."""
    for number in (1, 2, 3):
        edit(write_specs(tmp_path / f"rev-{number}"), f"v{number}")
    current = tmp_path / "current"
    current.symlink_to("rev-1")
    async with lead(database_url) as world, running(world.watcher(current / "specs")):
        await world.until_images({"api": "v1"})
        for number in (2, 3):
            (tmp_path / "beside").symlink_to(f"rev-{number}")
            (tmp_path / "beside").rename(current)
            await world.until_images({"api": f"v{number}"})
        edit(tmp_path / "rev-3" / "specs", "edited")
        await world.until_images({"api": "edited"})


async def test_a_config_map_is_noticed(tmp_path: Path, database_url: str) -> None:
    """Kubernetes swaps a hidden link inside the root, through which all files are seen."""
    specs = tmp_path / "mounted"
    for name, image in (("..one", "v1"), ("..two", "v2")):
        edit(write_specs(specs / name), image)
    (specs / "..data").symlink_to("..one/specs")
    for file in ("people.yaml", "api.yaml"):
        (specs / file).symlink_to(f"..data/{file}")
    async with lead(database_url) as world, running(world.watcher(specs)):
        await world.until_images({"api": "v1"})
        (specs / "..beside").symlink_to("..two/specs")
        (specs / "..beside").rename(specs / "..data")
        await world.until_images({"api": "v2"})


async def test_where_no_events_come_the_poll_finds_everything(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no inotify here")

    monkeypatch.setattr(watch, "watch", refuse)
    specs = write_specs(tmp_path, "api")
    async with lead(database_url) as world:
        watcher = world.watcher(specs, coordinator_watch_interval=0.05)
        async with running(watcher):
            await world.until_images({"api": "i"})
            edit(specs, "second")
            await world.until_images({"api": "second"})
            specs.rename(tmp_path / "away")
            edit(write_specs(tmp_path), "third")
            await world.until_images({"api": "third"})


async def test_it_goes_on_by_itself_once_git_is_done(tmp_path: Path, database_url: str) -> None:
    """The lock lies outside the root, and its end gives no event."""
    specs = write_specs(tmp_path, "api")
    make_repository(tmp_path)
    lock = tmp_path / ".git" / "index.lock"
    lock.touch()
    async with lead(database_url) as world, running(world.watcher(specs)) as watcher:
        await until(lambda: results(watcher).count(Result.WAITING) > 3)
        assert await world.images() == {}
        lock.unlink()
        await world.until_images({"api": "i"})


async def test_many_edits_end_in_the_last_one(tmp_path: Path, database_url: str) -> None:
    specs = write_specs(tmp_path, "api", "web")
    async with lead(database_url) as world:
        async with running(world.watcher(specs, coordinator_watch_quiet=0.01)):
            for number in range(200):
                edit(specs, f"v{number}")
                edit(specs, f"v{number}", "web")
                await asyncio.sleep(0)
            await world.until_images({"api": "v199", "web": "v199"})
        assert all(each.applied for each in await world.revisions())


async def test_a_failed_look_is_counted_and_the_next_one_comes(
    tmp_path: Path, database_url: str
) -> None:
    specs = write_specs(tmp_path, "api")
    async with lead(database_url) as world, world.pool.connection() as conn:
        await conn.execute("ALTER TABLE spec_revisions RENAME TO hidden_away")
        async with running(world.watcher(specs)):
            await until(lambda: world.failures.counts["specs"] > 0)
            await conn.execute("ALTER TABLE hidden_away RENAME TO spec_revisions")
            edit(specs, "second")
            await world.until_images({"api": "second"})


async def test_every_kind_of_change_is_a_hint(tmp_path: Path) -> None:
    specs = write_specs(tmp_path, "api", "web")
    async with listening(specs) as hints:
        edit(specs, "second")
        await hinted(hints)
        (specs / "api.yaml").rename(specs / "moved.yaml")
        await hinted(hints)
        (specs / "web.yaml").unlink()
        await hinted(hints)
        shutil.rmtree(specs)
        await hinted(hints)
    assert listeners() == []


async def test_without_events_every_poll_is_a_hint(tmp_path: Path) -> None:
    async with listening(tmp_path / "missing", poll=0.01) as hints:
        for _ in range(3):
            await hinted(hints)


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("api.yaml", True),
        ("deep/api.yaml", True),
        ("..data", True),
        (".hidden", True),
        (".git/index", False),
        ("deep/.git/refs/heads/main", False),
        ("..one/api.yaml", False),
    ],
)
def test_what_happens_in_hidden_directories_is_no_hint(path: str, counts: bool) -> None:
    assert watch._shown_below("/srv/specs")(f"/srv/specs/{path}") is counts
    assert watch._shown_below("/")(f"/{path}") is counts
