"""Our proxy as users have it: routing, logins and activity on, beside a hub's own databases.

python -m tests.bench.proxies.whole PORT DATABASE_URL REDIS_URL
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codehub.adapters.redis import RedisSignals
from codehub.config import Settings
from codehub.core.fingerprint import fingerprint
from codehub.embedded.redis import EmbeddedRedis
from codehub.model.access import Visitor
from codehub.model.runtime import Upstream
from codehub.model.states import Phase
from codehub.model.workspace import Status
from codehub.proxy.process import Listening, serve_proxy
from codehub.proxy.server import new_event_loop
from codehub.service.minting import new_secret
from codehub.store.access import find_account
from codehub.store.connect import connect
from codehub.store.sessions import add_session
from codehub.store.users import upsert_users
from tests.bench.hub import databases
from tests.bench.proxies.peers import Peer
from tests.conftest import open_directory
from tests.integration.stored import insert
from tests.make import user, workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MANY: Final = 100_000
NAME: Final = "api"


@contextmanager
def whole_proxy() -> Iterator[Peer]:
    """A peer whose databases run until the block ends, each upstream in a hub of its own."""
    with (
        open_directory() as directory,
        databases() as make,
        EmbeddedRedis(directory / "redis") as redis_url,
    ):
        yield Peer("codehub", _starter(make, redis_url))


def _starter(make: Callable[[], str], redis_url: str) -> Callable[[Path, int, int], list[str]]:
    def command(place: Path, port: int, upstream: int) -> list[str]:
        url = make()
        secret = asyncio.run(_prepare(url, upstream))
        headers = {"Cookie": f"codehub={secret}", "Origin": f"http://127.0.0.1:{port}"}
        told = {"prefix": f"/w/{NAME}", "headers": headers}
        (place / "front.json").write_text(json.dumps(told))
        module = [sys.executable, "-m", "tests.bench.proxies.whole"]
        return [*module, str(port), url, redis_url]

    return command


async def _prepare(url: str, upstream: int) -> str:
    """One workspace that runs where the upstream is, and the secret of its owner's login."""
    running = Status(Phase.RUNNING, upstream=Upstream("127.0.0.1", upstream))
    secret = new_secret()
    async with await connect(url) as conn:
        await upsert_users(conn, [user("alice")])
        await insert(conn, workspace(NAME, status=running))
        account = await find_account(conn, "alice")
        assert account is not None
        day = timedelta(days=1)
        await add_session(conn, account.person.id, fingerprint(secret), Visitor(), day)
    return secret


async def serve(port: int, database_url: str, redis_url: str) -> None:
    settings = Settings(
        proxy_connections=MANY,
        proxy_connections_per_address=MANY,
        proxy_connections_per_user=MANY,
        proxy_connections_per_workspace=MANY,
    )
    pages, listening = Path("nowhere"), Listening(port=port)
    signals = RedisSignals(redis_url)
    async with serve_proxy(settings, database_url, signals, pages, listening):
        await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
