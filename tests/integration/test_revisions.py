"""What was loaded and what failed to: kept in order, with the documents for a way back."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from codehub.errors import NotFound, Refused
from codehub.model.revision import Origin, Revision
from codehub.store.connect import connect, transaction
from codehub.store.revisions import (
    declares,
    latest_applied,
    list_revisions,
    read_documents,
    read_revision,
    record_applied,
    record_failed,
)
from tests.integration.stored import count
from tests.make import NOW, spec_set

if TYPE_CHECKING:
    from psycopg import AsyncConnection

pytestmark = pytest.mark.anyio

ORIGIN = Origin("specs", commit="c" * 40, dirty=True, ref="main")
DOCUMENT = {
    "apiVersion": "codehub.dev/v1",
    "kind": "Workspace",
    "metadata": {"name": "api", "labels": {"team": "größe"}},
    "spec": {"owner": "alice", "resources": {"cpus": 1.5}, "command": ["a", ""], "pinned": True},
    "file": "specs/api.yaml",
    "line": 3,
}


async def applied(conn: AsyncConnection[Any], digest: str, *documents: dict[str, Any]) -> Revision:
    incoming = spec_set(digest=digest, origin=ORIGIN, documents=documents)
    return await record_applied(
        conn, incoming, author="alice", source="cli", summary={"create": 1}, at=NOW
    )


async def failed(conn: AsyncConnection[Any], digest: str, *problems: str) -> Revision:
    return await record_failed(
        conn, digest=digest, origin=ORIGIN, problems=problems, author="watcher", source="watcher"
    )


async def test_an_applied_revision_is_read_as_it_was_recorded(database_url: str) -> None:
    async with await connect(database_url) as conn:
        recorded = await applied(conn, "d1", DOCUMENT)

        assert recorded == Revision(
            id=recorded.id,
            digest="d1",
            origin=ORIGIN,
            created_at=NOW,
            author="alice",
            summary={"create": 1},
        )
        assert isinstance(recorded.id, int)
        assert await read_revision(conn, recorded.id) == recorded
        assert await latest_applied(conn) == recorded


async def test_no_number_is_left_out(database_url: str) -> None:
    """Not by a load that is rolled back, nor by a sequence that a crash moved ahead."""
    async with await connect(database_url) as conn:
        first = await applied(conn, "d1")
        with suppress(Refused):
            async with transaction(conn):
                await applied(conn, "d2")
                raise Refused("not now")
        second = await failed(conn, "d2", "not YAML")
        await conn.execute("SELECT setval('spec_revisions_id_seq', 37)")
        third = await applied(conn, "d3")

        assert [second.id, third.id] == [first.id + 1, first.id + 2]
        row = await conn.execute("SELECT nextval('spec_revisions_id_seq') AS next")
        assert await row.fetchone() == {"next": third.id + 1}


async def test_documents_come_back_as_they_were(database_url: str) -> None:
    async with await connect(database_url) as conn:
        first = await applied(conn, "d1", DOCUMENT)
        await applied(conn, "d2", DOCUMENT | {"line": 9}, DOCUMENT)

        assert await read_documents(conn, first.id) == (DOCUMENT,)


async def test_a_failure_is_kept_and_changes_nothing(database_url: str) -> None:
    async with await connect(database_url) as conn:
        good = await applied(conn, "d1")
        bad = await failed(conn, "d2", "specs/a.yaml:3: no such policy", "specs/b.yaml:1: empty")

        assert not bad.applied
        assert bad.problems == ("specs/a.yaml:3: no such policy", "specs/b.yaml:1: empty")
        assert await latest_applied(conn) == good
        assert await list_revisions(conn) == (bad, good)


async def test_the_same_failure_again_is_recorded_once(database_url: str) -> None:
    async with await connect(database_url) as conn:
        first = await failed(conn, "d2", "broken")

        assert await failed(conn, "d2", "broken") == first
        other = await failed(conn, "d2", "broken elsewhere")
        assert await list_revisions(conn) == (other, first)


async def test_a_failure_after_a_success_is_a_new_one(database_url: str) -> None:
    async with await connect(database_url) as conn:
        first = await failed(conn, "d2", "broken")
        await applied(conn, "d1")

        assert (await failed(conn, "d2", "broken")).id > first.id


async def test_the_list_is_paged_from_the_newest(database_url: str) -> None:
    async with await connect(database_url) as conn:
        made = [await applied(conn, f"d{n}") for n in range(5)]

        newest = await list_revisions(conn, 2)
        assert newest == (made[4], made[3])
        assert await list_revisions(conn, 2, before=newest[-1].id) == (made[2], made[1])


async def test_what_is_not_there_is_said_so(database_url: str) -> None:
    async with await connect(database_url) as conn:
        assert await latest_applied(conn) is None
        assert await list_revisions(conn) == ()
        with pytest.raises(NotFound, match="there is no revision 7"):
            await read_revision(conn, 7)
        with pytest.raises(NotFound, match="there is no revision 7"):
            await read_documents(conn, 7)

        bad = await failed(conn, "d1", "broken")
        with pytest.raises(NotFound, match=f"revision {bad.id} failed"):
            await read_documents(conn, bad.id)
        assert await count(conn, "spec_revisions") == 1


async def test_only_the_revision_in_force_declares(database_url: str) -> None:
    async with await connect(database_url) as conn:
        assert not await declares(conn, "api", "alice")

        await applied(conn, "d1", DOCUMENT)
        assert await declares(conn, "api", "alice")
        assert not await declares(conn, "api", "bob")
        assert not await declares(conn, "lab", "alice")

        await applied(conn, "d2")
        assert not await declares(conn, "api", "alice")
