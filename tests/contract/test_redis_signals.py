"""The `Signals` port over a real Redis: what it keeps, what it forgets, and what it says then."""

from __future__ import annotations

import asyncio
import os
import signal
import traceback
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, cast
from uuid import UUID

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codehub.adapters.redis import RedisSignals, activity
from codehub.adapters.redis import signals as signals_module
from codehub.adapters.redis.faults import redacted
from codehub.errors import Unreachable, UsageError
from codehub.model.signals import ActivityRead, Sighting

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator

    from codehub.embedded.redis import EmbeddedRedis
    from codehub.ports import Signals

pytestmark = pytest.mark.anyio

API, WEB = UUID(int=1), UUID(int=2)
HASTE = "?socket_timeout=0.3&socket_connect_timeout=0.3"
NOTHING = timedelta(0)
_numbers = count(1)


@pytest.fixture
def prefix() -> str:
    """Keys of this test's own in the session's Redis."""
    return f"test{next(_numbers)}"


@pytest.fixture
async def signals(redis_url: str, prefix: str) -> AsyncIterator[Signals]:
    async with opened(redis_url, prefix=prefix) as signals:
        yield signals


@pytest.fixture
async def own_signals(own_redis: EmbeddedRedis) -> AsyncIterator[RedisSignals]:
    """Signals of a Redis that the test may do anything with."""
    async with opened(own_redis.url) as signals:
        yield signals


