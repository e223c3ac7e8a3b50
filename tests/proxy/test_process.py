"""A whole proxy: what reaches a workspace, what does not, and what it does without a database."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from codehub.service.minting import new_secret
from tests.proxy.whole_world import PATIENCE, csrf_of, whole

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.proxy.whole_world import Whole

pytestmark = pytest.mark.anyio


@pytest.fixture
async def proxy(database_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[Whole]:
    async with whole(database_url, redis_url, tmp_path) as made:
        yield made


async def test_what_lets_somebody_into_the_hub_never_reaches_a_workspace(proxy: Whole) -> None:
    csrf = await csrf_of(proxy.conn, proxy.secret)
    shown = (f"X-CSRF-Token: {csrf}", f"X-CodeHub-CSRF: {csrf}", "x-csrf-token: its-own")
    page = await proxy.ask(proxy.get("/w/api/", proxy.cookie, *shown))
    assert page.startswith(b"HTTP/1.1 200")
    bearer = f"Authorization: Bearer {proxy.token}"
    assert (await proxy.ask(proxy.get("/w/api/x", bearer))).startswith(b"HTTP/1.1 200")
    posted = proxy.get("/w/api/form", proxy.cookie, "Origin: http://localhost", method="POST")
    assert (await proxy.ask(posted)).startswith(b"HTTP/1.1 200")
    heard = proxy.workspace.heard
    assert heard.count(b"HTTP/1.1\r\n") == 3
    assert b"Cookie: theme=dark; own=2" in heard
    assert b"x-csrf-token: its-own\r\n" in heard
    for canary in (proxy.secret, proxy.token, csrf, "chub_"):
        assert canary.encode() not in heard


async def test_nor_over_a_websocket(proxy: Whole) -> None:
    csrf = await csrf_of(proxy.conn, proxy.secret)
    shown = (f"Authorization: Bearer {proxy.token}", f"X-CSRF-Token: {csrf}")
    socket = await proxy.socket(proxy.secret, *shown)
    assert await socket.echoes(b"typed")
    heard = proxy.workspace.heard
    assert b"Cookie: theme=dark\r\n" in heard
    for canary in (proxy.secret, proxy.token, csrf):
        assert canary.encode() not in heard


async def test_one_person_cannot_take_all_websockets(
    database_url: str, redis_url: str, tmp_path: Path
) -> None:
    async with whole(database_url, redis_url, tmp_path, proxy_connections_per_user=1) as proxy:
        socket = await proxy.socket(proxy.secret)
        assert await socket.echoes(b"open")
        with pytest.raises(AssertionError, match="429 Too Many"):
            await proxy.socket(proxy.secret)
        assert await socket.echoes(b"still open")


async def test_a_workspace_cannot_set_the_hubs_cookies(proxy: Whole) -> None:
    page = await proxy.ask(proxy.get("/w/api/", proxy.cookie))
    assert b"stolen" not in page
    assert b"Set-Cookie: own=1" in page


async def test_the_login_page_is_for_whoever_nobody_knows(proxy: Whole) -> None:
    html = "Accept: text/html"
    sent = await proxy.ask(proxy.get("/w/api/?q=1", html))
    assert sent.startswith(b"HTTP/1.1 303")
    assert b"Location: /login?next=%2Fw%2Fapi%2F%3Fq%3D1\r\n" in sent
    assert b'name="password"' in await proxy.ask(proxy.get("/login?next=/w/api/", html))
    assert (await proxy.ask(proxy.get("/w/api/"))).startswith(b"HTTP/1.1 401")
    assert proxy.workspace.heard == b""


async def test_without_the_database_those_who_are_known_reach_what_runs(proxy: Whole) -> None:
    """Also what was asked for before; a login is told that it must wait."""
    assert (await proxy.ask(proxy.get("/w/api/", proxy.cookie))).startswith(b"HTTP/1.1 200")
    await proxy.relay.stop()
    try:
        assert (await proxy.ask(proxy.get("/w/api/", proxy.cookie))).startswith(b"HTTP/1.1 200")
        unknown = f"Cookie: codehub={new_secret()}"
        stranger = await proxy.ask(proxy.get("/w/api/", unknown))
        assert stranger.startswith(b"HTTP/1.1 503")
        assert b"cannot read its database" in stranger
        assert (await proxy.ask(proxy.get("/w/other/", proxy.cookie))).startswith(b"HTTP/1.1 503")
    finally:
        await proxy.relay.start()
    assert (await proxy.ask(proxy.get("/w/other/", proxy.cookie))).startswith(b"HTTP/1.1 404")


async def test_health_and_readiness(proxy: Whole) -> None:
    """Asked by an address, too: whoever watches over processes knows no name."""
    assert (await proxy.ask(proxy.get("/healthz"))).startswith(b"HTTP/1.1 200")
    by_address = proxy.get("/healthz").replace(b"localhost", b"10.1.2.3:8080")
    assert (await proxy.ask(by_address)).startswith(b"HTTP/1.1 200")
    other = proxy.get("/login").replace(b"localhost", b"10.1.2.3:8080")
    assert (await proxy.ask(other)).startswith(b"HTTP/1.1 421")
    async with asyncio.timeout(PATIENCE):
        while not (  # noqa: ASYNC110
            await proxy.ask(proxy.get("/readyz"))
        ).startswith(b"HTTP/1.1 200"):
            await asyncio.sleep(0.01)
