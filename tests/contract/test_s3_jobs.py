"""Storage jobs on a bucket: the whole circle as processes, and damage told as what it is."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from codehub.adapters.s3.address import parse_address
from codehub.adapters.s3.store import S3Store
from codehub.config import Settings
from codehub.core.keys import hub_prefix
from codehub.errors import ActionFailed, ArchiveCorrupted, CodeHubError, Unreachable
from codehub.jobs.mover import JobMover
from codehub.wiring import HubChoice, archive_store_url
from tests.contract.s3_faults import (
    FOR_EVER,
    FaultyProxy,
    cut_answer,
    cut_request,
    flip_answer,
    flip_request,
    is_complete,
    is_part,
    is_read,
    reply,
)
from tests.contract.s3_server import (  # noqa: F401
    s3_environment,
    s3_server,
    use_shared_credentials,
)
from tests.contract.store_contract import FAR_AHEAD, keys
from tests.integration.homes import describe
from tests.integration.jobs import HUB, SUBJECT, committed, new_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from codehub.model.archive import ArchiveMeta
    from tests.contract.s3_faults import Exchange, Request
    from tests.contract.s3_server import S3Server

pytestmark = pytest.mark.anyio

PART = 5 * 1024 * 1024
NO_BOTO = "import codehub.wiring, codehub.adapters.stores, sys; sys.exit('boto3' in sys.modules)"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose archive takes some parts."""
    path = tmp_path / "home"
    path.mkdir()
    (path / "notes").write_text("precious")
    (path / "random").write_bytes(os.urandom(2 * PART))
    return path


@pytest.fixture
def proxy(
    s3_server: S3Server,  # noqa: F811
    s3_environment: Mapping[str, str],  # noqa: F811
) -> Iterator[FaultyProxy]:
    with FaultyProxy(s3_server.url) as proxy:
        yield proxy


@pytest.fixture
def url(proxy: FaultyProxy, s3_server: S3Server, tmp_path: Path) -> str:  # noqa: F811
    """The address as a coordinator's wiring makes it from settings."""
    settings = Settings(
        archive_store_url=f"s3://{s3_server.make_bucket()}/archives",
        s3_endpoint_url=proxy.url,
        s3_addressing="path",
        s3_part_size=PART,
        s3_max_attempts=2,
    )
    return archive_store_url(HubChoice(tmp_path), settings)


@pytest.fixture
def mover(url: str) -> JobMover:
    return JobMover(url, os.environ)


@pytest.fixture
def store(url: str) -> Iterator[S3Store]:
    store = S3Store(parse_address(url))
    yield store
    store.close()


def make_directory(path: Path) -> None:
    path.mkdir(exist_ok=True)


async def archive(mover: JobMover, home: Path) -> ArchiveMeta:
    return await mover.archive(home, new_key(), SUBJECT, lambda report: None)


async def restore(mover: JobMover, volume: Path, meta: ArchiveMeta) -> None:
    make_directory(volume)
    await mover.restore(volume, meta.key, meta.sha256, lambda report: None)


async def test_a_home_goes_to_the_bucket_and_comes_back(
    mover: JobMover, store: S3Store, proxy: FaultyProxy, home: Path, tmp_path: Path
) -> None:
    meta = await archive(mover, home)
    assert len(proxy.seen(is_part)) >= 2
    assert keys(store, hub_prefix(HUB)) == [meta.key, f"{meta.key}.meta"]
    await restore(mover, tmp_path / "volume", meta)
    assert describe(tmp_path / "volume") == describe(home)


