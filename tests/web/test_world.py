"""What the other tests here stand on: the application lets in whom it should."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.web.web_world import served

if TYPE_CHECKING:
    import httpx

    from tests.web.web_world import WebWorld

pytestmark = pytest.mark.anyio


async def test_everybody_is_known_by_cookie_and_by_token(
    root: httpx.AsyncClient, ana_token: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    me = (await root.get("/api/v1/me")).json()
    assert (me["name"], me["role"], me["way"]) == ("root", "admin", "session")
    me = (await ana_token.get("/api/v1/me")).json()
    assert (me["name"], me["role"], me["way"]) == ("ana", "member", "token")
    assert (await stranger.get("/api/v1/me")).status_code == 401


async def test_the_same_over_the_wire(world: WebWorld) -> None:
    async with served(world) as base:
        client = await world.session("bob", base)
        assert (await client.get("/api/v1/me")).json()["name"] == "bob"
