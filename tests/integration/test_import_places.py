"""Where an import may write: databases and directories that are in use keep what they have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codehub.coordinator.leader import LOCK_NAME
from codehub.errors import FenceLost, Refused
from codehub.model.states import DesiredState, Phase
from codehub.specs.load import load_directory
from codehub.store import rebuild as stored
from codehub.store.advisory import Lock, try_lock_session
from codehub.store.connect import connect
from codehub.store.fence import require_fence, take_epoch
from codehub.store.hubs import ensure_hub_id, read_hub_id
from tests.integration.lost_hub import (  # noqa: F401
    HUB,
    LostHub,
    a_connection,
    a_directory,
    a_lost_hub,
    files,
    nothing_happened,
)
from tests.integration.spec_files import document
from tests.integration.stored import apply, count, live, versions
from tests.make import declaration, spec_set

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.lost_hub import Conn

pytestmark = pytest.mark.anyio

OWN = ("Workspace", "ws1", "{owner: alice, image: 'real:1'}")


def write(file: Path, *documents: str) -> bytes:
    file.parent.mkdir(parents=True)
    file.write_text("---\n".join(documents))
    return file.read_bytes()


# Which database


async def test_a_database_in_use_is_refused_and_left_alone(
    lost: LostHub, conn: Conn, recovered: Path
) -> None:
    await apply(conn, spec_set(declaration("theirs")))
    lost.archive(1)
    tables = ("hub", "workspaces", "users", "system_locks")
    before, objects = await versions(conn, *tables), lost.objects()
    with pytest.raises(Refused, match="in use by the hub"):
        await lost.imported(conn, recovered)
    assert await versions(conn, *tables) == before
    assert lost.objects() == objects
    assert files(recovered) == set()


async def test_an_id_that_nothing_carries_is_replaced(
    lost: LostHub, conn: Conn, recovered: Path
) -> None:
    """A coordinator ran on the new database for a moment, and collected nothing."""
    await ensure_hub_id(conn)
    await conn.execute("INSERT INTO system_locks (lock_name, epoch) VALUES ('gc', 5)")
    lost.mark(epoch=2)
    lost.archive(1)
    await lost.imported(conn, recovered)
    assert await read_hub_id(conn) == HUB
    assert f"{HUB}/epochs/6" in lost.objects()


async def test_nothing_is_imported_while_a_coordinator_leads(
    lost: LostHub, conn: Conn, database_url: str, recovered: Path
) -> None:
    lost.archive(1)
    async with await connect(database_url) as leader:
        assert await try_lock_session(leader, Lock.LEADER)
        with pytest.raises(Refused, match="a coordinator leads"):
            await lost.imported(conn, recovered)
    assert await nothing_happened(conn, recovered)
    await lost.imported(conn, recovered)
    async with await connect(database_url) as leader:
        assert await try_lock_session(leader, Lock.LEADER)
        assert (await lost.imported(conn, recovered)).present == 1


async def test_who_led_before_can_write_nothing_more(
    lost: LostHub, conn: Conn, recovered: Path
) -> None:
    lost.archive(1)
    assert stored.LEADER == LOCK_NAME
    fence = await take_epoch(conn, LOCK_NAME, "somebody that hangs")
    await lost.imported(conn, recovered)
    with pytest.raises(FenceLost, match="another coordinator has taken over"):
        await require_fence(conn, fence)


async def test_a_hub_from_a_backup_gets_what_it_does_not_know(
    lost: LostHub, conn: Conn, recovered: Path
) -> None:
    """Its own workspaces stay as they are, and get no specs: they have theirs."""
    await apply(conn, spec_set(declaration("ours")))
    hub_id = await read_hub_id(conn)
    assert hub_id is not None
    ours = await live(conn, "ours")
    mine = LostHub(lost.store, hub_id)
    mine.mark(epoch=1)
    await conn.execute("INSERT INTO system_locks (lock_name, epoch) VALUES ('gc', 1)")
    mine.archive(ours.id.int, workspace_name="ours")
    mine.archive(2, workspace_name="later")
    plan = await mine.imported(conn, recovered)
    assert ([each.name for each in plan.homes], plan.present) == (["later"], 1)
    assert await live(conn, "ours") == ours
    assert load_directory(recovered).workspaces.keys() == {"later"}
    assert f"{hub_id}/epochs/2" in mine.objects()


# The directory


async def test_what_the_directory_declares_is_left_to_it(
    lost: LostHub, conn: Conn, recovered: Path
) -> None:
    """The team's own specs: only what they lack is added, and they stay valid."""
    own = recovered / "all.yaml"
    before = write(own, document("User", "alice", "{role: admin}"), document(*OWN))
    lost.archive(1)
    lost.archive(2, owner="bob")
    await lost.imported(conn, recovered)
    assert own.read_bytes() == before
    assert files(recovered) == {"all.yaml", "workspaces/ws2.yaml", "users/bob.yaml"}
    await apply(conn, load_directory(recovered))
    row = await live(conn, "ws1")
    assert (row.id.int, row.declaration.image, row.declaration.suspend) == (1, "real:1", False)
    assert (row.status.phase, row.intent.desired) == (Phase.ARCHIVED, DesiredState.ARCHIVED)


async def test_a_file_in_the_way_is_told_before_anything_is_imported(
    lost: LostHub, conn: Conn, recovered: Path
) -> None:
    write(recovered / "workspaces" / "ws1.yaml", "# nothing yet\n")
    lost.archive(1)
    with pytest.raises(Refused, match="in the way"):
        await lost.imported(conn, recovered)
    assert await count(conn, "workspaces") == 0


async def test_a_spec_that_was_edited_is_not_written_again(
    lost: LostHub, conn: Conn, recovered: Path
) -> None:
    lost.archive(1)
    await lost.imported(conn, recovered)
    spec = recovered / "workspaces" / "ws1.yaml"
    edited = spec.read_text().replace("fill-in-the-command", "code-server")
    spec.write_text(edited)
    lost.archive(2)
    await lost.imported(conn, recovered)
    assert spec.read_text() == edited
    assert (recovered / "workspaces" / "ws2.yaml").exists()
