"""The `Signals` of a hub, kept in Redis.

Nothing is retried for long here: a call answers within some seconds or raises `Unreachable`, and
what is behind it goes on without Redis meanwhile.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from codehub.adapters.redis import activity
from codehub.adapters.redis.faults import is_lost_connection, redacted, translated
from codehub.errors import Unreachable, UsageError
from codehub.model.signals import ActivityRead

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID

    from redis.asyncio.client import PubSub

    from codehub.model.signals import Sighting

CONNECT_SECONDS: Final = 3.0
ANSWER_SECONDS = 5.0
QUIET_SECONDS = 15.0
"""After this long without a message, a subscriber asks whether Redis is still there."""
OLDEST: Final = (6, 2)
"""The first Redis with ZADD GT."""


class RedisSignals:
    """Redis at an address, as `codehub.ports.Signals`; keys begin with `prefix`.

    The time limits can be set in the address (`?socket_timeout=1`).
    """

    def __init__(self, url: str, *, prefix: str = "codehub") -> None:
        self._url = url
        self._activity = f"{prefix}:activity"
        self._sentinel = f"{prefix}:sentinel"
        self._redis = _client(url)

    async def record_activity(self, ages: Mapping[tuple[UUID, str], timedelta]) -> None:
        for arguments in activity.record_arguments(ages):
            await self._run(activity.RECORD, arguments)

    async def forget_activity(self, seen: Iterable[Sighting]) -> None:
        for arguments in activity.forget_arguments(seen):
            await self._run(activity.FORGET, arguments)

    async def read_activity(self) -> ActivityRead:
        time, sentinel, members, server = await self._ask(self._read_at_once)
        return ActivityRead(
            at=activity.moment(time),
            sentinel=None if sentinel is None else sentinel.decode(errors="replace"),
            run_id=str(server["run_id"]),
            sightings=tuple(activity.sightings(members)),
        )

    async def write_sentinel(self, text: str) -> None:
        await self._ask(lambda: self._redis.set(self._sentinel, text))

    async def publish(self, channel: str, message: str) -> None:
        await self._ask(lambda: self._redis.publish(channel, message))

    async def subscribe(self, channel: str) -> AsyncIterator[str]:
        """From the first look at the iterator on; a lost connection ends it in `Unreachable`."""
        async with self._redis.pubsub() as pubsub:
            await self._ask(lambda: pubsub.subscribe(channel))
            # Redis confirms a subscription, so the first answer is due at once.
            due = True
            while True:
                message = await self._next(pubsub, due=due)
                due = message is None
                if message and message["type"] == "message":
                    yield message["data"].decode(errors="replace")

    async def follow(self, patterns: Sequence[str]) -> AsyncIterator[str | None]:
        """As `subscribe`, on many channels; what comes before all are confirmed is left out."""
        async with self._redis.pubsub() as pubsub:
            await self._ask(lambda: pubsub.psubscribe(*patterns))
            for _ in patterns:
                while _kind(await self._next(pubsub, due=True)) != "psubscribe":
                    pass
            yield None
            due = False
            while True:
                message = await self._next(pubsub, due=due)
                due = message is None
                if message and _kind(message) == "pmessage":
                    yield message["data"].decode(errors="replace")

    async def check(self) -> str:
        """The server's version; raises `Unreachable`, saying why, if it is of no use to a hub."""
        found = await self._ask(self._redis.info)
        version = str(found["redis_version"])
        where = redacted(self._url)
        if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
            raise Unreachable(
                f"Redis at {where} is {version}, older than 6.2", hint="use Redis 6.2 or newer"
            )
        if found.get("role") == "slave":
            raise Unreachable(
                f"Redis at {where} is a replica", hint="set REDIS_URL to the primary server"
            )
        return version

    async def close(self) -> None:
        with suppress(RedisError, OSError):
            await self._redis.aclose()

    async def _run(self, script: str, arguments: list[str | int]) -> None:
        await self._ask(lambda: self._redis.eval(script, 1, self._activity, *arguments))

    def _read_at_once(self) -> Awaitable[Any]:
        """In one transaction, so that all of it is of one moment and of one server."""
        together = self._redis.pipeline(transaction=True)
        together.time()
        together.get(self._sentinel)
        together.zrange(self._activity, 0, -1, withscores=True)
        together.info("server")
        return together.execute()

    async def _next(self, pubsub: PubSub, *, due: bool) -> dict[str, Any] | None:
        """What comes next; None after a quiet time, when Redis was asked for a sign of life."""
        with translated(self._url):
            found: dict[str, Any] | None = await pubsub.get_message(
                timeout=ANSWER_SECONDS if due else QUIET_SECONDS
            )
            if found is None and due:
                raise TimeoutError("no sign of life")
            if found is None:
                await pubsub.ping()
        return found

    async def _ask(self, command: Callable[[], Awaitable[Any]]) -> Any:
        """An answer to a command, all of which may be repeated.

        A connection that ended while nobody used it says nothing about Redis now: the command is
        given once more, on a new one.
        """
        with translated(self._url):
            try:
                return await command()
            except RedisError as error:
                if not is_lost_connection(error):
                    raise
            return await command()


def _kind(message: Mapping[str, Any] | None) -> str | None:
    return message["type"] if message else None


def _client(url: str) -> Redis:
    """A client that answers or fails soon. Its complaints may quote the address: not passed on."""
    try:
        client = Redis.from_url(
            url,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=ANSWER_SECONDS,
            retry=Retry(NoBackoff(), 0),
            # Servers before 6 do not know the newer one, and their refusal quotes the password.
            protocol=2,
        )
        # Options that do not exist show only when a connection is made of them.
        client.connection_pool.make_connection()  # type: ignore[no-untyped-call]
    except (ValueError, TypeError, RedisError):
        raise UsageError(
            "REDIS_URL is not the address of a Redis",
            hint="write it as redis://:password@host:6379/0, rediss://… or unix:///path/to/socket",
        ) from None
    return client
