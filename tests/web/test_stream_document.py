"""`/api/v1/events` answers as the document says; schemathesis cannot read what has no end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest
from jsonschema import validate

from codehub.model.access import Scope
from tests.web.stream_world import PATH, PATIENCE, stream_world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.web.stream_world import Follower, StreamWorld

pytestmark = pytest.mark.anyio

PROBLEM = "application/problem+json"


@pytest.fixture
async def world(
    database_url: str, redis_url: str, anyio_backend: str
) -> AsyncIterator[StreamWorld]:
    async with stream_world(
        database_url, redis_url, web_streams=2, web_streams_per_user=1
    ) as opened:
        yield opened


async def read_document(world: StreamWorld) -> dict[str, Any]:
    address = f"http://localhost:{world.port}/api/v1/openapi.json"
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
        document: dict[str, Any] = (await client.get(address)).raise_for_status().json()
        return document


def kind_of(follower: Follower) -> str:
    return follower.headers["content-type"].partition(";")[0]


async def refused(world: StreamWorld) -> dict[str, Follower]:
    """Everybody who gets no stream, by the status that they should get."""
    cookie = await world.cookie("bob")
    found = {
        "401": await world.follow("X-Nobody: 1"),
        "403": await world.follow(await world.bearer("ana", Scope.PLAN)),
        "406": await world.follow(cookie, "", "Accept: application/json"),
        "422": await world.follow(cookie, "?names=a,,b"),
    }
    await (await world.follow(cookie)).all()
    found["429"] = await world.follow(cookie)
    await (await world.tab("ana")).all()
    found["503"] = await world.tab("root")
    return found


async def test_a_stream_is_of_the_kind_that_is_documented(world: StreamWorld) -> None:
    answers = (await read_document(world))["paths"][PATH]["get"]["responses"]
    bob = await world.tab("bob")
    assert bob.status == 200
    assert list(answers["200"]["content"]) == [kind_of(bob)] == ["text/event-stream"]


async def test_every_refusal_is_a_problem_that_is_documented(world: StreamWorld) -> None:
    document = await read_document(world)
    answers = document["paths"][PATH]["get"]["responses"]
    for status, follower in (await refused(world)).items():
        assert str(follower.status) == status
        assert list(answers[status]["content"]) == [kind_of(follower)] == [PROBLEM]
        problem = await follower.body()
        schema = answers[status]["content"][PROBLEM]["schema"]
        validate(problem, schema | {"components": document["components"]})
        assert problem["status"] == follower.status
        for header in answers[status].get("headers", {}):
            assert header.lower() in follower.headers, f"{status} without {header}"
