"""`codehub doctor`: it finds what is wrong, says how to fix it, and changes nothing."""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import psycopg
import pytest

from codehub.adapters.localstore import LocalStore
from codehub.adapters.process import ProcessRuntime
from codehub.adapters.redis import RedisSignals
from codehub.embedded import home
from codehub.embedded.redis import EmbeddedRedis
from codehub.errors import DatabaseProblem, Unreachable
from codehub.model.checkup import Health, Verdict, well
from codehub.model.revision import UNREADABLE, UNSAFE, Origin
from codehub.model.runtime import VolumeRef
from codehub.model.signals import ActivityRead, Sighting
from codehub.model.states import ErrorReason, Phase
from codehub.model.workspace import HomeContext, Status
from codehub.service.check_database import (
    check_session,
    judge_clock,
    judge_server,
    look_at_server,
    look_at_session,
    look_at_specs,
    look_at_volumes,
    look_at_workspaces,
    look_for_leader,
)
from codehub.service.check_machine import look_at_data, look_for_forgotten
from codehub.service.check_probe import try_store
from codehub.service.check_redis import LEFT_BEHIND, PREFIX, look_at_redis, try_buffer
from codehub.service.checkup import Check, run_checks, shared
from codehub.service.threads import in_thread
from codehub.store.advisory import OURS, Lock
from codehub.store.connect import connect
from codehub.store.hubs import ensure_hub_id
from codehub.store.revisions import record_failed
from codehub.store.workspaces import fetch
from tests.integration.command_line import run_codehub
from tests.integration.relay import TransactionPooler
from tests.integration.stored import apply, insert, number
from tests.make import NOW, declaration, spec_set, workspace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from codehub.model.checkup import Finding
    from tests.integration.command_line import Ran


def findings(ran: Ran) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in json.loads(ran.out)["checks"]}


def healths(found: Iterable[Finding]) -> dict[str, str]:
    return {each.name: each.health.value for each in found}


# Each check stands alone


async def fine() -> Verdict:
    return well("fine")


async def refusing() -> Verdict:
    raise Unreachable("nobody answers", hint="start it")


async def faulty() -> Verdict:
    raise ValueError("a fault of the check")


async def hanging() -> Verdict:
    await asyncio.Event().wait()
    return well("never")


def test_one_check_never_hides_another() -> None:
    found = asyncio.run(
        run_checks(
            [
                Check("refusing", refusing),
                Check("hanging", hanging, seconds=0.01),
                Check("faulty", faulty),
                Check("fine", fine),
            ]
        )
    )
    assert healths(found) == {
        "refusing": "problem",
        "hanging": "problem",
        "faulty": "problem",
        "fine": "ok",
    }
    assert found[0].verdict == Verdict(Health.PROBLEM, "nobody answers", "start it")
    assert "ValueError" in found[2].verdict.message


def test_a_thread_that_hangs_does_not_keep_the_command_from_ending() -> None:
    forever = Event()

    async def stuck() -> Verdict:
        await in_thread(forever.wait)
        return well("never")

    try:
        (found,) = asyncio.run(run_checks([Check("stuck", stuck, seconds=0.01)]))
    finally:
        forever.set()
    assert "no answer" in found.verdict.message


async def silent() -> Verdict | None:
    return None


def test_a_check_with_nothing_to_say_is_left_out() -> None:
    found = asyncio.run(run_checks([Check("silent", silent), Check("fine", fine)]))
    assert healths(found) == {"fine": "ok"}


def test_what_several_checks_want_to_know_is_asked_once() -> None:
    asked: list[int] = []

    async def ask() -> Verdict:
        asked.append(1)
        raise Unreachable("nobody answers")

    answer = shared(ask)
    found = asyncio.run(run_checks([Check("one", answer), Check("two", answer)]))
    assert healths(found) == {"one": "problem", "two": "problem"}
    assert asked == [1]


def test_who_gives_up_takes_nothing_from_the_others() -> None:
    async def scene() -> tuple[Finding, ...]:
        given_up = asyncio.Event()

        async def ask() -> Verdict:
            await given_up.wait()
            return well("late")

        async def give_up_first() -> Verdict:
            try:
                return await answer()
            finally:
                given_up.set()

        answer = shared(ask)
        return await run_checks([Check("one", give_up_first, 0.01), Check("two", answer)])

    assert healths(asyncio.run(scene())) == {"one": "problem", "two": "ok"}


