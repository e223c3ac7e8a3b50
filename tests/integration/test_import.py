"""Bringing a hub back from its archives: what comes back, what does not, and what is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from codehub.core.admit import admit
from codehub.core.keys import marker_key, meta_key
from codehub.core.rebuild import declaration_of
from codehub.errors import ActionFailed, NotFound, Unreachable, UsageError
from codehub.model.states import DesiredState, Phase
from codehub.model.workspace import Runtime
from codehub.service.importing import EVERY, list_archives, read_salvage
from codehub.specs.load import load_directory
from codehub.store import rebuild as stored
from codehub.store.events import events
from codehub.store.hubs import read_hub_id, read_hub_state
from tests.contract.store_contract import put
from tests.integration.faults import FaultyStore
from tests.integration.lost_hub import (  # noqa: F401
    HUB,
    LostHub,
    a_connection,
    a_directory,
    a_lost_hub,
    names,
    nothing_happened,
)
from tests.integration.stored import apply, count, live

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.lost_hub import Conn

pytestmark = pytest.mark.anyio


# What comes back


async def test_a_workspace_comes_back_with_all_that_its_archive_tells(
    lost: LostHub, conn: Conn, recovered: Path
) -> None:
    lost.mark(epoch=3)
    lost.archive(1, 10, hours=9, generation=4)
    newest = lost.archive(1, 11, hours=1, generation=5, content=b"newest", owner="bob")
    plan = await lost.imported(conn, recovered)
    assert plan.complete
    assert await read_hub_id(conn) == HUB
    row = await live(conn, "ws1")
    assert (row.id, row.declaration.owner) == (UUID(int=1), "bob")
    assert (row.status.phase, row.intent.desired) == (Phase.ARCHIVED, DesiredState.ARCHIVED)
    status = row.status
    assert (status.archive_key, status.archive_bytes) == (newest.key, len(b"newest"))
    assert status.archive_sha256 == newest.sha256
    assert (status.home_generation, status.home_store_key, status.op_id) == (5, None, None)
    (told,) = await events(conn, "ws1")
    assert (told.new, told.reason) == ("ARCHIVED", f"imported from the archive {newest.key}")


async def test_the_written_specs_declare_what_was_imported(
    lost: LostHub, conn: Conn, recovered: Path
) -> None:
    """So applying them keeps every workspace, moves none of them, and prunes none."""
    for number, name in enumerate(("api", "no", "123", "1e3", "0x1f", "null", "a-b"), 1):
        lost.archive(number, workspace_name=name, owner="on" if number % 2 else "alice")
    plan = await lost.imported(conn, recovered, runtime=Runtime.DOCKER)
    specs = load_directory(recovered)
    assert specs.users.keys() == {"on", "alice"}
    for home in plan.homes:
        declared = specs.workspaces[home.name]
        assert declared == declaration_of(home, declared.source)
        row = await live(conn, home.name)
        assert (row.declaration, row.orphaned) == (declared, True)
    admissions = admit(await read_hub_state(conn), specs)
    assert {(each.action, each.changed, each.desired) for each in admissions} == {
        ("update", False, None)
    }
    await apply(conn, specs)
    row = await live(conn, "api")
    assert (row.orphaned, row.intent.desired, row.generation) == (False, DesiredState.ARCHIVED, 1)


@pytest.mark.parametrize("runtime", [Runtime.PROCESS, Runtime.DOCKER])
async def test_a_spec_says_what_is_to_be_filled_in(
    lost: LostHub, conn: Conn, recovered: Path, runtime: Runtime
) -> None:
    lost.archive(1, workspace_name="api")
    await lost.imported(conn, recovered, runtime=runtime)
    text = (recovered / "workspaces" / "api.yaml").read_text()
    gap = "image: fill-in" if runtime is Runtime.DOCKER else "command: [fill-in"
    assert gap in text
    assert "Fill in its" in text
    row = await live(conn, "api")
    lines = text.splitlines()
    assert lines[row.declaration.source.line - 1].startswith("apiVersion")


async def test_nothing_but_the_count_is_written_to_the_store(
    lost: LostHub, conn: Conn, recovered: Path
) -> None:
    """And not even that where the store counts collections that the database does not know."""
    lost.mark(epoch=3)
    lost.archive(1)
    before = lost.objects()
    await lost.imported(conn, recovered)
    assert lost.objects() == before


async def test_a_store_that_lost_its_mark_gets_it_back(
    lost: LostHub, conn: Conn, recovered: Path
) -> None:
    lost.archive(1)
    await lost.imported(conn, recovered)
    marks = {marker_key(HUB), f"{HUB}/epochs/1"}
    assert {key for key in lost.objects() if "home.tar" not in key} == marks


# What does not


async def test_damaged_archives_are_told_and_older_ones_taken(
    lost: LostHub, conn: Conn, recovered: Path
) -> None:
    lost.archive(1, 10, hours=9)
    newer = lost.describe(1, 11, b"newer")
    put(lost.store, newer.key, b"newer")
    put(lost.store, meta_key(newer.key), b"{}")
    alone = lost.describe(2, 10, b"x")
    put(lost.store, meta_key(alone.key), b"\xff" * 100_000)
    short = lost.archive(3, 10, bytes=5, content=b"four")
    gone = lost.archive(4, 10)
    lost.store.delete(gone.key)
    unfinished = lost.describe(5, 10, b"x")
    put(lost.store, unfinished.key)
    plan = await lost.imported(conn, recovered)
    why = {each.key: each.why for each in plan.flawed}
    assert why.keys() == {newer.key, alone.key, short.key, gone.key}
    assert "seal" in why[newer.key]
    assert "4 bytes and should have 5" in why[short.key]
    assert "archive itself is not" in why[gone.key]
    assert await names(conn) == {"ws1": 1}
    assert [each.outdated for each in plan.homes] == [True]
    assert sorted(each.id.int for each in plan.left_out) == [2, 3, 4]
    assert (plan.unfinished, plan.complete) == (1, False)
    assert set(why) - {alone.key, gone.key} < set(lost.objects())


async def test_an_archive_under_another_key_is_not_taken_for_it(
    lost: LostHub, conn: Conn, recovered: Path
) -> None:
    """Somebody has moved objects about by hand."""
    good = lost.archive(1)
    other = lost.describe(2, 10, b"home")
    put(lost.store, other.key, b"home")
    reader = lost.store.open_reader(meta_key(good.key))
    assert reader is not None
    with reader:
        put(lost.store, meta_key(other.key), reader.read(65536))
    plan = await lost.imported(conn, recovered)
    assert ["another archive" in each.why for each in plan.flawed] == [True]
    assert await names(conn) == {"ws1": 1}


async def test_of_namesakes_one_is_imported_and_the_others_later_under_another_name(
    lost: LostHub, conn: Conn, recovered: Path
) -> None:
    lost.archive(1, hours=9, workspace_name="api")
    lost.archive(2, hours=1, workspace_name="api")
    plan = await lost.imported(conn, recovered)
    assert [each.id.int for each in plan.left_out] == [1]
    assert await names(conn) == {"api": 2}
    renames = {UUID(int=1): "api-old"}
    assert (await lost.imported(conn, recovered, renames=renames)).complete
    assert await names(conn) == {"api": 2, "api-old": 1}
    assert load_directory(recovered).workspaces.keys() == {"api", "api-old"}


# Which hub


async def test_of_several_hubs_a_person_chooses(lost: LostHub, conn: Conn, recovered: Path) -> None:
    other = LostHub(lost.store, UUID(int=0xB))
    LostHub(lost.store, UUID(int=0xC)).mark(epoch=1)
    lost.archive(1)
    other.archive(2)
    before = [each.key for each in lost.store.list("")]
    with pytest.raises(UsageError, match=f"2 hubs: {HUB} \\(1\\), {other.hub_id} \\(1\\)"):
        lost.salvage()
    await lost.imported(conn, recovered, hub_id=other.hub_id)
    assert await names(conn) == {"ws2": 2}
    assert await read_hub_id(conn) == other.hub_id
    added = {each.key for each in lost.store.list("")} - set(before)
    assert {key.partition("/")[0] for key in added} == {str(other.hub_id)}


def test_a_store_without_archives_is_told(lost: LostHub) -> None:
    lost.mark(epoch=1)
    put(lost.store, lost.describe(1, 10, b"x").key)
    with pytest.raises(NotFound, match="no archive"):
        lost.salvage()
    lost.archive(2)
    with pytest.raises(NotFound, match="of the hub 00000000-0000-0000-0000-00000000000b"):
        lost.salvage(UUID(int=0xB))


async def test_a_store_that_another_hub_has_marked_is_refused(
    lost: LostHub, conn: Conn, recovered: Path
) -> None:
    lost.archive(1)
    put(lost.store, marker_key(HUB), f'{{"hub": "{uuid4()}"}}'.encode())
    before = lost.objects()
    with pytest.raises(Unreachable, match="another hub"):
        await lost.imported(conn, recovered)
    assert await nothing_happened(conn, recovered)
    assert lost.objects() == before


# The store


@pytest.mark.parametrize("error", [Unreachable("gone"), ActionFailed("not allowed")])
@pytest.mark.parametrize("call", ["list", "open_reader", "read"])
async def test_a_store_that_fails_while_it_is_read_ends_everything(
    lost: LostHub, conn: Conn, recovered: Path, call: str, error: Exception
) -> None:
    """A commit marker that was not read could be the newest, so none is left out for that."""
    for op in range(10, 20):
        lost.archive(1, op, hours=20 - op)
    seen: list[str] = []

    def fail(made: str) -> None:
        seen.append(made)
        if made == call and seen.count(call) in (1, 7):
            raise error

    broken = LostHub(FaultyStore(lost.store, before=fail))
    with pytest.raises(type(error), match=str(error)):
        await broken.imported(conn, recovered)
    assert await nothing_happened(conn, recovered)


def test_many_archives_are_read_and_told_of(lost: LostHub) -> None:
    for number in range(1, 2 * EVERY + 10):
        key = lost.describe(number, 10, b"").key
        path = lost.store._root.path / meta_key(key)  # type: ignore[attr-defined]
        path.parent.mkdir(parents=True)
        path.write_bytes(b"{}")
    heard: list[str] = []
    shelves = list_archives(lost.store, None, heard.append)
    found = read_salvage(lost.store, HUB, shelves[HUB], heard.append)
    assert len(found.flawed) == 2 * EVERY + 9
    assert heard == [f"{done} of 2009 archives looked at" for done in (1000, 2000)]


async def test_very_many_workspaces_take_several_statements(
    lost: LostHub, conn: Conn, recovered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "BATCH", 3)
    for number in range(1, 9):
        lost.archive(number, owner=f"user{number}")
    await lost.imported(conn, recovered)
    assert len(await names(conn)) == 8
    assert await count(conn, "workspace_events") == 8


async def test_a_dry_run_changes_nothing(lost: LostHub, conn: Conn, recovered: Path) -> None:
    lost.archive(1)
    before = lost.objects()
    plan: Any = await lost.imported(conn, recovered, dry_run=True)
    assert [each.name for each in plan.homes] == ["ws1"]
    assert await nothing_happened(conn, recovered)
    assert (lost.objects(), await read_hub_id(conn)) == (before, None)
