"""The PageRenderer, `codehub report` and `codehub render-pages`: a real database, real files."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from codehub.config import Settings
from codehub.coordinator.lead import Lead
from codehub.coordinator.pace import Failures
from codehub.coordinator.pages import PageRenderer
from codehub.errors import CodeHubError, FenceLost
from codehub.model.revision import Origin
from codehub.service.reporting import read_report, render_pages, write_pages
from codehub.store.connect import connect
from codehub.store.fence import take_epoch
from codehub.store.pool import Pool
from codehub.store.revisions import record_failed
from tests.integration.command_line import run_codehub
from tests.integration.phases import PATIENCE, running, until
from tests.integration.stored import apply, change, insert
from tests.make import declaration, spec_set

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

pytestmark = pytest.mark.anyio

NAMES = {
    *("index.html", "starting.html", "restoring.html", "stopped.html", "archived.html"),
    *("held.html", "limit.html", "error.html", "gone.html", "not-found.html", "unavailable.html"),
}


@dataclass
class World:
    conn: AsyncConnection[DictRow]
    renderer: PageRenderer
    directory: Path
    failures: Failures = field(default_factory=Failures)

    @property
    def index(self) -> str:
        return (self.directory / "index.html").read_text()

    @property
    def files(self) -> dict[str, int]:
        """The number of each file's inode: another one is another file."""
        return {path.name: path.stat().st_ino for path in self.directory.iterdir()}


@asynccontextmanager
async def leading(url: str, directory: Path, **settings: Any) -> AsyncIterator[World]:
    async with Pool(url) as pool, await connect(url) as conn:
        lead = Lead(UUID(int=0), await take_epoch(conn, "coordinator", "test"), pool)
        failures = Failures()
        renderer = PageRenderer(lead, directory, Settings(**settings), failures)
        yield World(conn, renderer, directory, failures)


async def test_all_pages_are_written_where_nothing_was(database_url: str, tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "pages"
    async with leading(database_url, directory) as world:
        await insert(world.conn, running("api"))
        await world.renderer.tick()
    assert {path.name for path in directory.iterdir()} == NAMES
    assert '<th role="rowheader" scope="row"><span>api</span></th>' in world.index
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o644}


async def test_names_lead_to_the_hub_where_its_address_is_known(
    database_url: str, tmp_path: Path
) -> None:
    site = "https://hub.example.com"
    async with leading(database_url, tmp_path, proxy_public_url=site) as world:
        await insert(world.conn, running("api"))
        await world.renderer.tick()
    assert f'<a href="{site}/workspaces/api">api</a>' in world.index
    assert "/w/" not in world.index


async def test_only_what_changed_is_replaced(database_url: str, tmp_path: Path) -> None:
    async with leading(database_url, tmp_path) as world:
        await world.renderer.tick()
        before = world.files
        # Kept open: a file whose inode lives on cannot lend its number to a new one.
        with (tmp_path / "index.html").open():
            await insert(world.conn, running("api"))
            await world.renderer.tick()
            after = world.files
    assert {name for name in NAMES if before[name] != after[name]} == {"index.html"}


async def test_the_page_follows_what_happens(database_url: str, tmp_path: Path) -> None:
    async with leading(database_url, tmp_path) as world:
        await insert(world.conn, running("api"))
        await world.renderer.tick()
        assert "The last load failed" not in world.index
        await change(world.conn, "api", phase="ERROR", error_reason="DataLost", error_message="oh")
        await record_failed(
            world.conn,
            digest="x",
            origin=Origin("specs"),
            problems=["specs/a.yaml:1:1: not YAML"],
            author="watcher",
            source="watcher",
        )
        await world.renderer.tick()
        assert "The last load failed" in world.index
        assert "specs/a.yaml:1:1: not YAML" in world.index
        assert "codehub recover api --accept-empty" in world.index


async def test_a_directory_that_cannot_be_written_is_one_noted_failure(
    database_url: str, tmp_path: Path
) -> None:
    (tmp_path / "pages").write_text("a file in the way")
    async with leading(database_url, tmp_path / "pages") as world:
        await world.renderer.tick()
        assert world.failures.counts == {"pages": 1}
    assert (tmp_path / "pages").read_text() == "a file in the way"


def test_a_full_disk_keeps_the_last_good_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pages(tmp_path, {"index.html": "good"})

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.chmod", full)
    with pytest.raises(CodeHubError, match="No space left on device"):
        write_pages(tmp_path, {"index.html": "new"})
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    assert (tmp_path / "index.html").read_text() == "good"


def test_drafts_of_a_killed_renderer_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".index.html.dead.tmp").write_text("half a pa")
    assert write_pages(tmp_path, {"index.html": "whole"}) == ("index.html",)
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    assert write_pages(tmp_path, {"index.html": "whole"}) == ()


