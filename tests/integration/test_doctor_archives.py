"""`codehub doctor` and the archive store: what keeps a hub from using it, and no probe is left."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from codehub.adapters.localstore import LocalStore
from codehub.adapters.s3.probe import ProbedStore
from codehub.core.keys import marker_key
from codehub.model.checkup import Health
from codehub.service.check_archives import judge_clock, judge_space
from codehub.service.check_machine import FULL, SCARCE
from codehub.service.check_probe import LEFT_BEHIND, try_store
from tests.contract.s3_faults import (
    FOR_EVER,
    FaultyProxy,
    flip_answer,
    flip_request,
    is_put,
    is_read,
    lose_answer,
    reply,
    stall,
)
from tests.contract.s3_server import s3_environment, s3_server  # noqa: F401
from tests.integration.command_line import NEUTRAL, PATIENCE, run_codehub
from tests.integration.doctor_world import (  # noqa: F401
    about,
    check_up,
    make_hub,
    readable,
    record,
    text_snapshot,
)
from tests.make import NOW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

    from codehub.model.checkup import Finding
    from tests.contract.s3_faults import Exchange, Request
    from tests.contract.s3_server import S3Server

STORE, CLOCK, SPACE, MARK = (f"archive {each}" for each in ("store", "clock", "space", "mark"))


@pytest.fixture
def server(s3_server: S3Server, s3_environment: Mapping[str, str]) -> S3Server:  # noqa: F811
    return s3_server


@pytest.fixture
def proxy(server: S3Server) -> Iterator[FaultyProxy]:
    with FaultyProxy(server.url) as proxy:
        yield proxy


class Hub:
    """A hub with a bucket, which it reaches through the proxy."""

    def __init__(self, server: S3Server, proxy: FaultyProxy, database_url: str) -> None:
        self.id = make_hub(database_url)
        self.database_url = database_url
        self.server = server
        self.bucket = server.make_bucket()
        self.url = server.address(self.bucket, "team", endpoint_url=proxy.url)

    def check(self, tmp_path: Path, **fields: Any) -> dict[str, Finding]:
        known = {"url": self.database_url} | fields
        return about(check_up(tmp_path, self.url, **known), "archive")

    def objects(self) -> list[str]:
        """What is in the bucket below the prefix of its address."""
        listed = self.server.client.list_objects_v2(Bucket=self.bucket)
        return [each["Key"].removeprefix("team/") for each in listed.get("Contents", [])]

    def put(self, key: str, content: bytes, **options: Any) -> None:
        self.server.client.put_object(
            Bucket=self.bucket, Key=f"team/{key}", Body=content, **options
        )

    def mark(self, owner: UUID) -> None:
        self.put(marker_key(self.id), json.dumps({"hub": str(owner)}).encode())


@pytest.fixture
def hub(server: S3Server, proxy: FaultyProxy, database_url: str) -> Hub:
    return Hub(server, proxy, database_url)


def is_delete(request: Request) -> bool:
    return request.method == "DELETE"


def is_probe_read(request: Request) -> bool:
    return is_read(request) and "/doctor/" in request.target


def is_second(request: Request) -> bool:
    """The object that is sent with a wrong checksum."""
    return request.method == "PUT" and request.target.endswith("-checksum")


def shift_clock(by: timedelta) -> Callable[[Exchange, Request], None]:
    """The server's answer with another time in its head."""
    then = format_datetime(datetime.now(UTC) + by, usegmt=True)

    def act(exchange: Exchange, request: Request) -> None:
        with closing(exchange.ask_server(exchange.receive_body(request))) as server:
            answer = b""
            while piece := server.recv(65536):
                answer += piece
        exchange.client.sendall(
            re.sub(rb"(?mi)^date: .*?\r$", f"Date: {then}\r".encode(), answer, count=1)
        )

    return act


def refuse_by_clock(by: timedelta) -> Callable[[Exchange, Request], None]:
    """As S3 answers everything when the clocks are too far apart."""
    then = format_datetime(datetime.now(UTC) + by, usegmt=True)

    def act(exchange: Exchange, request: Request) -> None:
        exchange.receive_body(request)
        body = b"<Error><Code>RequestTimeTooSkewed</Code></Error>"
        head = f"HTTP/1.1 403 X\r\nDate: {then}\r\nContent-Length: {len(body)}\r\n\r\n"
        exchange.client.sendall(head.encode() + (b"" if request.method == "HEAD" else body))

    return act


