"""What must stay secret does not get into the log, whatever goes wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codehub.adapters.redis import RedisSignals
from codehub.proxy.own import Own
from tests.integration.elections import Candidate, rest, standing
from tests.integration.ttl_world import awake, ttl_world
from tests.proxy.whole_world import whole
from tests.telemetry.shown import lines, until

if TYPE_CHECKING:
    from io import StringIO
    from pathlib import Path

pytestmark = pytest.mark.anyio

CANARY = "canary-83c1"


async def test_the_databases_password(logged: StringIO) -> None:
    candidate = Candidate(f"postgresql://codehub:{CANARY}@127.0.0.1:1/codehub", rest)
    async with standing(candidate):
        await until(lambda: candidate.failures.counts["leader"])
    assert [each for each in lines(logged) if each["event"].startswith("leader: ")]
    assert CANARY not in logged.getvalue()


async def test_the_password_of_redis(database_url: str, logged: StringIO) -> None:
    signals = RedisSignals(f"redis://:{CANARY}@127.0.0.1:1/0")
    async with ttl_world(database_url, awake()) as world:
        await world.lead_anew(signals)
        await world.tick()
    await signals.close()
    assert [each for each in lines(logged) if each["event"].startswith("ttl: ")]
    assert CANARY not in logged.getvalue()


async def test_what_lets_somebody_in(
    database_url: str,
    redis_url: str,
    tmp_path: Path,
    logged: StringIO,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_own: Own, head: object, *_: object) -> None:
        raise RuntimeError(f"cannot judge {head!r}")

    async with whole(database_url, redis_url, tmp_path) as proxy:
        with monkeypatch.context() as patch:
            patch.setattr(Own, "judge", fail)
            bearer = f"Authorization: Bearer {proxy.token}"
            for headers in ((proxy.cookie,), (bearer,)):
                target = f"/login/link?code={CANARY}"
                answer = await proxy.ask(proxy.get(target, *headers))
                assert answer.startswith(b"HTTP/1.1 500")
        secrets = (CANARY, proxy.secret, proxy.token)
    failed = [each for each in lines(logged) if "cannot judge" in each.get("exception", "")]
    assert len(failed) == 2
    assert all("request_id" in each for each in failed)
    for each in secrets:
        assert each not in logged.getvalue()
