"""What the web application's log tells of a request, and that the proxy calls it the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.telemetry.shown import lines
from tests.web.web_world import web_world

if TYPE_CHECKING:
    from io import StringIO

pytestmark = pytest.mark.anyio


async def test_a_fault_is_logged_once_under_the_name_of_its_request(
    database_url: str, redis_url: str, logged: StringIO
) -> None:
    async def fail() -> None:
        raise RuntimeError("a fault of ours")

    async with web_world(database_url, redis_url) as world:
        world.app.add_api_route("/broken", fail)
        client = await world.anonymous()
        named = await client.get("/broken", headers={"X-Request-Id": "req-7"})
        unnamed = await client.get("/broken?code=canary-6f1d")
        assert named.status_code == unnamed.status_code == 500
    first, second = [each for each in lines(logged) if "exception" in each]
    assert (first["event"], first["request_id"]) == ("GET /broken failed", "req-7")
    assert (second["event"], len(second["request_id"])) == ("GET /broken failed", 16)
    assert "RuntimeError: a fault of ours" in first["exception"]
    assert "canary" not in logged.getvalue()
