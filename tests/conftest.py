"""What all tests share: one PostgreSQL for the session, and a database of its own for each test.

One Redis for the session as well, in which tests keep apart by prefix; and one of its own for a
test that flushes, stops or kills it.

A migrated template is cloned for every test, which costs some milliseconds, so tests never see
each other's rows. Set DATABASE_URL_FOR_TESTS to use a server of yours instead of a private one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psycopg
import pytest
from hypothesis import settings

from codehub.embedded.home import homes_outside
from codehub.embedded.postgres import EmbeddedPostgres
from codehub.embedded.redis import EmbeddedRedis
from codehub.store.schema import upgrade

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

settings.register_profile("codehub", deadline=None, derandomize=True)
settings.load_profile("codehub")

NOT_DURABLE = ("-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")
_numbers = count(1)


def require(part: str, available: bool, why: str) -> None:
    """Skips a test whose part is missing on this machine; where it is required, fails it.

    CODEHUB_TEST_REQUIRE names the parts that must be there ("docker,browser").
    """
    if available:
        return
    required = os.environ.get("CODEHUB_TEST_REQUIRE", "").split(",")
    if part in (name.strip() for name in required):
        pytest.fail(f"{part} is required here, but {why}")
    pytest.skip(f"{part}: {why}")


@pytest.fixture
def anyio_backend() -> str:
    """Tests marked `anyio` run on asyncio, as codehub does."""
    return "asyncio"


@contextmanager
def open_directory() -> Iterator[Path]:
    """A new directory that any account may enter, unlike `tmp_path`; for embedded servers."""
    directory = Path(tempfile.mkdtemp(prefix="codehub-test-"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


@pytest.fixture
def open_path() -> Iterator[Path]:
    """Like `tmp_path`, and any account may enter: where an embedded server is to run."""
    with open_directory() as directory:
        yield directory


@pytest.fixture(scope="session", autouse=True)
def no_home_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Root's embedded servers in `tmp_path` keep their files elsewhere; they go with the tests."""
    yield
    for home, made_for in homes_outside().items():
        if made_for.is_relative_to(tmp_path_factory.getbasetemp()):
            shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A server for the whole session: a private one, unless one is given."""
    given = os.environ.get("DATABASE_URL_FOR_TESTS")
    if given:
        yield given
        return
    with (
        open_directory() as directory,
        EmbeddedPostgres(directory / "postgres", options=NOT_DURABLE) as url,
    ):
        yield url


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """A Redis for the whole session; a test there uses keys of its own, and never flushes."""
    with open_directory() as directory, EmbeddedRedis(directory / "redis") as url:
        yield url


@pytest.fixture
def own_redis() -> Iterator[EmbeddedRedis]:
    """A running Redis that this test may flush, stop, kill and start again."""
    with open_directory() as directory:
        server = EmbeddedRedis(directory / "redis")
        with server:
            yield server


@pytest.fixture(scope="session")
def migrated_template(postgres_url: str) -> Iterator[str]:
    """The name of a database with the newest schema and no rows, to be cloned."""
    name = f"codehub_template_{os.getpid()}"
    _create(postgres_url, name)
    upgrade(database(postgres_url, name))
    yield name
    _drop(postgres_url, name)


@pytest.fixture
def empty_database_url(postgres_url: str) -> Iterator[str]:
    """A database of this test's own, with nothing in it."""
    url = _fresh(postgres_url, "template0")
    yield url
    _drop(postgres_url, _name(url))


@pytest.fixture
def database_url(postgres_url: str, migrated_template: str) -> Iterator[str]:
    """A database of this test's own, with the newest schema."""
    with cloned_database(postgres_url, migrated_template) as url:
        yield url


@contextmanager
def cloned_database(postgres_url: str, template: str) -> Iterator[str]:
    """A new database with what the template has; gone at the end."""
    url = _fresh(postgres_url, template)
    try:
        yield url
    finally:
        _drop(postgres_url, _name(url))


@pytest.fixture
def make_database_url(postgres_url: str, migrated_template: str) -> Iterator[Callable[[], str]]:
    """Makes one more migrated database at each call, for properties that need a clean one."""
    made: list[str] = []

    def make() -> str:
        made.append(_fresh(postgres_url, migrated_template))
        return made[-1]

    yield make
    for url in made:
        _drop(postgres_url, _name(url))


def database(url: str, name: str) -> str:
    """The same server, another database."""
    return urlsplit(url)._replace(path=f"/{name}").geturl()


def _name(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


def _fresh(url: str, template: str) -> str:
    name = f"codehub_test_{os.getpid()}_{next(_numbers)}"
    _create(url, name, template)
    return database(url, name)


def _create(url: str, name: str, template: str = "template0") -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')


def _drop(url: str, name: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