def test_an_interruption_waits_for_what_a_check_takes_back() -> None:
    done: list[str] = []

    async def careful() -> Verdict:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            done.append("taken back")
        return well("never")

    async def scene() -> None:
        running = asyncio.create_task(
            run_checks([Check("hanging", hanging), Check("careful", careful)])
        )
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        assert done == ["taken back"]

    asyncio.run(scene())


def test_what_a_thread_raises_arrives() -> None:
    def fail() -> Verdict:
        raise Unreachable("no disk")

    with pytest.raises(Unreachable, match="no disk"):
        asyncio.run(in_thread(fail))


# The machine


def test_where_a_server_really_keeps_its_files_is_told(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "location").write_text("/var/lib/codehub/postgres-x\n")
    verdict = look_at_data(tmp_path)
    assert "postgres keeps its files in /var/lib/codehub/postgres-x" in verdict.message


def test_files_that_no_data_directory_leads_to_are_named_and_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home, "OUTSIDE", tmp_path / "outside")
    assert look_for_forgotten() is None
    made = {name: tmp_path / "outside" / f"redis-{name}" for name in ("used", "gone", "replaced")}
    for name, place in made.items():
        place.mkdir(parents=True)
        (place / home.MADE_FOR).write_text(f"{tmp_path / name / 'redis'}\n")
    for name, used in (("used", made["used"]), ("replaced", made["used"])):
        (tmp_path / name / "redis").mkdir(parents=True)
        (tmp_path / name / "redis" / "location").write_text(f"{used}\n")

    verdict = look_for_forgotten()

    assert verdict is not None
    assert verdict.health is Health.WARNING
    assert verdict.fix.endswith(f"rm -r {made['gone']} {made['replaced']}")
    assert f"{made['gone']} (of {tmp_path / 'gone' / 'redis'})" in verdict.message
    assert made["gone"].is_dir()


def test_a_data_directory_that_is_a_file_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    verdict = look_at_data(tmp_path / "file" / "data")
    assert verdict.health is Health.PROBLEM
    assert "--data" in verdict.fix


def test_a_data_directory_that_can_be_made_is_fine(tmp_path: Path) -> None:
    verdict = look_at_data(tmp_path / "a" / "b")
    assert "not there yet" in verdict.message
    assert list(tmp_path.iterdir()) == []


# The database


@pytest.mark.anyio
async def test_a_session_of_ones_own_passes(database_url: str) -> None:
    async with await connect(database_url) as conn, await connect(database_url) as other:
        await check_session(conn, other)
        held = await (
            await conn.execute("SELECT FROM pg_locks WHERE locktype = 'advisory'")
        ).fetchall()
        assert held == []


@pytest.mark.anyio
async def test_two_clients_on_one_session_are_a_pooler(database_url: str) -> None:
    async with await connect(database_url) as shared:
        with pytest.raises(DatabaseProblem, match="transaction pooler"):
            await check_session(shared, shared)


@pytest.mark.anyio
async def test_a_pooler_in_between_is_found_and_keeps_no_lock(database_url: str) -> None:
    async with TransactionPooler(database_url) as pooler:
        (found,) = await run_checks([Check("session", partial(look_at_session, pooler.url))])
        assert found.health is Health.PROBLEM
        assert "transaction pooler" in found.verdict.message
        assert "session mode" in found.verdict.fix
        async with await connect(database_url) as conn:
            assert await fetch(conn, "SELECT FROM pg_locks WHERE locktype = 'advisory'") == []


@pytest.mark.anyio
async def test_the_servers_version_is_told_without_its_password(database_url: str) -> None:
    verdict = await look_at_server(database_url)
    assert verdict.health is Health.OK
    assert verdict.message.startswith("PostgreSQL ")


@pytest.mark.parametrize(("number", "health"), [(130014, Health.WARNING), (140000, Health.OK)])
def test_an_old_server_is_told(number: int, health: Health) -> None:
    verdict = judge_server(number, "db.internal")
    assert verdict.health is health
    assert ("PostgreSQL 14 or newer" in verdict.fix) is (health is Health.WARNING)