def accept(exchange: Exchange, request: Request) -> None:
    """A server that takes whatever it is sent."""
    exchange.receive_body(request)
    exchange.client.sendall(b'HTTP/1.1 200 X\r\nETag: "1"\r\nContent-Length: 0\r\n\r\n')


# A bucket that works


def test_a_bucket_in_order(
    hub: Hub,
    tmp_path: Path,
    text_snapshot: SnapshotAssertion,  # noqa: F811
) -> None:
    hub.mark(hub.id)
    told = hub.check(tmp_path)
    assert [each.health for each in told.values()] == [Health.OK] * 3
    assert hub.objects() == [marker_key(hub.id)]
    assert readable(told) == text_snapshot


def test_a_lost_answer_is_no_problem_and_leaves_nothing(
    hub: Hub, proxy: FaultyProxy, tmp_path: Path
) -> None:
    proxy.spoil(lose_answer, is_put)
    assert hub.check(tmp_path)[STORE].health is Health.OK
    assert hub.objects() == []


def test_before_there_is_a_hub_a_bucket_is_listed_and_not_written_to(
    hub: Hub, proxy: FaultyProxy, tmp_path: Path
) -> None:
    told = hub.check(tmp_path, url=None)
    assert set(told) == {STORE, CLOCK}
    assert told[STORE].health is Health.WARNING
    assert "can be listed" in told[STORE].verdict.message
    assert {each.method for each in proxy.requests} == {"GET"}


# Not reached, not let in


def test_a_server_that_is_not_there(
    server: S3Server,
    database_url: str,
    tmp_path: Path,
    text_snapshot: SnapshotAssertion,  # noqa: F811
) -> None:
    make_hub(database_url)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    address = server.address("bucket", endpoint_url=f"http://127.0.0.1:{port}")
    told = about(check_up(tmp_path, address, url=database_url), "archive")
    assert set(told) == {STORE}
    assert told[STORE].health is Health.PROBLEM
    assert readable(told) == text_snapshot


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_credentials_that_are_refused(
    hub: Hub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    text_snapshot: SnapshotAssertion,  # noqa: F811
) -> None:
    monkeypatch.setenv(name, "canary-canary-canary")
    told = hub.check(tmp_path)
    text = readable(told)
    assert told[STORE].health is Health.PROBLEM
    assert "does not accept our credentials" in text
    assert not any(each in text for each in ("canary", hub.server.key, hub.server.secret))
    assert text == text_snapshot