@pytest.fixture
def admin(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def own_admin(own_redis: EmbeddedRedis) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(own_redis.url) as client:
        yield client


@asynccontextmanager
async def opened(url: str, *, prefix: str = "codehub") -> AsyncIterator[RedisSignals]:
    signals = RedisSignals(url, prefix=prefix)
    try:
        yield signals
    finally:
        await signals.close()


@asynccontextmanager
async def answering(answer: bytes, heard: list[bytes] | None = None) -> AsyncIterator[str]:
    """The address of a server that gives this answer to all but the client's introduction.

    The names of the commands it got are added to `heard`.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                name = (await read_command(reader))[0]
                writer.write(b"+OK\r\n" if name == b"CLIENT" else answer)
                if heard is not None:
                    heard.append(name)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def read_command(reader: asyncio.StreamReader) -> list[bytes]:
    """A command as a client sends it: the number of words, then each with its length."""
    words = []
    for _ in range(int((await reader.readuntil(b"\r\n"))[1:])):
        length = int((await reader.readuntil(b"\r\n"))[1:])
        words.append((await reader.readexactly(length + 2))[:-2])
    return words


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 (another process makes it true)
            await asyncio.sleep(0.005)


async def answer_of(signals: Signals) -> ActivityRead:
    """What it reads in the end: with hasty limits, a busy machine may miss some."""
    async with asyncio.timeout(60):
        while True:
            with suppress(Unreachable):
                return await signals.read_activity()


def pid_of(server: EmbeddedRedis) -> int:
    running = server.running()
    assert running is not None
    return running.pid


def when(read: ActivityRead) -> dict[tuple[UUID, str], datetime]:
    return {(each.workspace_id, each.source): each.at for each in read.sightings}


async def test_an_empty_buffer_is_an_answer(signals: Signals) -> None:
    read = await signals.read_activity()
    assert (read.sentinel, read.sightings) == (None, ())
    await signals.record_activity({})
    await signals.forget_activity([])


async def test_activity_is_stamped_by_age_with_the_clock_of_redis(signals: Signals) -> None:
    before = (await signals.read_activity()).at
    ages = {(API, "input"): timedelta(minutes=5), (WEB, "traffic"): NOTHING}
    await signals.record_activity(ages)
    read = await signals.read_activity()
    found = when(read)
    assert found.keys() == ages.keys()
    assert before - timedelta(milliseconds=1) <= found[WEB, "traffic"] <= read.at
    assert found[WEB, "traffic"] - found[API, "input"] == timedelta(minutes=5)


async def test_the_clock_of_the_client_does_not_matter(
    signals: Signals, admin: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 1_000_000_000.0)
    await signals.record_activity({(API, "input"): NOTHING})
    read = await signals.read_activity()
    seconds, _ = admin.time()
    assert abs(read.at.timestamp() - seconds) < 600
    assert read.at - read.sightings[0].at < timedelta(minutes=10)


async def test_activity_moves_only_forward(signals: Signals) -> None:
    await signals.record_activity({(API, "input"): timedelta(seconds=10)})
    first = when(await signals.read_activity())
    await signals.record_activity({(API, "input"): timedelta(hours=1)})
    assert when(await signals.read_activity()) == first
    await signals.record_activity({(API, "input"): timedelta(seconds=5)})
    later = when(await signals.read_activity())
    assert later[API, "input"] >= first[API, "input"] + timedelta(seconds=5)


async def test_nothing_is_active_in_the_future(signals: Signals) -> None:
    await signals.record_activity({(API, "input"): timedelta(days=-7)})
    read = await signals.read_activity()
    assert read.sightings[0].at <= read.at


async def test_an_age_beyond_all_time_is_kept_and_can_be_forgotten(signals: Signals) -> None:
    await signals.record_activity({(API, "input"): timedelta(days=100_000)})
    read = await signals.read_activity()
    assert when(read) == {(API, "input"): datetime(1970, 1, 1, tzinfo=UTC)}
    await signals.forget_activity(read.sightings)
    assert (await signals.read_activity()).sightings == ()


async def test_what_was_read_is_forgotten(signals: Signals, admin: redis.Redis) -> None:
    await signals.record_activity({(API, "input"): NOTHING, (WEB, "cpu"): NOTHING})
    read = await signals.read_activity()
    await signals.forget_activity(read.sightings[:1])
    assert (await signals.read_activity()).sightings == read.sightings[1:]
    await signals.forget_activity(read.sightings)
    await signals.forget_activity(read.sightings)
    assert (await signals.read_activity()).sightings == ()


async def test_what_is_newer_survives_forgetting(signals: Signals) -> None:
    await signals.record_activity({(API, "input"): timedelta(minutes=1)})
    read = await signals.read_activity()
    await signals.record_activity({(API, "input"): NOTHING})
    await signals.forget_activity(read.sightings)
    left = (await signals.read_activity()).sightings
    assert [each.workspace_id for each in left] == [API]
    assert left[0].at > read.sightings[0].at


AGES = st.dictionaries(
    st.tuples(st.sampled_from([API, WEB]), st.sampled_from(["input", "cpu", "", "a:b", "é"])),
    st.timedeltas(NOTHING, timedelta(days=9000)),
    max_size=4,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds=st.lists(st.tuples(AGES, AGES), max_size=4))
async def test_no_activity_is_lost_however_it_falls_between_reading_and_forgetting(
    signals: Signals, rounds: list[tuple[dict[tuple[UUID, str], timedelta], ...]]
) -> None:
    """As the hub drains the buffer: read, keep the newest, forget; reports come at any moment."""
    newest: dict[tuple[UUID, str], datetime] = {}
    drained: dict[tuple[UUID, str], datetime] = {}

    async def report(ages: dict[tuple[UUID, str], timedelta]) -> None:
        now = (await signals.read_activity()).at - timedelta(milliseconds=1)
        await signals.record_activity(ages)
        for key, age in ages.items():
            newest[key] = max(newest.get(key, now - age), now - age)

    for before, between in (*rounds, ({}, {})):
        await report(before)
        read = await signals.read_activity()
        for key, at in when(read).items():
            drained[key] = max(drained.get(key, at), at)
        await report(between)
        await signals.forget_activity(read.sightings)
    assert drained.keys() == newest.keys()
    assert all(newest[key] <= drained[key] <= read.at for key in newest)
    assert (await signals.read_activity()).sightings == ()


async def test_two_hubs_live_side_by_side(redis_url: str, prefix: str) -> None:
    """With one buffer each sees both and forgets its own; with two they see nothing of others."""
    async with (
        opened(redis_url, prefix=prefix) as one,
        opened(redis_url, prefix=prefix) as two,
        opened(redis_url, prefix=f"{prefix}-other") as apart,
    ):
        await one.record_activity({(API, "input"): NOTHING})
        await two.record_activity({(WEB, "input"): NOTHING})
        read = await one.read_activity()
        assert when(read).keys() == {(API, "input"), (WEB, "input")}
        await one.forget_activity(each for each in read.sightings if each.workspace_id == API)
        assert when(await two.read_activity()).keys() == {(WEB, "input")}
        await one.write_sentinel("hub one")
        elsewhere = await apart.read_activity()
        assert (elsewhere.sentinel, elsewhere.sightings) == (None, ())


async def test_members_of_others_are_ignored_and_left_alone(
    signals: Signals, admin: redis.Redis, prefix: str
) -> None:
    strange = {
        b"no colon": 1.0,
        b"not-an-id:input": 1.0,
        f"{{{API}}}:input".encode(): 1,
        f"{API.hex}:input".encode(): 1,
        b"\xff\xfe:input": 1.0,
        f"{API}:half".encode(): 1.5,
        f"{API}:negative".encode(): -1,
        f"{API}:endless".encode(): float("inf"),
        f"{API}:minus".encode(): float("-inf"),
        f"{API}:distant".encode(): 1e300,
        f"{API}:year-10000".encode(): 253402300800000,
    }
    admin.zadd(f"{prefix}:activity", strange)
    await signals.record_activity({(API, "a:b c"): NOTHING, (WEB, "입력"): NOTHING})
    read = await signals.read_activity()
    assert when(read).keys() == {(API, "a:b c"), (WEB, "입력")}
    await signals.forget_activity(read.sightings)
    assert admin.zcard(f"{prefix}:activity") == len(strange)


async def test_more_than_one_script_takes_at_once(
    signals: Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = {(UUID(int=number), "input"): NOTHING for number in range(activity.CHUNK + 1)}
    await signals.record_activity(many)
    read = await signals.read_activity()
    assert when(read).keys() == many.keys()
    await signals.forget_activity(read.sightings)
    assert (await signals.read_activity()).sightings == ()


async def test_the_sentinel_is_read_back(signals: Signals) -> None:
    await signals.write_sentinel("first")
    await signals.write_sentinel("hub 4: épreuve")
    assert (await signals.read_activity()).sentinel == "hub 4: épreuve"


async def test_a_flush_takes_all_and_the_server_stays(
    own_signals: RedisSignals, own_admin: redis.Redis
) -> None:
    await own_signals.write_sentinel("here")
    await own_signals.record_activity({(API, "input"): NOTHING})
    before = await own_signals.read_activity()
    own_admin.flushall()
    after = await own_signals.read_activity()
    assert (before.sentinel, len(before.sightings)) == ("here", 1)
    assert (after.sentinel, after.sightings) == (None, ())
    assert after.run_id == before.run_id


async def test_a_restart_shows(own_redis: EmbeddedRedis, own_signals: RedisSignals) -> None:
    await own_signals.write_sentinel("here")
    before = await own_signals.read_activity()
    own_redis.stop()
    with pytest.raises(Unreachable, match="no Redis answers at unix:/"):
        await own_signals.read_activity()
    own_redis.start()
    after = await own_signals.read_activity()
    assert after.sentinel is None
    assert after.run_id != before.run_id


async def test_a_restart_that_brings_an_old_state_back_shows(
    own_redis: EmbeddedRedis, own_signals: RedisSignals, own_admin: redis.Redis
) -> None:
    own_admin.config_set("save", "3600 1")
    await own_signals.write_sentinel("here")
    before = await own_signals.read_activity()
    own_redis.stop()
    own_redis.start()
    after = await own_signals.read_activity()
    assert after.sentinel == before.sentinel
    assert after.run_id != before.run_id


async def test_calls_go_on_after_a_kill_and_a_new_start(
    own_redis: EmbeddedRedis, own_signals: RedisSignals
) -> None:
    """The first call finds a connection that ended meanwhile, and says nothing of it."""
    await own_signals.record_activity({(API, "input"): NOTHING})
    os.kill(pid_of(own_redis), signal.SIGKILL)
    own_redis.start()
    await own_signals.record_activity({(WEB, "input"): NOTHING})
    assert when(await own_signals.read_activity()).keys() == {(WEB, "input")}


async def test_a_killed_redis_is_unreachable(
    own_redis: EmbeddedRedis, own_signals: RedisSignals
) -> None:
    await own_signals.write_sentinel("here")
    os.kill(pid_of(own_redis), signal.SIGKILL)
    await until(lambda: own_redis.running() is None)
    for call in (
        own_signals.read_activity(),
        own_signals.record_activity({(API, "input"): NOTHING}),
        own_signals.forget_activity([Sighting(API, "input", datetime.now(UTC))]),
        own_signals.write_sentinel("here"),
        own_signals.publish("channel", "message"),
        own_signals.check(),
        anext(own_signals.subscribe("channel")),
    ):
        with pytest.raises(Unreachable, match=r"no Redis answers at .* \(Connection refused\)"):
            await call


@pytest.mark.parametrize("known", [True, False], ids=["connected", "not yet connected"])
async def test_one_that_is_stopped_gives_no_answer_in_time(
    own_redis: EmbeddedRedis, known: bool
) -> None:
    async with opened(own_redis.url + HASTE) as signals:
        if known:
            await answer_of(signals)
        os.kill(pid_of(own_redis), signal.SIGSTOP)
        try:
            with pytest.raises(Unreachable, match="no answer in time"):
                await signals.read_activity()
        finally:
            os.kill(pid_of(own_redis), signal.SIGCONT)
        assert (await answer_of(signals)).sightings == ()


async def test_one_that_gives_no_answer_is_not_asked_again() -> None:
    heard: list[bytes] = []
    async with answering(b"", heard) as url, opened(url + HASTE) as signals:
        with pytest.raises(Unreachable, match="no answer in time"):
            await signals.publish("channel", "message")
    assert heard.count(b"PUBLISH") <= 1


async def test_messages_arrive_in_order_and_only_from_their_channel(
    signals: Signals, admin: redis.Redis, prefix: str
) -> None:
    channel = f"{prefix}:sse"
    async with asyncio.timeout(60):
        subscription = signals.subscribe(channel)
        first = asyncio.ensure_future(anext(subscription))
        await until(lambda: dict(admin.pubsub_numsub(channel))[channel.encode()] == 1)
        await signals.publish(f"{channel}:other", "not this one")
        for text in ("one", "둘", ""):
            await signals.publish(channel, text)
        assert [await first, await anext(subscription), await anext(subscription)] == [
            "one",
            "둘",
            "",
        ]
        await subscription.aclose()  # type: ignore[attr-defined]
    await until(lambda: dict(admin.pubsub_numsub(channel))[channel.encode()] == 0)


async def test_one_can_follow_all_channels_of_a_kind(signals: Signals, prefix: str) -> None:
    async with asyncio.timeout(60), aclosing(following(signals, prefix)) as heard:
        assert await anext(heard) is None
        # From here on nothing is missed, so nobody has to wait for the subscription.
        for channel in ("sse:1", "other:1", "wake:wc", "wake:ttl", "sse:2"):
            await signals.publish(f"{prefix}:{channel}", channel)
        assert [await anext(heard) for _ in range(3)] == ["sse:1", "wake:wc", "sse:2"]


async def test_a_lost_connection_ends_following_too(
    own_signals: RedisSignals, own_admin: redis.Redis
) -> None:
    async with asyncio.timeout(60), aclosing(following(own_signals, "p")) as heard:
        assert await anext(heard) is None
        own_admin.client_kill_filter(_type="pubsub")
        with pytest.raises(Unreachable, match="no Redis answers"):
            await anext(heard)


async def test_following_a_quiet_kind_is_no_lost_connection(
    signals: Signals, admin: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals_module, "QUIET_SECONDS", 0.01)
    async with asyncio.timeout(60), aclosing(following(signals, prefix)) as heard:
        assert await anext(heard) is None
        before = pings(admin)
        waiting = asyncio.ensure_future(anext(heard))
        await until(lambda: pings(admin) > before + 3)
        await signals.publish(f"{prefix}:sse:1", "at last")
        assert await waiting == "at last"


def pings(admin: redis.Redis) -> int:
    return int(admin.info("commandstats").get("cmdstat_ping", {"calls": 0})["calls"])


def following(signals: Signals, prefix: str) -> AsyncGenerator[str | None, None]:
    patterns = (f"{prefix}:sse:*", f"{prefix}:wake:wc")
    return cast("AsyncGenerator[str | None, None]", signals.follow(patterns))


async def test_a_message_nobody_hears_is_no_error(signals: Signals) -> None:
    await signals.publish("nobody", "hello")


async def test_a_quiet_channel_is_no_lost_connection(
    signals: Signals, admin: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals_module, "QUIET_SECONDS", 0.01)
    before = pings(admin)
    async with asyncio.timeout(60):
        subscription = signals.subscribe(prefix)
        first = asyncio.ensure_future(anext(subscription))
        await until(lambda: pings(admin) > before + 3)
        await signals.publish(prefix, "at last")
        assert await first == "at last"
        await subscription.aclose()  # type: ignore[attr-defined]


async def test_a_lost_connection_ends_a_subscription(
    own_redis: EmbeddedRedis, own_signals: RedisSignals, own_admin: redis.Redis
) -> None:
    """And does not quietly begin a new one: messages in between are lost, its caller must know."""
    waiting = asyncio.ensure_future(anext(own_signals.subscribe("channel")))
    await until(lambda: dict(own_admin.pubsub_numsub("channel"))[b"channel"] == 1)
    own_admin.client_kill_filter(_type="pubsub")
    async with asyncio.timeout(60):
        with pytest.raises(Unreachable, match="no Redis answers"):
            await waiting
        await own_signals.publish("channel", "still there")


@pytest.mark.parametrize("known", [True, False], ids=["subscribed", "not yet subscribed"])
async def test_a_silent_redis_ends_a_subscription(
    own_redis: EmbeddedRedis,
    own_signals: RedisSignals,
    own_admin: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
    known: bool,
) -> None:
    monkeypatch.setattr(signals_module, "QUIET_SECONDS", 0.1 if known else 1000)
    await own_signals.read_activity()
    waiting = asyncio.ensure_future(anext(own_signals.subscribe("channel")))
    if known:
        await until(lambda: dict(own_admin.pubsub_numsub("channel"))[b"channel"] == 1)
    os.kill(pid_of(own_redis), signal.SIGSTOP)
    monkeypatch.setattr(signals_module, "ANSWER_SECONDS", 0.3)
    try:
        async with asyncio.timeout(60):
            with pytest.raises(Unreachable, match="no answer in time"):
                await waiting
    finally:
        os.kill(pid_of(own_redis), signal.SIGCONT)


async def test_check_tells_the_version(signals: RedisSignals) -> None:
    version = await signals.check()
    assert tuple(int(part) for part in version.split(".")) >= (6, 2)


async def test_a_password_is_used_and_a_wrong_one_never_shown(
    own_redis: EmbeddedRedis, own_admin: redis.Redis
) -> None:
    own_admin.config_set("requirepass", "right-secret")
    place = own_redis.url.removeprefix("unix://")
    async with opened(f"unix://:right-secret@{place}") as right:
        assert (await right.read_activity()).sightings == ()
    async with opened(own_redis.url) as none:
        with pytest.raises(Unreachable, match=r"wants a password$"):
            await none.read_activity()
    for wrong in (f"unix://:wrong-secret@{place}", f"unix://{place}?password=wrong-secret"):
        async with opened(wrong) as signals:
            with pytest.raises(Unreachable, match=r"refused the password$") as caught:
                await signals.read_activity()
            assert "REDIS_URL" in (caught.value.hint or "")
            assert "secret" not in "".join(traceback.format_exception(caught.value))


async def test_a_password_that_nobody_wants(redis_url: str) -> None:
    async with opened(redis_url.replace("unix://", "unix://:needless@")) as signals:
        with pytest.raises(Unreachable, match=r"wants no password$"):
            await signals.check()


async def test_a_user_without_rights_is_told_which(
    own_redis: EmbeddedRedis, own_admin: redis.Redis
) -> None:
    url = own_redis.url.replace("unix://", "unix://bob:secret@")
    for allowed in ("+get", "+eval"):
        own_admin.acl_setuser(
            "bob", enabled=True, passwords=["+secret"], commands=[allowed], keys=["*"]
        )
        async with opened(url) as signals:
            for call in (
                signals.record_activity({(API, "input"): NOTHING}),
                signals.read_activity(),
            ):
                with pytest.raises(Unreachable, match="does not let its user") as caught:
                    await call
                assert "ZADD" in (caught.value.hint or "")


async def test_a_replica_is_not_written_to(
    own_signals: RedisSignals, own_admin: redis.Redis
) -> None:
    own_admin.replicaof("127.0.0.1", 1)
    for call in (
        own_signals.record_activity({(API, "input"): NOTHING}),
        own_signals.write_sentinel("here"),
    ):
        with pytest.raises(Unreachable, match="is a read-only replica"):
            await call
    with pytest.raises(Unreachable, match="is a replica"):
        await own_signals.check()
    own_admin.config_set("replica-serve-stale-data", "no")
    with pytest.raises(Unreachable, match="replica without primary"):
        await own_signals.read_activity()


async def test_a_full_redis_says_so(own_signals: RedisSignals, own_admin: redis.Redis) -> None:
    own_admin.config_set("maxmemory", 1)
    for call in (
        own_signals.record_activity({(API, "input"): NOTHING}),
        own_signals.write_sentinel("here"),
    ):
        with pytest.raises(Unreachable, match="is out of memory") as caught:
            await call
        assert "maxmemory" in (caught.value.hint or "")


async def test_foreign_data_under_our_keys_is_not_touched(
    signals: Signals, admin: redis.Redis, prefix: str
) -> None:
    admin.set(f"{prefix}:activity", "theirs")
    for call in (signals.read_activity(), signals.record_activity({(API, "input"): NOTHING})):
        with pytest.raises(Unreachable, match="another's data under our keys"):
            await call
    assert admin.get(f"{prefix}:activity") == b"theirs"


@pytest.mark.parametrize(
    ("answer", "meaning"),
    [
        (b"-LOADING Redis is loading the dataset in memory\r\n", "is still loading its data"),
        (b"-MISCONF Redis is configured to save RDB snapshots\r\n", "cannot save to its disk"),
        (b"-BUSY Redis is busy running a script.\r\n", "busy with somebody's script"),
        (b"-ERR max number of clients reached\r\n", "has no connection left"),
        (b"-DENIED Redis is running in protected mode\r\n", "takes no connection from here"),
        (b"-MOVED 3999 127.0.0.1:6381\r\n", "is part of a cluster"),
        (b"-ERR syntax error\r\n", "is older than 6.2"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak Redis's protocol"),
        (b"-ERR something new, with args beginning with: `secret`\r\n", "refuses: something new$"),
    ],
)
async def test_what_it_says_is_put_in_words(answer: bytes, meaning: str) -> None:
    async with answering(answer) as url, opened(url) as signals:
        with pytest.raises(Unreachable, match=meaning) as caught:
            await signals.record_activity({(API, "input"): NOTHING})
        assert caught.value.hint
        assert "secret" not in caught.value.message


async def test_an_old_redis_is_named_with_its_version() -> None:
    text = b"redis_version:5.0.7\r\nrole:master\r\n"
    info = b"$%d\r\n%s\r\n" % (len(text), text)
    async with answering(info) as url, opened(url) as signals:
        with pytest.raises(Unreachable, match=r"is 5\.0\.7, older than 6\.2"):
            await signals.check()


async def test_nobody_at_the_address() -> None:
    async with opened("redis://user:secret@127.0.0.1:1/3") as signals:
        with pytest.raises(Unreachable) as caught:
            await signals.read_activity()
    assert caught.value.message == (
        "no Redis answers at redis://127.0.0.1:1/3 (Connection refused)"
    )


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:6379",
        "http://localhost",
        "redis://:secret@host:port/0",
        "redis://:secret@host?socket_timeout=soon",
        "redis://:secret@host?no_such_option=1",
    ],
)
async def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="REDIS_URL is not the address of a Redis") as caught:
        RedisSignals(url)
    assert "redis://" in (caught.value.hint or "")
    assert "secret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://user:secret@host:6379/1?password=secret", "redis://host:6379/1"),
        ("rediss://secret@host", "rediss://host"),
        ("unix://:secret@/run/redis.sock?password=secret", "unix:///run/redis.sock"),
        ("redis://:1/secret@host", "redis://localhost"),
        ("redis://:1#secret@host", "redis://localhost"),
        ("redis://:secret@host:port", "(an address that cannot be read)"),
        ("redis://[::1:secret", "(an address that cannot be read)"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert redacted(url) == shown


@pytest.mark.parametrize("listen", ["subscribe", "follow"])
async def test_a_subscriber_ends_whenever_it_is_cancelled(
    signals: RedisSignals, prefix: str, listen: str
) -> None:
    """Also in the very step in which Redis answers, where the client's library may drop it."""

    async def hear() -> None:
        channel = f"{prefix}-news"
        heard = signals.subscribe(channel) if listen == "subscribe" else signals.follow([channel])
        async for _ in heard:
            pass

    for steps in range(80):
        task = asyncio.create_task(hear())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=60)
        assert done, f"it goes on after a cancellation in step {steps}"
        assert task.cancelled()
