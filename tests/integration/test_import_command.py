"""`codehub import` as a person meets it: what it says, where, and its exit codes."""

from __future__ import annotations

import asyncio
import re
import subprocess
import tarfile
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import psycopg
import pytest

from codehub.adapters.docker.labels import HUB as LABEL
from codehub.adapters.localstore import LocalStore
from codehub.adapters.process import ProcessRuntime
from codehub.cli.main import run
from codehub.core.keys import meta_key
from codehub.model.runtime import VolumeRef
from codehub.wiring import WORKSPACES
from tests.contract.docker_world import provide_bench, provide_docker_world  # noqa: F401
from tests.contract.store_contract import put
from tests.integration.command_line import OURS, run_codehub
from tests.integration.lost_hub import HUB, LostHub

if TYPE_CHECKING:
    from pathlib import Path

    from tests.contract.docker_world import DockerWorld

ALL = ("import", "--from-bucket", "recovered")


@pytest.fixture
def lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LostHub:
    """The archives that the settings of this process lead to; there is no database yet."""
    store = LocalStore(tmp_path / "archives")
    store.claim()
    for name in OURS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ARCHIVE_STORE_URL", (tmp_path / "archives").as_uri())
    monkeypatch.chdir(tmp_path)
    return LostHub(store)


@pytest.fixture
def database(database_url: str, lost: LostHub, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DATABASE_URL", database_url)
    return database_url


def rows(url: str) -> list[tuple[str, str, str]]:
    with psycopg.connect(url) as conn:
        query = "SELECT name, phase, instance_backend FROM workspaces ORDER BY name"
        return conn.execute(query).fetchall()


def test_all_is_well(
    lost: LostHub, database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The specs it leaves are valid, in canonical order, and can be planned."""
    lost.mark(epoch=2)
    lost.archive(1, workspace_name="api")
    lost.archive(2, workspace_name="42", owner="bob")
    assert run(ALL) == 0
    said = capsys.readouterr()
    assert "2 workspaces imported, 4 specs written below recovered" in said.out
    assert "codehub gc --confirm-restored" in said.out
    assert rows(database) == [
        ("42", "ARCHIVED", "local-docker"),
        ("api", "ARCHIVED", "local-docker"),
    ]
    assert run(["validate", "recovered"]) == 0
    assert run(["fmt", "--check", "recovered"]) == 0
    assert run(["plan", "recovered"]) == 0
    planned = capsys.readouterr().out
    assert "0 to delete" in planned
    assert "2 to update" in planned
    assert run(ALL) == 0
    assert "2 workspaces known already" in capsys.readouterr().out


def test_a_dry_run_makes_no_hub(
    lost: LostHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost.archive(1, workspace_name="api")
    assert run([*ALL, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "1 workspace would be imported, 2 specs would be written below recovered" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archives"]


def test_what_could_not_be_brought_back_shows_in_the_exit_code(
    lost: LostHub, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lost.archive(1, workspace_name="api", hours=9)
    lost.archive(2, workspace_name="api", hours=1)
    damaged = lost.describe(3, 10, b"x")
    put(lost.store, meta_key(damaged.key), b"{}")
    assert run(ALL) == 1
    said = capsys.readouterr().out
    assert f"--as {UUID(int=1)}=NEW-NAME" in said
    assert damaged.key in said
    assert [row[0] for row in rows(database)] == ["api"]
    lost.store.delete(meta_key(damaged.key))
    assert run([*ALL, "--as", f"{UUID(int=1)}=older"]) == 0
    assert [row[0] for row in rows(database)] == ["api", "older"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["import", "recovered"], "say what to import from"),
        ([*ALL, "--hub-id", "x"], '--hub-id: "x" is not an id'),
        ([*ALL, "--as", "api"], "is not ID=NAME"),
        ([*ALL, "--as", "x=api"], '--as: "x" is not an id'),
        ([*ALL, "--as", f"{UUID(int=1)}=a", "--as", f"{UUID(int=1)}=b"], "named twice"),
        ([*ALL, "--as", f"{UUID(int=9)}=a"], "no usable archive"),
        ([*ALL, "--runtime", "vm"], "--runtime"),
        ([*ALL, "--hub", "mysql://x"], "postgresql://"),
    ],
)
def test_a_wrong_command_line(
    lost: LostHub,
    database: str,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    lost.archive(1)
    assert run(words) == 64
    assert said in capsys.readouterr().err
    assert rows(database) == []


def test_of_several_hubs_the_ids_are_told(
    lost: LostHub, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = LostHub(lost.store, UUID(int=0xB))
    lost.archive(1)
    other.archive(1)
    assert run(ALL) == 64
    said = capsys.readouterr().err
    assert str(HUB) in said
    assert str(other.hub_id) in said
    assert "--hub-id" in said
    assert run([*ALL, "--hub-id", str(other.hub_id)]) == 0
    assert str(other.hub_id) in capsys.readouterr().out


def test_what_stands_in_the_way_is_one_sentence(
    lost: LostHub, database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost.archive(1)
    (tmp_path / "recovered").write_text("a file")
    assert run(ALL) == 1
    assert "recovered is a file, not a directory" in capsys.readouterr().err
    (tmp_path / "recovered").unlink()
    (tmp_path / "archives" / ".codehub-store").rename(tmp_path / "away")
    assert run(ALL) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("codehub: ")
    assert "Traceback" not in said.err
    assert rows(database) == []


@pytest.mark.parametrize(
    ("setting", "words", "backend"),
    [
        ("process", [], "process"),
        ("docker,process", [], "local-docker"),
        ("docker,process", ["--runtime", "process"], "process"),
    ],
)
def test_the_runtime_is_that_of_the_hub(
    lost: LostHub,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    words: list[str],
    backend: str,
) -> None:
    monkeypatch.setenv("RUNTIME_ENABLED", setting)
    lost.archive(1)
    assert run([*ALL, *words]) == 0
    assert rows(database) == [("ws1", "ARCHIVED", backend)]
    assert run(["plan", "recovered"]) == 0


def test_an_embedded_hub_is_made_anew(lost: LostHub, open_path: Path) -> None:
    """As after somebody removed the database below the data directory."""
    lost.archive(1, workspace_name="api")
    settings = {"CODEHUB_DATA": str(open_path / "data")}
    ran = run_codehub(*ALL, cwd=open_path, env=settings)
    assert ran.code == 0, ran
    looked = run_codehub("status", cwd=open_path, env=settings)
    assert "ARCHIVED" in looked.out
    assert "runtime: process" in (open_path / "recovered" / "workspaces" / "api.yaml").read_text()


def stray_home(data: Path, hub_id: UUID, ref: VolumeRef) -> None:
    """A home below the data root of a hub, with something in it."""

    async def make() -> None:
        runtime = ProcessRuntime(data / WORKSPACES, str(hub_id))
        await runtime.claim()
        await runtime.create_volume(ref)
        path = await runtime.volume_path(ref)
        assert path is not None
        (path / "unsaved").write_text("precious")

    asyncio.run(make())


def test_a_home_that_was_never_archived_is_told_with_a_way_to_copy_it(
    lost: LostHub,
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Twice: applying gives the workspace of that name another id, so it stays as it is."""
    monkeypatch.setenv("RUNTIME_ENABLED", "process")
    monkeypatch.setenv("CODEHUB_DATA", str(tmp_path / "a data"))
    lost.archive(1, workspace_name="api")
    imported, forsaken = VolumeRef(UUID(int=1), 2), VolumeRef(UUID(int=7), 1)
    for each in (imported, forsaken):
        stray_home(tmp_path / "a data", HUB, each)
    for words in ([*ALL, "--dry-run"], ALL, ALL):
        assert run(words) == 0
        said = capsys.readouterr().out
        assert f"unknown ({UUID(int=7)}), on process" in said
        assert imported.name not in said
    (copying,) = [line for line in said.splitlines() if "tar -C" in line]
    subprocess.run(["sh", "-c", copying], cwd=tmp_path, check=True, timeout=60)
    with tarfile.open(tmp_path / f"{forsaken.name}.tar") as copied:
        assert "./unsaved" in copied.getnames()


def test_a_runtime_that_cannot_be_asked_is_told(
    lost: LostHub,
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The workspaces with an archive come back all the same."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    lost.archive(1)
    assert run(ALL) == 0
    said = capsys.readouterr().out
    assert "Homes on docker could not be looked for: there is no Docker engine" in said
    assert f"docker volume ls --filter label={LABEL}={HUB}" in said
    assert len(rows(database)) == 1


def test_a_hub_that_ran_on_docker_is_known_by_the_engines_mark(
    lost: LostHub, open_path: Path, docker_world: DockerWorld
) -> None:
    """Of an embedded hub nothing else tells; and its homes are told by their names."""
    hub_id = UUID(docker_world.hub_id)
    LostHub(lost.store, hub_id).archive(1, workspace_name="api")
    forsaken = VolumeRef(uuid4(), 1, "sketches")
    asyncio.run(docker_world.open().create_volume(forsaken))
    settings = {"CODEHUB_DATA": str(open_path / "data")}
    ran = run_codehub(*ALL, cwd=open_path, env=settings)
    assert ran.code == 0, ran
    assert "runtime: docker" in (open_path / "recovered" / "workspaces" / "api.yaml").read_text()
    assert f"sketches ({forsaken.workspace_id}), on docker" in ran.out
    (place,) = re.findall(r'tar -C "\$\((.*)\)" -cf', ran.out)
    found = subprocess.run(["sh", "-c", place], capture_output=True, text=True, timeout=60)
    assert found.stdout.strip() == str(docker_world.home(forsaken))


def test_help_is_quick_and_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["import", "--help"]) == 0
    assert "Example: codehub import --from-bucket" in capsys.readouterr().out