async def test_a_job_takes_its_credentials_from_the_shared_file(
    url: str,
    s3_server: S3Server,  # noqa: F811
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_shared_credentials(s3_server, monkeypatch, tmp_path, "archives")
    mover = JobMover(url, os.environ)
    meta = await archive(mover, home)
    await restore(mover, tmp_path / "volume", meta)
    assert describe(tmp_path / "volume") == describe(home)


async def test_an_empty_archive_is_one_too(mover: JobMover, store: S3Store, tmp_path: Path) -> None:
    meta = await mover.archive_nothing(new_key(), SUBJECT)
    assert committed(store) == meta
    await restore(mover, tmp_path / "volume", meta)
    assert list((tmp_path / "volume").iterdir()) == []


@pytest.mark.parametrize(
    ("act", "when", "kind", "match"),
    [
        (cut_request, is_part, Unreachable, "broke off"),
        (flip_request, is_part, ActionFailed, "arrived damaged"),
        (reply(503, "SlowDown"), is_complete, Unreachable, "not able to answer"),
        (cut_answer, is_read, Unreachable, "broke off"),
        (flip_answer, is_read, ActionFailed, "its bytes differ"),
        (reply(403, "AccessDenied"), is_part, Unreachable, "denies us access"),
    ],
    ids=["part-cut", "part-flipped", "complete-503", "read-cut", "read-flipped", "denied"],
)
async def test_an_archive_that_fails_is_not_committed_and_the_next_attempt_works(
    mover: JobMover,
    store: S3Store,
    proxy: FaultyProxy,
    home: Path,
    act: Callable[[Exchange, Request], None],
    when: Callable[[Request], bool],
    kind: type[CodeHubError],
    match: str,
) -> None:
    proxy.spoil(act, when, FOR_EVER)
    with pytest.raises(kind, match=match) as caught:
        await archive(mover, home)
    assert type(caught.value) is kind
    proxy.heal()
    assert committed(store) is None
    assert store.abort_unfinished("", FAR_AHEAD) == 0
    meta = await archive(mover, home)
    assert committed(store) == meta


async def test_damage_on_the_way_is_told_from_a_damaged_archive(
    mover: JobMover, proxy: FaultyProxy, home: Path, tmp_path: Path
) -> None:
    meta = await archive(mover, home)
    proxy.spoil(flip_answer, _is_read_of(meta.key))
    with pytest.raises(ActionFailed, match="arrived damaged") as once:
        await restore(mover, tmp_path / "volume", meta)
    assert not isinstance(once.value, ArchiveCorrupted)
    proxy.spoil(flip_answer, _is_read_of(meta.key), FOR_EVER)
    with pytest.raises(ArchiveCorrupted, match="hash"):
        await restore(mover, tmp_path / "volume", meta)
    assert list((tmp_path / "volume").iterdir()) == []


async def test_a_bit_that_flips_in_the_store_is_a_damaged_archive(
    mover: JobMover,
    s3_server: S3Server,  # noqa: F811
    url: str,
    home: Path,
    tmp_path: Path,
) -> None:
    meta = await archive(mover, home)
    address = parse_address(url)
    flip(s3_server.root / address.bucket / address.prefix / meta.key)
    with pytest.raises(ArchiveCorrupted, match="hash"):
        await restore(mover, tmp_path / "volume", meta)
    assert list((tmp_path / "volume").iterdir()) == []


async def test_a_restore_outlasts_a_broken_stream(
    mover: JobMover, proxy: FaultyProxy, home: Path, tmp_path: Path
) -> None:
    meta = await archive(mover, home)
    proxy.spoil(cut_answer, _is_read_of(meta.key))
    await restore(mover, tmp_path / "volume", meta)
    assert describe(tmp_path / "volume") == describe(home)


async def test_a_job_without_credentials_says_what_to_set(
    url: str,
    home: Path,
    s3_environment: Mapping[str, str],  # noqa: F811
) -> None:
    bare = {name: os.environ[name] for name in os.environ if "ACCESS_KEY" not in name}
    with pytest.raises(Unreachable, match="no credentials") as caught:
        await archive(JobMover(url, bare), home)
    assert "AWS_ACCESS_KEY_ID" in (caught.value.hint or "")


def test_boto3_is_imported_only_where_there_is_a_bucket() -> None:
    subprocess.run([sys.executable, "-c", NO_BOTO], check=True, timeout=60)


def flip(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(1_000_000)
        byte = file.read(1)[0]
        file.seek(1_000_000)
        file.write(bytes([byte ^ 1]))


def _is_read_of(key: str) -> Callable[[Request], bool]:
    return lambda request: is_read(request) and request.target.endswith(f"/{key}")
