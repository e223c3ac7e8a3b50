"""An import that ends in the middle: nothing is half done, and another one completes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codehub.adapters.localstore import LocalStore
from codehub.errors import CodeHubError, Unreachable
from codehub.service import importing
from codehub.specs import drafts
from codehub.specs.load import load_directory
from codehub.store.hubs import read_hub_id
from tests.integration.faults import FaultyStore
from tests.integration.lost_hub import HUB, LostHub, a_connection, a_directory  # noqa: F401
from tests.integration.stored import count, live

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.ports import ObjectStore

    Conn = AsyncConnection[DictRow]

pytestmark = pytest.mark.anyio

WORKSPACES = 3


@pytest.fixture
def lost(tmp_path: Path) -> LostHub:
    """A hub whose store lost its mark too, so that an import has most to do there."""
    store = LocalStore(tmp_path / "archives")
    store.claim()
    found = LostHub(store)
    for number in range(1, WORKSPACES + 1):
        found.archive(number, hours=number)
    return found


def specs(directory: Path) -> list[str]:
    """What is there, whole or not, hidden or not."""
    return sorted(path.name for path in directory.rglob("*") if path.is_file())


async def whole(lost: LostHub, conn: Conn, directory: Path) -> None:
    """All of it is there, once."""
    assert await read_hub_id(conn) == HUB
    assert await count(conn, "workspaces") == WORKSPACES
    assert await count(conn, "workspace_events") == WORKSPACES
    assert specs(directory) == ["alice.yaml", "ws1.yaml", "ws2.yaml", "ws3.yaml"]
    assert load_directory(directory).workspaces.keys() == {"ws1", "ws2", "ws3"}
    assert {key for key in lost.objects() if "home.tar" not in key} == {
        f"{HUB}/marker.json",
        f"{HUB}/epochs/1",
    }


class Killed(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


class Dying(LostHub):
    """Reads as it should, and dies at the n-th call that the writing part makes to the store."""

    def __init__(self, lost: LostHub, at: int, *, after: bool) -> None:
        super().__init__(lost.store)
        self.calls = 0
        self._at = at
        self._sound = lost.store
        hook = {"after" if after else "before": self._die}
        self._faulty: ObjectStore = FaultyStore(lost.store, **hook)  # type: ignore[arg-type]

    def _die(self, call: str) -> None:
        self.calls += 1
        if self.calls == self._at + 1:
            raise Killed(call)

    async def run(self, conn: Conn, directory: Path) -> None:
        salvage = self.salvage()
        self.store = self._faulty
        self.salvage = lambda hub_id=None: salvage  # type: ignore[method-assign]
        await self.imported(conn, directory)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_at_any_call_to_the_store(
    lost: LostHub, conn: Conn, recovered: Path, after: bool
) -> None:
    """The store is first, so until it is done there are neither rows nor specs."""
    for at in range(30):
        dying = Dying(lost, at, after=after)
        try:
            await dying.run(conn, recovered)
        except Killed:
            assert await count(conn, "workspaces") == 0
            assert await read_hub_id(conn) is None
            assert specs(recovered) == []
            forget_marks(lost)
        else:
            assert at > 5, "it asked the store for hardly anything"
            break
    else:
        raise AssertionError("it never came to an end")
    await whole(lost, conn, recovered)


def forget_marks(lost: LostHub) -> None:
    for key in lost.objects():
        if "home.tar" not in key:
            lost.store.delete(key)


async def test_killed_and_repeated_without_cleaning_up(
    lost: LostHub, conn: Conn, recovered: Path
) -> None:
    """Each import finds what the one before it left in the store."""
    for at in range(8):
        with pytest.raises(Killed):
            await Dying(lost, at // 2, after=bool(at % 2)).run(conn, recovered)
    await lost.imported(conn, recovered)
    await whole(lost, conn, recovered)


@pytest.mark.parametrize("step", ["keep_leaders_out", "adopt_hub", "insert_workspaces"])
async def test_killed_after_any_step_in_the_database(
    lost: LostHub,
    conn: Conn,
    recovered: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(importing, step, _fatal(getattr(importing, step)))
        with pytest.raises(Unreachable):
            await lost.imported(conn, recovered)
    assert await count(conn, "workspaces") == await count(conn, "users") == 0
    assert await read_hub_id(conn) is None
    assert specs(recovered) == []
    await lost.imported(conn, recovered)
    await whole(lost, conn, recovered)


def _fatal(step: Callable[..., object]) -> Callable[..., object]:
    """Does its work, and then the connection is gone."""

    async def act(*arguments: object) -> None:
        await step(*arguments)  # type: ignore[misc]
        raise Unreachable("the connection to the database was lost")

    return act


@pytest.mark.parametrize("at", range(WORKSPACES + 1))
async def test_a_disk_that_is_full_leaves_whole_specs_and_the_rest_comes_later(
    lost: LostHub, conn: Conn, recovered: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """The rows are there by then; which specs are missing is seen by what is there."""
    written: list[Path] = []
    write = drafts._write_new

    def write_new(path: Path, text: str) -> None:
        if len(written) == at:
            raise OSError(28, "No space left on device")
        written.append(path)
        write(path, text)

    with monkeypatch.context() as patched:
        patched.setattr(drafts, "_write_new", write_new)
        with pytest.raises(CodeHubError, match="no space left"):
            await lost.imported(conn, recovered)
    assert await count(conn, "workspaces") == WORKSPACES
    assert specs(recovered) == sorted(path.name for path in written)
    assert (await lost.imported(conn, recovered)).present == WORKSPACES
    await whole(lost, conn, recovered)


async def test_killed_while_a_spec_is_written(
    lost: LostHub, conn: Conn, recovered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left has a name that no reader of specs looks at."""

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.hardlink_to", die)
        patched.setattr("pathlib.Path.unlink", lambda *_, **__: None)
        with pytest.raises(Killed):
            await lost.imported(conn, recovered)
    (half,) = specs(recovered)
    assert half.startswith(".ws1.yaml.")
    await lost.imported(conn, recovered)
    assert load_directory(recovered).workspaces.keys() == {"ws1", "ws2", "ws3"}


async def test_importing_twice_changes_nothing_the_second_time(
    lost: LostHub, conn: Conn, recovered: Path
) -> None:
    await lost.imported(conn, recovered)
    before = await live(conn, "ws1"), lost.objects(), specs(recovered)
    plan = await lost.imported(conn, recovered)
    assert (plan.homes, plan.present) == ((), WORKSPACES)
    assert (await live(conn, "ws1"), lost.objects(), specs(recovered)) == before
    await whole(lost, conn, recovered)