def test_credentials_that_are_missing(
    hub: Hub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text_snapshot: SnapshotAssertion,  # noqa: F811
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    told = hub.check(tmp_path)
    assert "there are no credentials" in told[STORE].verdict.message
    assert readable(told) == text_snapshot


def test_a_bucket_that_does_not_exist(
    hub: Hub,
    tmp_path: Path,
    text_snapshot: SnapshotAssertion,  # noqa: F811
) -> None:
    hub.url = hub.url.replace(hub.bucket, "no-such-bucket")
    told = hub.check(tmp_path)
    assert "no such bucket" in told[STORE].verdict.message
    assert readable(told) == text_snapshot


def test_an_address_that_names_no_bucket(tmp_path: Path, database_url: str) -> None:
    make_hub(database_url)
    told = about(check_up(tmp_path, "s3://", url=database_url), "archive")
    assert told[STORE].health is Health.PROBLEM
    assert "s3://my-bucket" in told[STORE].verdict.fix


# Writing, reading, removing


def test_a_bucket_that_may_only_be_read(hub: Hub, proxy: FaultyProxy, tmp_path: Path) -> None:
    proxy.spoil(reply(403, "AccessDenied"), is_put, FOR_EVER)
    told = hub.check(tmp_path)
    assert told[STORE].health is Health.PROBLEM
    assert "denies us access: AccessDenied (committing)" in told[STORE].verdict.message
    assert "put" in told[STORE].verdict.fix
    assert hub.objects() == []


def test_a_probe_that_may_not_be_removed_is_named(
    hub: Hub,
    proxy: FaultyProxy,
    tmp_path: Path,
    text_snapshot: SnapshotAssertion,  # noqa: F811
) -> None:
    hub.mark(hub.id)
    proxy.spoil(reply(403, "AccessDenied"), is_delete, FOR_EVER)
    told = hub.check(tmp_path)
    (left,) = set(hub.objects()) - {marker_key(hub.id)}
    assert left in told[STORE].verdict.message
    assert told[STORE].health is Health.WARNING
    assert readable(told) == text_snapshot


@pytest.mark.parametrize(
    ("harm", "when", "words"),
    [
        (flip_answer, is_read, "what was read is not what was written"),
        (flip_request, is_put, "arrived damaged"),
        (reply(503, "SlowDown"), is_read, "not able to answer now"),
        (reply(507, "InsufficientStorage"), is_put, "no space is left"),
        (reply(404, "NoSuchKey"), is_read, "what was written is not there"),
    ],
)
def test_a_bucket_that_spoils_what_it_gets(
    hub: Hub,
    proxy: FaultyProxy,
    tmp_path: Path,
    harm: Callable[[Exchange, Request], None],
    when: Callable[[Request], bool],
    words: str,
) -> None:
    proxy.spoil(harm, when, FOR_EVER)
    told = hub.check(tmp_path)
    assert told[STORE].health is Health.PROBLEM
    assert words in told[STORE].verdict.message
    assert hub.objects() == []


def test_a_server_that_compares_no_checksums_is_told(
    hub: Hub,
    proxy: FaultyProxy,
    tmp_path: Path,
    text_snapshot: SnapshotAssertion,  # noqa: F811
) -> None:
    proxy.spoil(accept, is_second)
    told = hub.check(tmp_path)
    assert told[STORE].health is Health.WARNING
    assert "Content-MD5" in told[STORE].verdict.fix
    assert hub.objects() == []
    assert readable(told) == text_snapshot


def test_what_was_taken_in_spite_of_a_wrong_checksum_is_removed(hub: Hub) -> None:
    with closing(ProbedStore(hub.url)) as store:
        key = f"{hub.id}/doctor/probe"
        assert store.compares_checksums(key)
        hub.put(key, b"sent")
        assert store.compares_checksums(key)
    assert hub.objects() == []


# Clocks


@pytest.mark.parametrize(
    ("by", "health"),
    [
        (timedelta(minutes=2), Health.OK),
        (timedelta(minutes=8), Health.WARNING),
        (timedelta(minutes=-8), Health.WARNING),
        (timedelta(hours=1), Health.PROBLEM),
    ],
)
def test_the_servers_clock(
    hub: Hub, proxy: FaultyProxy, tmp_path: Path, by: timedelta, health: Health
) -> None:
    proxy.spoil(shift_clock(by), times=FOR_EVER)
    told = hub.check(tmp_path)
    assert told[CLOCK].health is health
    assert told[STORE].health is Health.OK


def test_a_clock_that_makes_the_server_refuse_everything(
    hub: Hub,
    proxy: FaultyProxy,
    tmp_path: Path,
    text_snapshot: SnapshotAssertion,  # noqa: F811
) -> None:
    proxy.spoil(refuse_by_clock(timedelta(hours=2, seconds=30)), times=FOR_EVER)
    told = hub.check(tmp_path)
    assert told[STORE].health is told[CLOCK].health is Health.PROBLEM
    assert "2h ahead of" in told[CLOCK].verdict.message
    assert readable(told) == text_snapshot


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        (NOW - timedelta(minutes=5), "within 5m"),
        (NOW - timedelta(minutes=5, seconds=1), "5m behind"),
        (NOW + timedelta(minutes=5, seconds=10), "5m ahead of"),
        (NOW + timedelta(minutes=5, seconds=9), "within 5m"),
    ],
)
def test_the_limit_leaves_room_for_a_slow_answer_and_whole_seconds(
    theirs: datetime, words: str
) -> None:
    verdict = judge_clock(theirs, NOW, NOW + timedelta(seconds=10))
    assert words in verdict.message


# Whose it is


