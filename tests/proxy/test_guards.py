"""Each guard of the gate is there for a reason: without it, what the other tests check fails.

Every test here does the same twice, with the guard and without. If nothing fails the second time,
either the guard is not needed or nothing would notice its loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codehub.proxy import gate
from tests.proxy import test_gate
from tests.proxy.gate_world import awake, gate_world, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.proxy.gate_world import GateWorld

    Story = Callable[[GateWorld], Awaitable[None]]

pytestmark = pytest.mark.anyio

EVIL = "http://evil.example"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def world(database_url: str, redis_url: str) -> AsyncIterator[GateWorld]:
    async with gate_world(database_url, redis_url) as found:
        await found.add(awake())
        await until(lambda: found.table.find("api"))
        yield found


async def holds_and_then_fails(
    world: GateWorld, story: Story, monkeypatch: pytest.MonkeyPatch, guard: str
) -> None:
    """The story ends well; with the guard gone, what must not go on to the workspace does."""
    await story(world)
    monkeypatch.setattr(gate, guard, lambda *_: True)
    with pytest.raises(AssertionError, match="Forward"):
        await story(world)


async def test_the_origin_of_websockets(world: GateWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Browsers let any page open one here, with the cookies of whoever looks at it."""

    async def story(world: GateWorld) -> None:
        await test_gate.test_another_sites_page_opens_no_websocket(world, EVIL)

    await holds_and_then_fails(world, story, monkeypatch, "may_open_socket")


async def test_the_origin_of_what_changes_something(
    world: GateWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(world: GateWorld) -> None:
        await test_gate.test_another_sites_page_may_change_nothing(world, {"Origin": EVIL})

    await holds_and_then_fails(world, story, monkeypatch, "may_send")
