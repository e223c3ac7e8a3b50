"""A web application for each test that asks for one, and people to talk to it.

`ana` and `bob` are members, `root` is an admin, each in a browser with a login; `ana_token` and so
on are their programs, with tokens that are good for everything; `stranger` shows nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.web.web_world import web_world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from tests.web.web_world import WebWorld


@pytest.fixture
async def world(database_url: str, redis_url: str, anyio_backend: str) -> AsyncIterator[WebWorld]:
    async with web_world(database_url, redis_url) as opened:
        yield opened


@pytest.fixture
async def stranger(world: WebWorld) -> httpx.AsyncClient:
    return await world.anonymous()


@pytest.fixture
async def ana(world: WebWorld) -> httpx.AsyncClient:
    return await world.session("ana")


@pytest.fixture
async def bob(world: WebWorld) -> httpx.AsyncClient:
    return await world.session("bob")


@pytest.fixture
async def root(world: WebWorld) -> httpx.AsyncClient:
    return await world.session("root")


@pytest.fixture
async def ana_token(world: WebWorld) -> httpx.AsyncClient:
    return await world.token("ana")


@pytest.fixture
async def bob_token(world: WebWorld) -> httpx.AsyncClient:
    return await world.token("bob")


@pytest.fixture
async def root_token(world: WebWorld) -> httpx.AsyncClient:
    return await world.token("root")