def test_a_bucket_without_the_archives_it_should_have(
    hub: Hub,
    tmp_path: Path,
    text_snapshot: SnapshotAssertion,  # noqa: F811
) -> None:
    assert "not marked yet" in hub.check(tmp_path)[MARK].verdict.message
    record(hub.database_url, archive_key=f"{hub.id}/{uuid4()}/{uuid4()}/a/home.tar.zst")
    hub.put(f"{uuid4()}/marker.json", b"{}")
    told = hub.check(tmp_path)
    assert told[MARK].health is Health.PROBLEM
    assert "1 other hub there" in told[MARK].verdict.message
    assert readable(told) == text_snapshot


def test_a_mark_of_another_hub(hub: Hub, tmp_path: Path) -> None:
    other = uuid4()
    hub.mark(other)
    told = hub.check(tmp_path)
    assert told[MARK].health is Health.PROBLEM
    assert str(other) in told[MARK].verdict.message
    hub.put(marker_key(hub.id), b"\xff")
    assert "cannot be read" in hub.check(tmp_path)[MARK].verdict.message


def test_other_hubs_in_the_same_bucket_are_counted_and_no_problem(hub: Hub, tmp_path: Path) -> None:
    hub.mark(hub.id)
    for name in (f"{uuid4()}/marker.json", f"{uuid4()}/epochs/1", "notes/today", "readme"):
        hub.put(name, b"")
    told = hub.check(tmp_path)
    assert told[MARK].health is Health.OK
    assert "2 other hubs there too" in told[MARK].verdict.message


# Nothing stays


def test_what_a_killed_run_has_left_is_removed_by_a_later_one(hub: Hub, tmp_path: Path) -> None:
    old = (datetime.now(UTC) - 2 * LEFT_BEHIND).timestamp()
    fresh, stale = f"{hub.id}/doctor/fresh", f"{hub.id}/doctor/stale"
    archive = f"{hub.id}/{uuid4()}/{uuid4()}/a/home.tar.zst"
    hub.put(fresh, b"another run's, just now")
    hub.put(stale, b"", Metadata={"mtime": str(old)})
    hub.put(archive, b"", Metadata={"mtime": str(old)})
    told = hub.check(tmp_path)
    assert told[STORE].health is Health.OK
    assert "1 that an interrupted run had left" in told[STORE].verdict.message
    assert sorted(hub.objects()) == sorted([fresh, archive])


