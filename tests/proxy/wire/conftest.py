"""The proxy runs on uvloop where that is installed, and on plain asyncio elsewhere: so do these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.proxy.wire.wire_world import wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.proxy.wire.wire_world import Wire


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    if request.param:
        pytest.importorskip("uvloop")
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture
async def world() -> AsyncIterator[Wire]:
    """A server with the usual limits."""
    async with wire() as found:
        yield found
