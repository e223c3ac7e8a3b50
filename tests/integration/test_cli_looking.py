"""`codehub explain`, `events` and `logs` on a real database and real processes."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from codehub.adapters.process import ProcessRuntime
from codehub.model.events import EventKind
from codehub.model.explanation import Queued
from codehub.model.runtime import StartRequest, VolumeRef
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Phase
from codehub.model.workspace import Intent, Runtime, Status
from codehub.service.explaining import explain_workspace
from codehub.service.limits import LimitDefaults
from codehub.store.advisory import OURS, Lock
from codehub.store.connect import connect
from codehub.store.events import append, entry
from codehub.store.fence import take_epoch
from codehub.store.hubs import ensure_hub_id
from tests.integration.command_line import run_codehub
from tests.integration.following import follow_codehub
from tests.integration.stored import insert, number
from tests.make import workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from codehub.model.explanation import Explanation
    from codehub.model.workspace import Workspace
    from tests.integration.command_line import Ran
    from tests.integration.following import Following

HOUR = timedelta(hours=1)
GRACE = timedelta(seconds=5)


class Place:
    """A hub that somebody looks at from an empty directory."""

    def __init__(self, root: Path, url: str) -> None:
        self.root = root
        self.url = url
        self.data = root / "data"
        self._env = {"DATABASE_URL": url, "CODEHUB_DATA": str(self.data)}

    def run(self, *words: str) -> Ran:
        return run_codehub(*words, cwd=self.root, env=self._env)

    def follow(self, *words: str) -> AbstractContextManager[Following]:
        return follow_codehub(*words, cwd=self.root, env=self._env)

    def holding(self, *rows: Workspace) -> None:
        self.does(lambda conn: insert(conn, *rows))

    def tells(self, *entries: dict[str, str]) -> None:
        self.does(lambda conn: append(conn, entries))

    def does(self, work: Callable[[Any], Awaitable[object]]) -> Any:
        async def run() -> object:
            async with await connect(self.url) as conn:
                return await work(conn)

        return asyncio.run(run())

    def explained(self, name: str, **limits: int) -> Explanation:
        """As the command has it, without a process of its own."""
        defaults = LimitDefaults(**limits)
        found: Explanation = self.does(lambda conn: explain_workspace(conn, name, limits=defaults))
        return found

    @contextmanager
    def led(self, holder: str = "host-1") -> Iterator[None]:
        """Somebody leads for a while."""
        self.does(lambda conn: take_epoch(conn, "coordinator", holder))
        with psycopg.connect(self.url, autocommit=True) as conn:
            conn.execute("SELECT pg_advisory_lock(%s, %s)", (OURS, int(Lock.LEADER)))
            yield


@pytest.fixture
def place(tmp_path: Path, database_url: str) -> Place:
    return Place(tmp_path, database_url)


def told(name: str, new: str, key: int = 1, **fields: str) -> dict[str, str]:
    fields = {"old": "RUNNING", "source": "cli", "by": "alice"} | fields
    return entry(number(key), name, EventKind.DESIRED, new=new, **fields)


# explain


def test_explain_tells_what_is_stored(place: Place) -> None:
    now = datetime.now(UTC)
    row = workspace(
        "api",
        intent=Intent(DesiredState.STANDBY, IntentSource.CLI, now - HOUR, "alice"),
        status=Status(Phase.STANDBY, now - HOUR, home_store_key="v", observed_generation=1),
    )
    place.holding(row)
    place.tells(told("api", "STANDBY", reason="lunch"))
    with place.led():
        ran = place.run("explain", "api")
    assert ran.code == 0, ran.err
    assert "api has been STANDBY for 1h" in ran.out
    assert "stopped by alice 1h ago" in ran.out
    assert ": lunch" in ran.out
    assert "host-1 has led for" in ran.out
    assert "epoch 1" in ran.out


def test_without_a_leader_explain_says_so_first(place: Place) -> None:
    place.holding(workspace("api"))
    with place.led("host-7"):
        pass
    first = place.explained("api").blocks[0]
    assert "no coordinator leads" in first.message
    assert "the last one was host-7" in first.message
    assert "serve coordinator" in first.advice


def test_a_limit_shows_the_place_in_the_queue(place: Place) -> None:
    now = datetime.now(UTC)
    running = Status(Phase.RUNNING, now, home_store_key="v")
    asleep = Status(Phase.STANDBY, now, home_store_key="v")
    asked = [Intent(DesiredState.RUNNING, at=now - n * HOUR) for n in (9, 8, 3, 2)]
    place.holding(
        workspace("one", number=1, status=running, intent=asked[0]),
        workspace("two", number=2, status=running, intent=asked[1]),
        workspace("three", number=3, status=asleep, intent=asked[2]),
        workspace("four", number=4, status=asleep, intent=asked[3]),
        workspace("other", number=5, owner="bob", status=running, intent=asked[0]),
    )
    both = ("one", "two")
    assert place.explained("four").queued == Queued(2, 2, "alice", both, both)
    assert place.explained("three").queued == Queued(1, 2, "alice", both, both)
    assert place.explained("one").queued is None


def test_the_limit_of_the_hub_counts_everybody(place: Place) -> None:
    now = datetime.now(UTC)
    place.holding(
        workspace("one", number=1, owner="bob", status=Status(Phase.RUNNING, now)),
        workspace("two", number=2, status=Status(Phase.STANDBY, now, home_store_key="v")),
    )
    assert place.explained("two", max_running_global=1).queued == Queued(1, 1)


def test_the_end_of_blindness_is_read_from_the_database(place: Place) -> None:
    now = datetime.now(UTC)
    status = Status(Phase.RUNNING, now - 5 * HOUR, home_store_key="v")
    place.holding(workspace("api", status=status))
    before = place.explained("api")
    place.does(
        lambda conn: conn.execute(
            "INSERT INTO activity_sync (drained_at, blind_until) VALUES (now(), now())"
        )
    )
    after = place.explained("api")
    assert before.next is not None
    assert before.next.at == before.now
    assert after.next is not None
    assert after.next.at > after.now


def test_a_deleted_workspace_is_explained_within_its_retention(place: Place) -> None:
    now = datetime.now(UTC)
    status = Status(Phase.DELETED, now, deleted_at=now - HOUR, archive_key="a")
    place.holding(workspace("api", desired=DesiredState.DELETED, status=status))
    explanation = place.explained("api")
    assert explanation.headline == "api was deleted 1h ago"
    assert "put it back into the specs" in explanation.lines[-1].text


def test_of_two_with_one_name_the_living_one_is_explained(place: Place) -> None:
    now = datetime.now(UTC)
    gone = Status(Phase.DELETED, now, deleted_at=now)
    place.holding(
        workspace("api", number=1, desired=DesiredState.DELETED, status=gone),
        workspace("api", number=2),
    )
    assert place.explained("api").workspace.id == number(2)


def test_explain_writes_nothing(place: Place) -> None:
    place.holding(workspace("api", status=Status(Phase.ERROR, error_reason=ErrorReason.TIMEOUT)))
    query = "SELECT xmin::text, ctid::text FROM workspaces"
    with psycopg.connect(place.url) as conn:
        before = conn.execute(query).fetchall()
    ran = place.run("explain", "api", "--format", "json")
    assert json.loads(ran.out)["error"]["reason"] == "Timeout"
    with psycopg.connect(place.url) as conn:
        assert conn.execute(query).fetchall() == before


@pytest.mark.parametrize("verb", ["explain", "events", "logs"])
def test_a_misspelt_name_is_guessed(place: Place, verb: str) -> None:
    place.holding(workspace("payments"))
    ran = place.run(verb, "paymets")
    assert ran.code == 1
    assert 'did you mean "payments"' in ran.err
    assert ran.out == ""


# events


def numbered(*range_: int) -> list[dict[str, str]]:
    return [told("api", f"S{each}") for each in range(*range_)]


def test_events_are_read_oldest_first(place: Place) -> None:
    place.holding(workspace("api"), workspace("web", number=2))
    place.tells(*numbered(3), told("web", "other", key=2))
    ran = place.run("events", "api")
    assert ran.code == 0
    assert [line.split("-> ")[1].split()[0] for line in ran.out.splitlines()] == ["S0", "S1", "S2"]
    assert "other" in place.run("events").out


def test_events_for_scripts_can_be_paged(place: Place) -> None:
    place.holding(workspace("api"))
    place.tells(*numbered(5))
    words = ("events", "--format", "json", "--limit", "2")
    latest = [json.loads(line) for line in place.run(*words).out.splitlines()]
    assert [each["new"] for each in latest] == ["S3", "S4"]
    first = latest[0]["id"] - 3
    rest = place.run(*words, "--since", str(first)).out.splitlines()
    assert [json.loads(line)["new"] for line in rest] == ["S1", "S2"]


def test_events_of_the_last_while(place: Place) -> None:
    place.holding(workspace("api"))
    place.does(
        lambda conn: conn.execute(
            "INSERT INTO workspace_events (workspace_id, workspace_name, kind, new, at)"
            " VALUES (%s, 'api', 'desired', 'ancient', now() - interval '2 hours')",
            (number(1),),
        )
    )
    place.tells(*numbered(2))
    assert "ancient" in place.run("events", "--since", "3h").out
    recent = place.run("events", "--since", "1h").out
    assert "ancient" not in recent
    assert recent.count("\n") == 2


def test_since_must_be_an_id_or_a_while(place: Place) -> None:
    ran = place.run("events", "--since", "yesterday")
    assert ran.code == 64
    assert "90s" in ran.err


def test_following_shows_what_happens_until_ctrl_c(place: Place) -> None:
    place.holding(workspace("api"), workspace("web", number=2))
    place.tells(told("api", "before"))
    with place.follow("events", "api", "-f", "--format", "json") as following:
        assert json.loads(following.line() or "")["new"] == "before"
        place.tells(told("web", "elsewhere", key=2), told("api", "after"))
        assert json.loads(following.line() or "")["new"] == "after"
        assert following.interrupt() == 0
        assert following.errors() == ""


def test_following_finds_what_commits_late_and_tells_nothing_twice(place: Place) -> None:
    place.holding(workspace("api"))
    place.tells(told("api", "first"))
    insert_late = (
        "INSERT INTO workspace_events (workspace_id, workspace_name, kind, new)"
        " VALUES (%s, 'api', 'desired', 'late')"
    )
    with place.follow("events", "-f") as following, psycopg.connect(place.url) as slow:
        following.line_with("first")
        slow.execute(insert_late, (number(1),))
        place.tells(told("api", "second"))
        following.line_with("second")
        slow.commit()
        assert "late" in (following.line() or "")
        place.tells(told("api", "third"))
        assert "third" in (following.line() or "")
        assert following.interrupt() == 0


def test_following_outlives_a_lost_connection(place: Place) -> None:
    place.holding(workspace("api"))
    place.tells(told("api", "before"))
    end_others = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with place.follow("events", "-f") as following:
        following.line_with("before")
        place.does(lambda conn: conn.execute(end_others))
        place.tells(told("api", "after"))
        assert "after" in (following.line() or "")
        assert following.interrupt() == 0
        assert "trying again" in following.errors()


# logs

SCRIPT = """
import os, socket
print("hello from the workspace", flush=True)
with socket.create_server(("127.0.0.1", int(os.environ["PORT"]))) as server:
    while True:
        conn = server.accept()[0]
        said = conn.recv(100).decode()
        conn.close()
        if said.startswith("say "):
            print("heard", said[4:], flush=True)
