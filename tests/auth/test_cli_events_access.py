"""`codehub events --access`: who came, who was refused, and who got a token."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from codehub.errors import NotLetIn
from codehub.model.access import AccessEvent, AccessKind, Scope, Visitor
from codehub.render.access_text import NONE, access_text
from codehub.service.tokens import create_token
from codehub.store.access import access_events
from tests.integration.command_line import run_codehub

if TYPE_CHECKING:
    from pathlib import Path

    from tests.auth.people import Hub
    from tests.integration.command_line import Ran

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def events(url: str, cwd: Path, *words: str) -> Ran:
    return run_codehub("events", *words, cwd=cwd, env={"DATABASE_URL": url})


async def use(hub: Hub) -> str:
    """A login, two that fail, and a token, whose secret this is."""
    await hub.log_in("alice")
    for name in ("alice", "my-password-as-a-name"):
        with pytest.raises(NotLetIn):
            await hub.log_in(name, "wrong password", Visitor("203.0.113.9", "Evil\x1b[2J"))
    async with hub.pool.connection() as conn:
        day = timedelta(days=1)
        return (await create_token(conn, "bob", "ci", [Scope.PLAN], day, by="root")).secret


async def test_all_of_it_oldest_first(hub: Hub, tmp_path: Path) -> None:
    secret = await use(hub)
    ran = events(hub.url, tmp_path, "--access", "--format", "json")
    assert ran.code == 0, ran.err
    found = [json.loads(line) for line in ran.out.splitlines()]
    assert [(each["kind"], each["user"], each["by"], each["address"]) for each in found] == [
        ("login", "alice", "alice", "192.0.2.1"),
        ("failed", "alice", "nobody", "203.0.113.9"),
        ("failed", "", "nobody", "203.0.113.9"),
        ("token_created", "bob", "root", ""),
    ]
    table = events(hub.url, tmp_path, "--access")
    assert table.code == 0, table.err
    for shown in (ran.out, table.out):
        assert secret not in shown
        assert "my-password-as-a-name" not in shown
        assert "\x1b" not in shown
    assert "(nobody)" in table.out


async def test_of_one_user_and_not_all_of_it(hub: Hub, tmp_path: Path) -> None:
    await use(hub)
    async with hub.pool.connection() as conn:
        first = (await access_events(conn))[0].id

    def ids(*words: str) -> list[int]:
        ran = events(hub.url, tmp_path, "--access", "--format", "json", *words)
        assert ran.code == 0, ran.err
        return [json.loads(line)["id"] - first for line in ran.out.splitlines()]

    assert ids("--user", "alice") == [0, 1]
    assert ids("--limit", "1") == [3]
    assert ids("--since", str(first + 1)) == [2, 3]
    assert ids("--since", "1h", "--user", "bob") == [3]
    assert ids("--user", "carol") == []


async def test_what_is_longer_ago_is_left_out(hub: Hub) -> None:
    await use(hub)
    with psycopg.connect(hub.url, autocommit=True) as conn:
        conn.execute("SET session_replication_role = replica")
        conn.execute("UPDATE access_events SET at = at - interval '2 hours' WHERE user_name <> ''")
    async with hub.pool.connection() as found:
        lately = await access_events(found, within=timedelta(hours=1))
        assert [each.user for each in lately] == [""]
        assert len(await access_events(found, within=timedelta(hours=3))) == 4


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--access", "--user", "dave"), 1, 'there is no user "dave"'),
        (("--user", "alice"), 64, "--user goes with --access"),
        (("api", "--access"), 64, "logins are of users"),
        (("--access", "-f"), 64, "--access cannot follow"),
        (("--access", "--since", "soon"), 64, "--since cannot read"),
    ],
)
async def test_what_makes_no_sense_is_said(
    hub: Hub, tmp_path: Path, words: tuple[str, ...], code: int, says: str
) -> None:
    ran = events(hub.url, tmp_path, *words)
    assert (ran.code, ran.out) == (code, "")
    assert says in ran.err


def test_the_table() -> None:
    agent = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
    login = AccessEvent(7, NOW, AccessKind.LOGIN, "alice", "alice", "192.0.2.1", agent, "")
    token = AccessEvent(8, NOW, AccessKind.TOKEN_CREATED, "bob", "root", "", "", "token ci")
    assert access_text([login, token]).splitlines() == [
        "ID  AT                   USER   WHAT         FROM       BY    REASON    WITH",
        "7   2026-11-16 12:00:00  alice  logged in    192.0.2.1  -     -         "
        "Mozilla/5.0 (X11; Linux x86_64; rv:130.…",
        "8   2026-11-16 12:00:00  bob    got a token  -          root  token ci",
    ]
    assert access_text([]) == NONE