@pytest.mark.parametrize(
    ("theirs", "health", "words"),
    [
        (NOW, Health.OK, "within"),
        (NOW + timedelta(seconds=4), Health.OK, "within"),
        (NOW - timedelta(minutes=2), Health.WARNING, "2m behind"),
        (NOW + timedelta(hours=1), Health.WARNING, "ahead of"),
    ],
)
def test_clocks_that_differ_are_told(theirs: datetime, health: Health, words: str) -> None:
    verdict = judge_clock(theirs, NOW, NOW + timedelta(seconds=1))
    assert verdict.health is health
    assert words in verdict.message


def test_a_slow_answer_is_no_skew() -> None:
    theirs = NOW + timedelta(seconds=10)
    assert judge_clock(theirs, NOW, NOW + timedelta(seconds=20)).health is Health.OK


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("digest", "problem", "command"),
    [
        (f"{UNREADABLE}9", "specs/a.yaml:1:1: not YAML", "codehub validate"),
        ("d9", "specs/a.yaml:4:3: runtime docker is not enabled", "codehub plan"),
        ("d9", f"{UNSAFE}4 of 9 would be deleted", "codehub apply --force"),
    ],
)
async def test_a_failed_revision_is_told_with_the_one_in_force_and_what_helps(
    database_url: str, digest: str, problem: str, command: str
) -> None:
    assert "codehub apply" in (await look_at_specs(database_url)).fix
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(declaration("api")))
        assert (await look_at_specs(database_url)).health is Health.OK
        await record_failed(
            conn,
            digest=digest,
            origin=Origin("specs"),
            problems=[problem],
            author="watcher",
            source="watcher",
        )
    verdict = await look_at_specs(database_url)
    assert verdict.health is Health.WARNING
    assert problem in verdict.message
    assert "revision 1 stays in force" in verdict.message
    assert f"'{command}'" in verdict.fix
    assert ("validate" in verdict.fix) == digest.startswith(UNREADABLE)


@pytest.mark.anyio
async def test_workspaces_in_error_are_counted_and_named(database_url: str) -> None:
    assert (await look_at_workspaces(database_url)).health is Health.OK
    wrong = Status(Phase.ERROR, error_reason=ErrorReason.TIMEOUT)
    rows = [workspace(f"w{each}", number=each, status=wrong) for each in range(1, 8)]
    async with await connect(database_url) as conn:
        await insert(conn, *rows, workspace("well", number=9))
    verdict = await look_at_workspaces(database_url)
    assert verdict.health is Health.WARNING
    assert "7 of 8 in ERROR: w1, w2, w3, w4, w5 and 2 more" in verdict.message
    assert "codehub explain w1" in verdict.fix


@pytest.mark.anyio
async def test_a_hub_without_a_leader_is_a_problem_unless_it_is_ones_own(database_url: str) -> None:
    assert (await look_for_leader(database_url, embedded=False)).health is Health.PROBLEM
    assert (await look_for_leader(database_url, embedded=True)).health is Health.WARNING


@pytest.mark.anyio
async def test_homes_of_unknown_workspaces_are_named_and_left(
    database_url: str, tmp_path: Path
) -> None:
    root = tmp_path / "workspaces"
    async with await connect(database_url) as conn:
        await insert(conn, workspace("api"))
        hub_id = await ensure_hub_id(conn)
    assert (await look_at_volumes(database_url, root)).health is Health.OK
    runtime = ProcessRuntime(root, str(hub_id))
    await runtime.claim()
    await runtime.create_volume(VolumeRef(number(1), 1))
    assert (await look_at_volumes(database_url, root)).health is Health.OK
    stranger = VolumeRef(UUID(int=77), 3)
    await runtime.create_volume(stranger)
    verdict = await look_at_volumes(database_url, root)
    assert verdict.health is Health.WARNING
    assert stranger.name in verdict.message
    assert (root / "volumes" / stranger.name).is_dir()


