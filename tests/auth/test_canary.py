"""Planted secrets turn up in no log, audit, repr or error, and in no row but as a hash."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from codehub.errors import CodeHubError, NotLetIn, Refused
from codehub.model.access import Scope
from codehub.proxy.identity import Identities
from codehub.proxy.seam import RequestHead
from codehub.service.links import arrive, create_login_link, hand_over, redeem
from codehub.service.sessions import log_out
from codehub.service.tokens import create_token, revoke_token
from codehub.store.access import access_events, find_account
from tests.auth.people import HOME, LASTING, PASSWORD, Hub, request

pytestmark = pytest.mark.anyio

WRONG = "my other password 93715"
TYPED_AS_NAME = "oops-my-password-4711"


async def use_everything(hub: Hub) -> tuple[list[str], list[object]]:
    """Every way in, right and wrong; the secrets, and all that was returned or raised."""
    opened = await hub.log_in()
    shown: list[object] = [opened, opened.session]
    people = Identities(hub.pool, hub.url)
    async with hub.pool.connection() as conn:
        made = await create_token(conn, "alice", "ci", [Scope.READ], timedelta(days=1), by="root")
        link = await create_login_link(conn, "alice")
        linked = await redeem(conn, link, HOME, lasting=LASTING)
        code = await hand_over(conn, opened.session.id, "api.hub", state="state-canary-1")
        child = await arrive(conn, code, "api.hub", HOME, state="state-canary-1")
        shown += [made, linked, child, await find_account(conn, "alice")]
        for failing in (
            redeem(conn, link, HOME, lasting=LASTING),
            arrive(conn, code, "api.hub", HOME),
            hub.log_in("alice", WRONG),
            hub.log_in(TYPED_AS_NAME, WRONG),
            create_token(conn, "alice", "ci", [Scope.READ], timedelta(days=1), by="root"),
        ):
            with pytest.raises((NotLetIn, Refused)) as raised:
                await failing
            shown.append(raised.value)
        heads = [request(cookie=opened.secret), request(bearer=made.secret)]
        known = [await people.look_up(head) for head in heads]
        shown += [*heads, *known, people]
        csrf = [each.csrf for each in known if each]
        await revoke_token(conn, "alice", "ci", by="root")
        await log_out(conn, opened.session.id, HOME)
        shown += await access_events(conn)
    await people.refresh()
    sessions = [opened.secret, linked.secret, child.secret]
    typed = [PASSWORD, WRONG, TYPED_AS_NAME, "state-canary-1"]
    return [*sessions, made.secret, link, code, *csrf, *typed], shown


async def test_no_secret_is_logged_shown_audited_or_stored(
    hub: Hub, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        secrets, shown = await use_everything(hub)
    stored = await hub.everything()
    said = "\n".join([caplog.text, *(repr(each) for each in shown), *map(_told, shown)])
    assert len(secrets) == 12
    assert "alice" in said
    assert "token_created" in stored
    for secret in secrets:
        assert secret not in said
        assert secret not in stored


def _told(shown: object) -> str:
    return f"{shown.message} {shown.hint} {shown!s}" if isinstance(shown, CodeHubError) else ""


async def test_hashes_of_passwords_are_not_shown_either(hub: Hub) -> None:
    async with hub.pool.connection() as conn:
        account = await find_account(conn, "alice")
    assert account is not None
    assert account.password_hash is not None
    assert "argon2" not in repr(account)


def test_a_request_in_a_log_shows_neither_headers_nor_query() -> None:
    headers = [(b"Cookie", b"codehub=canary"), (b"Authorization", b"Bearer chub_canary")]
    head = RequestHead(b"GET", b"/_codehub/enter?code=canary", headers, "192.0.2.1")
    assert "canary" not in repr(head)
    assert "canary" not in f"{head}"
    assert "/_codehub/enter" in repr(head)
