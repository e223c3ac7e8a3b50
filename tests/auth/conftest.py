"""A hub with users for each test that asks for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.auth.people import fill, open_hub

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.auth.people import Hub


@pytest.fixture
async def hub(database_url: str, anyio_backend: str) -> AsyncIterator[Hub]:
    async with open_hub(database_url) as opened:
        await fill(opened)
        yield opened