"""


@asynccontextmanager
async def running(runtime: ProcessRuntime, row: Workspace) -> AsyncIterator[None]:
    """The workspace as a real process, which is gone afterwards."""

    async def confirm() -> None:
        return None

    volume = VolumeRef(row.id, 1)
    await runtime.claim()
    await runtime.create_volume(volume)
    request = StartRequest(
        row.id,
        row.name,
        volume,
        op_id=number(99),
        template_digest="t",
        command=(sys.executable, "-c", SCRIPT),
        env={},
        port=8080,
    )
    try:
        await runtime.start(request, confirm)
        yield
    finally:
        await runtime.stop(row.id, GRACE)


def runtime_of(place: Place) -> ProcessRuntime:
    hub_id = place.does(ensure_hub_id)
    return ProcessRuntime(place.data / "workspaces", str(hub_id))


async def say(runtime: ProcessRuntime, row: Workspace, words: str) -> None:
    upstream = await runtime.upstream(row.id)
    assert upstream is not None
    with socket.create_connection((upstream.host, upstream.port), timeout=60) as conn:
        conn.sendall(f"say {words}".encode())
        conn.recv(1)


def test_logs_shows_the_last_lines(place: Place) -> None:
    row = workspace("api")
    place.holding(row)
    runtime = runtime_of(place)

    async def scene() -> tuple[Ran, Ran]:
        async with running(runtime, row):
            await say(runtime, row, "one")
            await say(runtime, row, "two")
            return (
                await asyncio.to_thread(place.run, "logs", "api"),
                await asyncio.to_thread(place.run, "logs", "api", "--lines", "1"),
            )

    everything, last = asyncio.run(scene())
    assert everything.code == 0, everything.err
    assert everything.out == "hello from the workspace\nheard one\nheard two\n"
    assert last.out == "heard two\n"


def test_logs_follows_until_it_stops(place: Place) -> None:
    row = workspace("api")
    place.holding(row)
    runtime = runtime_of(place)

    async def scene() -> tuple[str | None, str, int]:
        async with running(runtime, row):
            with place.follow("logs", "api", "-f") as following:
                hello = await asyncio.to_thread(following.line)
                await say(runtime, row, "live")
                heard = await asyncio.to_thread(following.line_with, "heard live")
                await runtime.stop(row.id, GRACE)
                code = await asyncio.to_thread(following.process.wait, 110)
                assert "api has stopped" in following.errors()
                return hello, heard, code

    hello, heard, code = asyncio.run(scene())
    assert (hello, heard, code) == ("hello from the workspace\n", "heard live\n", 0)


def test_ctrl_c_ends_following_logs_well(place: Place) -> None:
    row = workspace("api")
    place.holding(row)
    runtime = runtime_of(place)

    async def scene() -> int:
        async with running(runtime, row):
            with place.follow("logs", "api", "-f") as following:
                await asyncio.to_thread(following.line_with, "hello")
                return await asyncio.to_thread(following.interrupt)

    assert asyncio.run(scene()) == 0


def test_logs_of_one_that_has_not_run_yet(place: Place) -> None:
    place.holding(workspace("api"))
    asyncio.run(runtime_of(place).claim())
    ran = place.run("logs", "api")
    assert ran.code == 1
    assert "has not run here" in ran.err
    assert "codehub explain api" in ran.err


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (
            {"status": Status(Phase.ERROR, error_message="the image cannot be pulled")},
            "the last try failed (the image cannot be pulled)",
        ),
        (
            {"status": Status(Phase.ARCHIVED, archive_key="k", archive_bytes=1)},
            "its output went when its home was archived",
        ),
    ],
)
def test_logs_of_one_that_left_none_say_what_became_of_it(
    place: Place, row: dict[str, Any], says: str
) -> None:
    place.holding(workspace("api", **row))
    asyncio.run(runtime_of(place).claim())
    ran = place.run("logs", "api")
    assert ran.code == 1
    assert says in ran.err
    assert ("archived" in ran.err) is (row["status"].phase is Phase.ARCHIVED)


def test_logs_where_the_hubs_workspaces_are_elsewhere(place: Place) -> None:
    place.holding(workspace("api"))
    place.does(ensure_hub_id)
    ran = place.run("logs", "api")
    assert ran.code == 1
    assert "has not run on this machine" in ran.err
    assert not place.data.exists()


def test_a_data_root_of_another_hub_is_not_read(place: Place) -> None:
    place.holding(workspace("api"))
    place.does(ensure_hub_id)
    asyncio.run(ProcessRuntime(place.data / "workspaces", "another").claim())
    ran = place.run("logs", "api")
    assert ran.code == 1
    assert "belongs to another hub" in ran.err


def test_logs_of_docker_are_not_shown_here(place: Place) -> None:
    place.holding(workspace("api", runtime=Runtime.DOCKER, image="i"))
    place.does(ensure_hub_id)
    ran = place.run("logs", "api")
    assert ran.code == 1
    assert "docker" in ran.err