def test_an_interrupted_run_removes_its_probe(
    hub: Hub,
    proxy: FaultyProxy,
    s3_environment: Mapping[str, str],  # noqa: F811
    tmp_path: Path,
) -> None:
    env = {"DATABASE_URL": hub.database_url, "ARCHIVE_STORE_URL": hub.url, **s3_environment}
    running = subprocess.Popen(
        [sys.executable, "-m", "codehub", "doctor"],
        cwd=tmp_path,
        env={**os.environ, **NEUTRAL, "RUNTIME_ENABLED": "process", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    there: list[str] = []

    def interrupt(exchange: Exchange, request: Request) -> None:
        there.extend(hub.objects())
        running.send_signal(signal.SIGINT)
        stall(exchange, request)

    try:
        proxy.spoil(interrupt, is_probe_read)
        proxy.spoil(stall, is_probe_read, FOR_EVER)
        running.communicate(timeout=PATIENCE)
    finally:
        running.kill()
        running.communicate(timeout=PATIENCE)
    assert [key.split("/")[:2] for key in there] == [[str(hub.id), "doctor"]]
    assert running.returncode == 130
    assert hub.objects() == []


# A directory


def test_a_directory_in_order(
    database_url: str,
    tmp_path: Path,
    text_snapshot: SnapshotAssertion,  # noqa: F811
) -> None:
    hub_id = make_hub(database_url)
    root = tmp_path / "store"
    store = LocalStore(root)
    store.claim()
    for owner in (hub_id, uuid4()):
        writer = store.open_writer(marker_key(owner))
        writer.write(json.dumps({"hub": str(owner)}).encode())
        writer.commit()
    told = about(check_up(tmp_path, root.as_uri(), url=database_url), "archive")
    assert [each.health for each in told.values()] == [Health.OK] * 3
    assert readable(told, directory=tmp_path) == text_snapshot


def test_a_directory_that_nobody_has_used_is_not_missed(database_url: str, tmp_path: Path) -> None:
    make_hub(database_url)
    root = tmp_path / "store"
    for _ in range(2):
        told = about(check_up(tmp_path, root.as_uri(), url=database_url), "archive")
        assert told[STORE].health is Health.OK
        assert "not made yet" in told[STORE].verdict.message
        assert not root.exists() or list(root.iterdir()) == []
        root.mkdir(exist_ok=True)
    record(database_url, archive_key="there-must-be-one")
    told = about(check_up(tmp_path, root.as_uri(), url=database_url), "archive")
    assert told[STORE].health is Health.PROBLEM
    assert "mount it" in told[STORE].verdict.fix


@pytest.mark.parametrize("by", ["default", "setting"])
def test_a_directory_that_is_gone_with_its_archives_is_missed(
    database_url: str, tmp_path: Path, by: str
) -> None:
    make_hub(database_url)
    root = tmp_path / ".codehub" / "archives"
    env = {"DATABASE_URL": database_url, "RUNTIME_ENABLED": "process"}
    env |= {"ARCHIVE_STORE_URL": root.as_uri()} if by == "setting" else {}
    before = run_codehub("doctor", "--format", "json", cwd=tmp_path, env=env)
    record(database_url, archive_key="there-must-be-one")
    after = run_codehub("doctor", "--format", "json", cwd=tmp_path, env=env)
    told = [
        next(each for each in json.loads(ran.out)["checks"] if each["name"] == STORE)
        for ran in (before, after)
    ]
    assert [each["health"] for each in told] == ["ok", "problem"]
    assert "not made yet" in told[0]["message"]
    assert told[1]["message"].startswith(f"{root} is not there")
    assert "mount it" in told[1]["fix"]
    assert after.code == 1


def test_nothing_is_new_where_the_database_does_not_answer(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as closed:
        port = closed.getsockname()[1]
    env = {"DATABASE_URL": f"postgresql://hub@127.0.0.1:{port}/hub", "RUNTIME_ENABLED": "process"}
    ran = run_codehub("doctor", "--format", "json", cwd=tmp_path, env=env)
    told = next(each for each in json.loads(ran.out)["checks"] if each["name"] == STORE)
    assert told["health"] == "warning"
    assert "not looked at" in told["message"]


def test_files_that_a_killed_run_has_left_are_removed_by_a_later_one(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    store.claim()
    folder = tmp_path / "store" / "hub" / "doctor"
    for name in ("stale", "fresh"):
        writer = store.open_writer(f"hub/doctor/{name}")
        writer.write(b"")
        writer.commit()
    half = store.open_writer("hub/doctor/half")
    half.write(b"x")
    (partial,) = {path.name for path in folder.iterdir()} - {"stale", "fresh"}
    then = (datetime.now(UTC) - 2 * LEFT_BEHIND).timestamp()
    for name in ("stale", partial):
        os.utime(folder / name, (then, then))
    assert try_store(store, "hub/doctor/probe").health is Health.OK
    assert [path.name for path in folder.iterdir()] == ["fresh"]
    half.abort()


@pytest.mark.parametrize(
    ("free", "health"),
    [
        (SCARCE, Health.OK),
        (SCARCE - 1, Health.WARNING),
        (FULL, Health.WARNING),
        (FULL - 1, Health.PROBLEM),
    ],
)
def test_room_for_archives(tmp_path: Path, free: int, health: Health) -> None:
    verdict = judge_space(tmp_path, free)
    assert verdict.health is health
    assert ("make room" in verdict.fix) is (health is not Health.OK)


# The command


def test_the_command_fails_with_a_bucket_that_refuses(
    hub: Hub,
    s3_environment: Mapping[str, str],  # noqa: F811
    tmp_path: Path,
) -> None:
    env = {
        **s3_environment,
        "AWS_SECRET_ACCESS_KEY": "canary",
        "DATABASE_URL": hub.database_url,
        "ARCHIVE_STORE_URL": f"s3://{hub.bucket}",
        "S3_ENDPOINT_URL": hub.server.url,
        "S3_ADDRESSING": "path",
        "RUNTIME_ENABLED": "process",
    }
    ran = run_codehub("doctor", "--format", "json", cwd=tmp_path, env=env)
    found = {each["name"]: each for each in json.loads(ran.out)["checks"]}
    assert ran.code == 1
    assert found[STORE]["health"] == "problem"
    assert "AWS_SECRET_ACCESS_KEY" in found[STORE]["fix"]
    assert found[CLOCK]["health"] == "ok"
    assert "canary" not in ran.out + ran.err