async def test_a_leader_that_was_replaced_writes_no_page(database_url: str, tmp_path: Path) -> None:
    async with leading(database_url, tmp_path) as world:
        await world.renderer.tick()
        before = world.index
        await insert(world.conn, running("api"))
        await take_epoch(world.conn, "coordinator", "another")
        with pytest.raises(FenceLost):
            await world.renderer.tick()
        with pytest.raises(FenceLost):
            async with asyncio.timeout(PATIENCE):
                await world.renderer.run()
        assert world.index == before


async def test_a_nudge_brings_the_next_page(database_url: str, tmp_path: Path) -> None:
    async with leading(database_url, tmp_path, coordinator_page_interval=0.01) as world:
        task = asyncio.create_task(world.renderer.run())
        async with asyncio.timeout(PATIENCE):
            await until((tmp_path / "index.html").exists)
            await insert(world.conn, running("api"))
            world.renderer.nudge.set()
            await until(lambda: ">api</span>" in world.index)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_rendering_goes_on_after_a_failure(database_url: str, tmp_path: Path) -> None:
    async with leading(database_url, tmp_path, coordinator_page_interval=0.01) as world:
        await world.conn.execute("ALTER TABLE workspaces RENAME TO away")
        task = asyncio.create_task(world.renderer.run())
        async with asyncio.timeout(PATIENCE):
            await until(lambda: world.failures.counts["pages"])
            await world.conn.execute("ALTER TABLE away RENAME TO workspaces")
            world.renderer.nudge.set()
            await until((tmp_path / "index.html").exists)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_report_is_of_one_moment_by_the_databases_clock(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, running("api"))
        report = await read_report(conn, Settings(ttl_standby_seconds=1234))
        row = await (await conn.execute("SELECT now() AS now")).fetchone() or {}
        assert report.generated_at <= row["now"]
        assert set(render_pages(report, None)) == NAMES


# The commands


async def fill(url: str) -> None:
    async with await connect(url) as conn:
        await apply(conn, spec_set(declaration("api"), declaration("web")))


@pytest.fixture
def hub(database_url: str) -> str:
    asyncio.run(fill(database_url))
    return database_url


def test_report_on_the_command_line(hub: str, tmp_path: Path) -> None:
    shown = run_codehub("report", "--hub", hub, cwd=tmp_path)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("# CodeHub: 0 running of 2 workspaces\n")
    data = json.loads(run_codehub("report", "--hub", hub, "--format", "json", cwd=tmp_path).out)
    assert [each["name"] for each in data["workspaces"]] == ["api", "web"]
    assert data["phases"]["PENDING"] == 2


def test_report_takes_the_format_from_the_files_name(hub: str, tmp_path: Path) -> None:
    done = run_codehub("report", "--hub", hub, "--out", "report.html", cwd=tmp_path)
    assert (done.code, done.out) == (0, "")
    assert "report written to report.html" in done.err
    text = (tmp_path / "report.html").read_text()
    assert text.startswith("<!doctype html>")
    assert 'http-equiv="refresh"' not in text
    assert "<span>api</span>" in text
    assert '<a href="/' not in text, "from a disk it leads nowhere"


@pytest.mark.parametrize(
    ("words", "file"),
    [(("report", "--out", "a.html"), "a.html"), (("render-pages", "o"), "o/index.html")],
)
def test_names_in_files_lead_to_the_hub(
    hub: str, tmp_path: Path, words: tuple[str, ...], file: str
) -> None:
    site = {"PROXY_PUBLIC_URL": "https://hub.example.com"}
    assert run_codehub(*words, "--hub", hub, cwd=tmp_path, env=site).code == 0
    assert (
        '<a href="https://hub.example.com/workspaces/api">api</a>' in (tmp_path / file).read_text()
    )


def test_render_pages_on_the_command_line(hub: str, tmp_path: Path) -> None:
    first = run_codehub("render-pages", "out", "--hub", hub, cwd=tmp_path)
    assert first.out == "11 pages in out, 11 of them changed\n"
    assert {path.name for path in (tmp_path / "out").iterdir()} == NAMES
    second = run_codehub("render-pages", "out", "--hub", hub, cwd=tmp_path)
    assert second.out == "11 pages in out, 1 of them changed\n"


def test_pages_that_cannot_be_written_are_told_in_one_sentence(hub: str, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("in the way")
    done = run_codehub("render-pages", "out", "--hub", hub, cwd=tmp_path)
    assert done.code == 1
    assert "the pages in out cannot be written" in done.err
    assert "Traceback" not in done.err


def test_a_report_of_no_hub_says_how_to_make_one(tmp_path: Path) -> None:
    done = run_codehub("report", cwd=tmp_path)
    assert done.code == 1
    assert "codehub apply" in done.err
