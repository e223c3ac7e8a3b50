"""What keeps a proxy informed may fail by a mistake of ours: it is begun again, and says so."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from codehub.proxy.activity import ActivityBuffer
from codehub.proxy.beside import SOUND_SECONDS, Beside
from codehub.store.routes import read_routes
from codehub.store.users import read_user_ids
from codehub.telemetry.instruments import REGISTRY
from tests.integration.stored import change, live
from tests.proxy.gate_world import until
from tests.proxy.whole_world import PATIENCE, log_in, whole

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.route import Route

pytestmark = pytest.mark.anyio

SHORT = timedelta(microseconds=1)


class Part:
    """Ends in the ways it is given, one after the other; then it runs on."""

    def __init__(self, *ends: BaseException | None) -> None:
        self.ends = list(ends)
        self.runs = 0
        self.going = asyncio.Event()

    async def run(self) -> None:
        self.runs += 1
        if self.ends:
            end = self.ends.pop(0)
            if end is not None:
                raise end
            return
        self.going.set()
        await asyncio.Event().wait()


def restarts(part: str) -> float:
    return REGISTRY.get_sample_value("codehub_proxy_restarts_total", {"component": part}) or 0.0


async def test_whatever_ends_is_begun_again_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    first, other = Part(ValueError("odd"), None, asyncio.CancelledError()), Part()
    beside, before = Beside(first=SHORT), restarts("routes")
    beside.start(routes=first, logins=other)
    async with asyncio.timeout(PATIENCE):
        await first.going.wait()
    await beside.close()
    assert (first.runs, other.runs) == (4, 1)
    assert restarts("routes") == before + 3
    said = [record.message for record in caplog.records]
    assert said == [
        "the proxy's part routes failed, and begins again",
        "the proxy's part routes ended by itself, and begins again",
        "the proxy's part routes was cancelled by itself, and begins again",
    ]
    assert "odd" in caplog.text


async def test_pauses_grow_and_are_short_again_after_a_sound_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, pauses = 0.0, list[float]()

    class Slow(Part):
        async def run(self) -> None:
            nonlocal now
            now += SOUND_SECONDS + 1 if self.runs == 3 else 0
            await super().run()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("codehub.proxy.beside.asyncio.sleep", pause)
    monkeypatch.setattr("codehub.proxy.beside.random.random", lambda: 0.0)
    part = Slow(*[ValueError()] * 5)
    beside = Beside(clock=lambda: now)
    beside.start(watch=part)
    async with asyncio.timeout(PATIENCE):
        await part.going.wait()
    await beside.close()
    assert pauses == [1, 2, 4, 1, 2]


async def test_a_proxy_follows_the_database_again_after_a_failure(
    database_url: str,
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures = [RuntimeError("a mistake of ours")]

    async def failing(
        conn: AsyncConnection[DictRow], ids: Iterable[UUID] | None = None
    ) -> list[Route]:
        if ids is not None and failures:
            raise failures.pop()
        return await read_routes(conn, ids)

    monkeypatch.setattr("codehub.proxy.table.read_routes", failing)
    async with whole(database_url, redis_url, tmp_path, proxy_route_interval=3600) as proxy:
        ask = proxy.get("/w/api/", proxy.cookie)
        assert (await proxy.ask(ask)).startswith(b"HTTP/1.1 200")
        async with asyncio.timeout(PATIENCE):
            while failures:
                await change(proxy.conn, "api", memo=f"{asyncio.get_running_loop().time()}")
                assert (await proxy.ask(ask)).startswith(b"HTTP/1.1 200"), "reachable all the time"
        secret = await log_in(proxy.conn, "carol")
        carol = (await read_user_ids(proxy.conn))["carol"]
        await change(proxy.conn, "api", owner_user_id=carol)
        async with asyncio.timeout(PATIENCE):
            while not (await proxy.ask(ask)).startswith(b"HTTP/1.1 404"):
                pass
        hers = proxy.get("/w/api/", f"Cookie: codehub={secret}")
        assert (await proxy.ask(hers)).startswith(b"HTTP/1.1 200")
    assert "the proxy's part routes failed, and begins again" in caplog.text
    assert "a mistake of ours" in caplog.text


async def test_activity_is_told_after_a_failure(
    database_url: str, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell, failures = ActivityBuffer._tell_who_is_back, [RuntimeError("a mistake of ours")]

    async def failing(buffer: ActivityBuffer) -> None:
        if failures:
            raise failures.pop()
        await tell(buffer)

    monkeypatch.setattr(ActivityBuffer, "_tell_who_is_back", failing)
    async with whole(database_url, redis_url, tmp_path) as proxy:
        assert (await live(proxy.conn, "api")).activity.source is None
        await proxy.ask(proxy.get("/w/api/", proxy.cookie))
        await until(lambda: not failures)
        async with asyncio.timeout(PATIENCE):
            while (await live(proxy.conn, "api")).activity.source != "traffic":
                await proxy.ask(proxy.get("/w/api/", proxy.cookie))