@pytest.mark.anyio
async def test_a_home_that_came_back_after_it_was_given_up_is_named_and_left(
    database_url: str, tmp_path: Path
) -> None:
    root, old = tmp_path / "workspaces", VolumeRef(number(1), 1)
    async with await connect(database_url) as conn:
        context = HomeContext(given_up=(old.name,))
        await insert(conn, workspace("api", status=Status(home_ctx=context)))
        hub_id = await ensure_hub_id(conn)
    runtime = ProcessRuntime(root, str(hub_id))
    await runtime.claim()
    await runtime.create_volume(VolumeRef(number(1), 2))
    assert (await look_at_volumes(database_url, root)).health is Health.OK
    await runtime.create_volume(old)
    verdict = await look_at_volumes(database_url, root)
    assert verdict.health is Health.WARNING
    assert verdict.message.endswith(f"given up and are there again, left alone: {old.name}")
    assert "copy out what is needed" in verdict.fix


@pytest.mark.anyio
async def test_a_data_root_of_another_hub_is_not_judged(database_url: str, tmp_path: Path) -> None:
    async with await connect(database_url) as conn:
        await ensure_hub_id(conn)
    await ProcessRuntime(tmp_path / "workspaces", "another").claim()
    with pytest.raises(Unreachable, match="another hub"):
        await look_at_volumes(database_url, tmp_path / "workspaces")


# Redis and the archive store


def test_the_activity_buffer_of_a_real_redis_works(open_path: Path) -> None:
    async def scene(url: str) -> tuple[Verdict, ActivityRead]:
        server = RedisSignals(url, prefix="codehub:doctor:test")
        try:
            verdict = await try_buffer(server, await server.check())
            return verdict, await server.read_activity()
        finally:
            await server.close()

    with EmbeddedRedis(open_path / "redis") as url:
        verdict, left = asyncio.run(scene(url))
    assert verdict.health is Health.OK
    assert left.sightings == ()


def test_what_a_killed_run_left_in_redis_is_removed_by_a_later_one(redis_url: str) -> None:
    async def scene() -> set[UUID]:
        server = RedisSignals(redis_url, prefix=PREFIX)
        stale, fresh = (UUID(int=1), "doctor"), (UUID(int=2), "doctor")
        try:
            await server.record_activity({stale: 2 * LEFT_BEHIND, fresh: timedelta(0)})
            await look_at_redis(redis_url, Path("/"), embedded=False)
            read = await server.read_activity()
            await server.forget_activity(read.sightings)
            return {each.workspace_id for each in read.sightings}
        finally:
            await server.close()

    assert asyncio.run(scene()) == {UUID(int=2)}


def test_a_redis_that_does_not_listen_is_told_without_its_password() -> None:
    look = partial(look_at_redis, "redis://:canary@127.0.0.1:1/0", Path("/"), embedded=False)
    (found,) = asyncio.run(run_checks([Check("Redis", look)]))
    assert found.health is Health.PROBLEM
    assert "REDIS_URL" in found.verdict.fix
    assert "canary" not in found.verdict.message


class Forgetful(RedisSignals):
    """A buffer as it would be without ZADD GT: the last report wins."""

    def __init__(self) -> None:
        self._ages: dict[tuple[UUID, str], timedelta] = {}

    async def record_activity(self, ages: Mapping[tuple[UUID, str], timedelta]) -> None:
        self._ages.update(ages)

    async def read_activity(self) -> ActivityRead:
        seen = tuple(Sighting(*each, NOW - age) for each, age in self._ages.items())
        return ActivityRead(NOW, None, "r", seen)

    async def forget_activity(self, seen: Iterable[Sighting]) -> None:
        del seen
        self._ages.clear()


def test_a_buffer_that_moves_backwards_is_a_problem() -> None:
    verdict = asyncio.run(try_buffer(Forgetful(), "5.0"))
    assert verdict.health is Health.PROBLEM
    assert "6.2" in verdict.fix


def objects(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if not path.name.startswith("."))


def test_a_store_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    store.claim()
    assert try_store(store, f"{uuid4()}/doctor/probe").health is Health.OK
    assert objects(tmp_path / "store") == []


class Amnesiac(LocalStore):
    def open_reader(self, key: str) -> None:
        return None


class Undeletable(LocalStore):
    def delete(self, key: str) -> None:
        return None


