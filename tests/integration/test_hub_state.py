"""The left side of every plan: all of it, as of one moment, and without a trace of the reading."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from codehub.model.people import Hub, Role, User, Webhook
from codehub.model.revision import HubState, Origin
from codehub.model.states import DesiredState, Phase
from codehub.model.workspace import Runtime, Source, Status
from codehub.store import hubs
from codehub.store.connect import connect, transaction
from codehub.store.hubs import read_hub_state
from codehub.store.revisions import latest_applied, record_failed
from tests.integration.stored import apply, count, insert, number
from tests.make import NOW, declaration, spec_set, user, workspace

if TYPE_CHECKING:
    from codehub.model.revision import Revision

pytestmark = pytest.mark.anyio

HUB = Hub(
    name="team",
    max_running_per_user=3,
    max_running_global=50,
    default_ttl="interactive",
    default_runtime=Runtime.PROCESS,
    prune=False,
    webhooks=(
        Webhook("https://example.org/hook", ("workspace.error",), "hook-key", "chat"),
        Webhook("https://b"),
    ),
    source=Source("specs/hub.yaml", 1),
)


async def test_an_empty_hub_is_read_as_such_and_stays_empty(database_url: str) -> None:
    async with await connect(database_url) as conn:
        assert await read_hub_state(conn) == HubState()
        assert await count(conn, "hub") == 0


async def test_everything_that_was_applied_is_there(database_url: str) -> None:
    alice = User(
        name="alice",
        display_name="Alice",
        role=Role.ADMIN,
        password_hash="$argon2id$x",
        max_running=5,
        source=Source("specs/users.yaml", 4),
    )
    incoming = spec_set(declaration("api"), users={"alice": alice}, hub=HUB)
    async with await connect(database_url) as conn:
        revision = await apply(conn, incoming)
        state = await read_hub_state(conn)

        assert state.hub == HUB
        assert state.revision == revision
        assert state.users == {"alice": alice}
        assert [one.declaration for one in state.workspaces] == [declaration("api")]
        assert state.hub_id is not None


async def test_a_load_that_failed_is_there_until_one_succeeds(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(digest="d1"))
        failed = await record_failed(
            conn,
            digest="d2",
            origin=Origin("specs"),
            problems=["specs/a.yaml:1:1: not YAML"],
            author="watcher",
            source="watch",
        )
        state = await read_hub_state(conn)
        assert state.failed == failed
        assert state.revision is not None
        assert state.revision.digest == "d1"

        await apply(conn, spec_set(digest="d3"))
        assert (await read_hub_state(conn)).failed is None


async def test_the_hub_keeps_its_id(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(digest="d1"))
        first = await read_hub_state(conn)
        await apply(conn, spec_set(digest="d2", hub=HUB))
        second = await read_hub_state(conn)

        assert first.hub_id == second.hub_id
        assert (first.hub, second.hub) == (Hub(), HUB)


async def test_deleted_ones_are_there_until_they_are_purged(database_url: str) -> None:
    gone = Status(phase=Phase.DELETED, deleted_at=NOW)
    async with await connect(database_url) as conn:
        await insert(
            conn,
            workspace("purged", number=1, status=replace(gone, purged_at=NOW)),
            workspace("live", number=3),
            workspace("deleted", number=2, status=gone),
        )

        state = await read_hub_state(conn)
        assert [one.id for one in state.workspaces] == [number(2), number(3)]


async def test_a_disabled_user_is_known_as_disabled(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(digest="d1", users={"bob": user("bob")}))
        await apply(conn, spec_set(digest="d2", users={}))

        assert (await read_hub_state(conn)).users == {"bob": user("bob", disabled=True)}


async def test_a_load_in_the_middle_of_reading_is_not_seen(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading takes several queries; somebody commits between the first and the second."""
    async with await connect(database_url) as conn, await connect(database_url) as other:
        await apply(conn, spec_set(declaration("old"), digest="d1"))

        async def interrupted(reader: Any) -> Revision | None:
            monkeypatch.undo()
            await apply(other, spec_set(declaration("new"), digest="d2"))
            return await latest_applied(reader)

        monkeypatch.setattr(hubs, "latest_applied", interrupted)
        state = await read_hub_state(conn)

        assert state.revision is not None
        assert state.revision.digest == "d1"
        assert [one.name for one in state.workspaces] == ["old"]
        assert {one.name for one in (await read_hub_state(conn)).workspaces} == {"old", "new"}


async def test_within_a_transaction_it_sees_what_that_one_wrote(database_url: str) -> None:
    async with await connect(database_url) as conn, transaction(conn):
        await insert(conn, workspace("mine"))

        assert [one.name for one in (await read_hub_state(conn)).workspaces] == ["mine"]


async def test_many_rows_are_read_whole(database_url: str) -> None:
    async with await connect(database_url) as conn:
        rows = [workspace(f"w{n}", number=n + 1, owner=f"u{n % 7}") for n in range(2_000)]
        await insert(conn, *rows)

        state = await read_hub_state(conn)
        assert len(state.workspaces) == 2_000
        assert state.workspaces[1_234] == rows[1_234]
        assert all(one.intent.desired is DesiredState.RUNNING for one in state.workspaces)
