"""Other ceilings for a while, ways out of ERROR, and giving up data: asked for, judged, audited."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from codehub.errors import Refused
from codehub.model.events import EventKind
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Phase
from codehub.model.states import RecoverMode as Mode
from codehub.model.workspace import Override, Status
from codehub.service.intent import (
    Moved,
    clear_override,
    request_discard,
    request_recover,
    set_desired,
    set_override,
)
from codehub.store.connect import connect
from codehub.store.events import events
from tests.integration.stored import change, insert, live
from tests.make import NOW, workspace

if TYPE_CHECKING:
    from psycopg import AsyncConnection

pytestmark = pytest.mark.anyio

RUNNING, STANDBY = DesiredState.RUNNING, DesiredState.STANDBY
ARCHIVED, DELETED = DesiredState.ARCHIVED, DesiredState.DELETED
API, CLI = IntentSource.API, IntentSource.CLI

FAILED = Status(phase=Phase.ERROR, error_reason=ErrorReason.TIMEOUT, error_message="too slow")


async def ask(
    conn: AsyncConnection[Any], state: DesiredState, source: IntentSource = CLI, name: str = "api"
) -> Moved:
    return await set_desired(conn, name, state, source=source, by="alice", reason="because")


async def override(conn: AsyncConnection[Any], state: DesiredState, **other: Any) -> Any:
    given: dict[str, Any] = {"lasts": timedelta(hours=8), "reason": "demo", "admin": True}
    return await set_override(conn, "api", state, by="root", source=CLI, **given | other)


async def test_an_override_is_the_ceiling_while_it_lasts(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, workspace("api", declared_state=STANDBY, desired=STANDBY))
        await override(conn, RUNNING)
        assert (await ask(conn, RUNNING)).changed

        await ask(conn, ARCHIVED)
        await override(conn, ARCHIVED)
        with pytest.raises(Refused, match=r"above ARCHIVED: overridden until .* UTC \(demo\)"):
            await ask(conn, STANDBY)

        past = {"override_state": "RUNNING", "override_until": NOW.replace(year=2020)}
        await change(conn, "api", **past)
        with pytest.raises(Refused, match="above STANDBY: declared at"):
            await ask(conn, RUNNING)


async def test_an_override_is_written_and_ended_with_its_audit(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, workspace("api", declared_state=STANDBY, desired=STANDBY))

        until = await override(conn, RUNNING)
        assert (await live(conn, "api")).intent.override == Override(RUNNING, until, "demo")
        row = await (await conn.execute("SELECT now() AS now")).fetchone()
        assert row is not None
        assert timedelta(hours=7) < until - row["now"] <= timedelta(hours=8)

        ended: dict[str, Any] = {"by": "root", "source": CLI, "admin": True}
        assert await clear_override(conn, "api", **ended)
        assert (await live(conn, "api")).intent.override is None
        assert not await clear_override(conn, "api", **ended)
        assert [(one.kind, one.old, one.new, one.reason) for one in await events(conn)] == [
            (EventKind.OVERRIDE, "", "RUNNING", "demo"),
            (EventKind.OVERRIDE, "RUNNING", "", ""),
        ]


@pytest.mark.parametrize(
    ("fields", "asked", "says"),
    [
        ({}, {"admin": False}, "only an admin"),
        ({}, {"reason": "  "}, "needs a reason"),
        ({}, {"lasts": timedelta(0)}, "must last"),
        ({"pinned": True}, {}, "pinned at specs/api.yaml:1"),
        ({"suspend": True}, {}, "suspended at specs/api.yaml:1"),
        ({"desired": DELETED}, {}, "being deleted"),
    ],
)
async def test_an_override_that_makes_no_sense_is_refused(
    database_url: str, fields: dict[str, Any], asked: dict[str, Any], says: str
) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, workspace("api", **fields))
        with pytest.raises(Refused, match=says) as error:
            await override(conn, STANDBY, **asked)

        assert error.value.hint
        assert (await live(conn, "api")).intent.override is None


async def test_an_override_does_not_delete(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, workspace("api"))
        with pytest.raises(Refused, match="cannot delete"):
            await override(conn, DELETED)


async def test_only_an_admin_ends_an_override(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, workspace("api"))
        await override(conn, STANDBY)
        with pytest.raises(Refused, match="only an admin"):
            await clear_override(conn, "api", by="alice", source=API, admin=False)
        assert (await live(conn, "api")).intent.override is not None


async def recover(conn: AsyncConnection[Any], mode: Mode = Mode.PLAIN) -> None:
    await request_recover(conn, "api", mode, by="alice", source=CLI, reason="fixed")


async def test_recovery_is_asked_for_once(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, workspace("api", status=FAILED))
        await recover(conn)
        await recover(conn)

        assert (await live(conn, "api")).intent.recover_requested == "plain"
        (event,) = await events(conn)
        assert (event.kind, event.old, event.new) == (EventKind.RECOVER, "", "plain")


LOST = Status(phase=Phase.ERROR, error_reason=ErrorReason.DATA_LOST)
EMPTY = "'codehub recover api --accept-empty'"
ARCHIVE = "'codehub recover api --from-archive'"
LOST_WITH_ARCHIVE = Status(
    phase=Phase.ERROR, error_reason=ErrorReason.DATA_LOST, archive_key="k", archive_bytes=1
)


@pytest.mark.parametrize(
    ("status", "mode", "says", "hint"),
    [
        (Status(phase=Phase.RUNNING), Mode.PLAIN, "not in ERROR", None),
        (LOST, Mode.PLAIN, "home of api was lost", f"then choose {EMPTY}"),
        (LOST_WITH_ARCHIVE, Mode.PLAIN, "was lost", f"{ARCHIVE} or {EMPTY}"),
        (LOST, Mode.FROM_ARCHIVE, "no archive", "--accept-empty"),
        (FAILED, Mode.ACCEPT_EMPTY, "not lost", "plain"),
        (FAILED, Mode.FROM_ARCHIVE, "not lost", "plain"),
    ],
)
async def test_recovery_that_could_lose_data_is_refused(
    database_url: str, status: Status, mode: Mode, says: str, hint: str | None
) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, workspace("api", status=status))
        with pytest.raises(Refused, match=says) as error:
            await recover(conn, mode)

        assert (hint or "") in (error.value.hint or "")
        assert (await live(conn, "api")).intent.recover_requested is None


@pytest.mark.parametrize("mode", [Mode.FROM_ARCHIVE, Mode.ACCEPT_EMPTY])
async def test_after_a_loss_a_person_chooses(database_url: str, mode: Mode) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, workspace("api", status=LOST_WITH_ARCHIVE))
        await recover(conn, mode)

        assert (await live(conn, "api")).intent.recover_requested == mode.value


async def discard(conn: AsyncConnection[Any], *, admin: bool = True) -> None:
    await request_discard(conn, "api", by="root", source=CLI, admin=admin, reason="disk dead")


async def test_an_admin_may_give_up_what_cannot_be_archived(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, workspace("api", desired=DELETED, status=FAILED))
        with pytest.raises(Refused, match="only an admin"):
            await discard(conn, admin=False)
        await discard(conn)

        assert (await live(conn, "api")).intent.recover_requested == "discard-data"
        assert [one.new for one in await events(conn)] == ["discard-data"]


@pytest.mark.parametrize(
    ("fields", "says"),
    [({"status": FAILED}, "declared at"), ({"desired": DELETED}, "not in ERROR")],
)
async def test_nothing_else_is_given_up(
    database_url: str, fields: dict[str, Any], says: str
) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, workspace("api", **fields))
        with pytest.raises(Refused, match=says):
            await discard(conn)

        assert (await live(conn, "api")).intent.recover_requested is None