def test_a_store_that_forgets_is_a_problem_and_left_as_it_was(tmp_path: Path) -> None:
    store = Amnesiac(tmp_path / "store")
    store.claim()
    assert try_store(store, f"{uuid4()}/doctor/probe").health is Health.PROBLEM
    assert objects(tmp_path / "store") == []


def test_a_probe_that_cannot_be_removed_is_named(tmp_path: Path) -> None:
    store = Undeletable(tmp_path / "store")
    store.claim()
    key = f"{uuid4()}/doctor/probe"
    verdict = try_store(store, key)
    assert verdict.health is Health.WARNING
    assert key in verdict.message


# The command


@contextmanager
def led(url: str) -> Iterator[None]:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("SELECT pg_advisory_lock(%s, %s)", (OURS, int(Lock.LEADER)))
        yield


async def fill(url: str) -> None:
    async with await connect(url) as conn:
        await apply(conn, spec_set(declaration("api")))


OF_THE_MACHINE = "forgotten data"
"""What other hubs left on this machine is found, too."""


def test_a_healthy_hub(tmp_path: Path, database_url: str) -> None:
    asyncio.run(fill(database_url))
    store = tmp_path / "store"
    LocalStore(store).claim()
    env = {
        "DATABASE_URL": database_url,
        "ARCHIVE_STORE_URL": store.as_uri(),
        "RUNTIME_ENABLED": "process",
    }
    with led(database_url):
        ran = run_codehub("doctor", "--format", "json", cwd=tmp_path, env=env)
    found = findings(ran)
    assert ran.code == 0, ran.out + ran.err
    ill = {name for name, each in found.items() if each["health"] != "ok"}
    assert ill - {OF_THE_MACHINE} == {"Redis"}
    assert "ARCHIVE_STORE_URL" in found["settings"]["message"]
    assert store.as_uri() not in ran.out
    assert objects(store) == []
    assert not (tmp_path / ".codehub").exists()


def test_a_machine_without_a_hub(tmp_path: Path) -> None:
    ran = run_codehub("doctor", cwd=tmp_path)
    assert ran.code == 0, ran.out
    assert "there is no hub yet" in ran.out
    assert "GNU tar" in ran.out
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_does_not_answer_hides_nothing(tmp_path: Path) -> None:
    env = {"DATABASE_URL": "postgresql://alice:canary@127.0.0.1:1/hub"}
    ran = run_codehub("doctor", "--format", "json", cwd=tmp_path, env=env)
    found = findings(ran)
    assert ran.code == 1
    assert found["database"]["health"] == "problem"
    assert found["tar"]["health"] == "ok"
    assert "not looked at" in found["workspaces"]["message"]
    assert "canary" not in ran.out + ran.err


def test_an_empty_database_is_told_and_not_filled(tmp_path: Path, empty_database_url: str) -> None:
    env = {"DATABASE_URL": empty_database_url}
    ran = run_codehub("doctor", "--format", "json", cwd=tmp_path, env=env)
    schema = findings(ran)["schema"]
    assert ran.code == 1
    assert schema["health"] == "problem"
    assert "codehub db upgrade" in schema["fix"]
    with psycopg.connect(empty_database_url) as conn:
        assert conn.execute("SELECT to_regclass('workspaces')").fetchone() == (None,)


def test_wrong_settings_are_one_finding_among_others(tmp_path: Path) -> None:
    (tmp_path / "codehub.toml").write_text("ttl_standby_seconds = 'canary'\n")
    ran = run_codehub("doctor", "--format", "json", cwd=tmp_path)
    found = findings(ran)
    assert ran.code == 1
    assert "TTL_STANDBY_SECONDS" in found["settings"]["message"]
    assert found["tar"]["health"] == "ok"
    assert "canary" not in ran.out


def test_a_misspelt_setting_is_guessed(tmp_path: Path) -> None:
    (tmp_path / "codehub.toml").write_text("ttl_standby_second = 60\n")
    ran = run_codehub("doctor", "--format", "json", cwd=tmp_path)
    assert 'did you mean "ttl_standby_seconds"?' in findings(ran)["settings"]["message"]
    assert ran.code == 0
