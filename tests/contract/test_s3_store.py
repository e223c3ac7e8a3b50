"""The `s3://` store keeps the contract of all stores, and what only a bucket can break."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from codehub.adapters.s3 import parts
from codehub.adapters.s3.address import MIB, S3Options, parse_address
from codehub.adapters.s3.client import LazyClient
from codehub.adapters.s3.store import S3Store
from codehub.errors import ActionFailed, NameConflict
from tests.contract.s3_faults import FaultyProxy, any_request, is_part
from tests.contract.s3_server import (  # noqa: F401
    bucket_url,
    s3_environment,
    s3_server,
    use_shared_credentials,
)
from tests.contract.store_contract import *  # noqa: F403
from tests.contract.store_contract import FAR_AHEAD, get, keys, put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from mypy_boto3_s3.client import S3Client

    from tests.contract.s3_server import S3Server

PART = 5 * MIB
FOUND = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n"
    b"Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n"
)
FLAT = 24 * MIB
"""What the memory of an upload may differ by, however long it is."""

STREAM = """
import sys
from pathlib import Path
from codehub.adapters.stores import open_store

writer = open_store(sys.argv[1]).open_writer("hub/large")
piece = bytes(range(256)) * 4096
for number in range(int(sys.argv[2])):
    writer.write(piece)
writer.commit()
# Not getrusage: that begins with the peak of the process that started this one.
status = Path("/proc/self/status").read_text()
print(status.partition("VmHWM:")[2].split()[0])
"""


@pytest.fixture
def open_bucket() -> Iterator[Callable[[str], S3Store]]:
    """Opens stores that are closed after the test."""
    opened: list[S3Store] = []

    def open_one(url: str) -> S3Store:
        opened.append(S3Store(parse_address(url)))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


@pytest.fixture
def store(bucket_url: str, open_bucket: Callable[[str], S3Store]) -> S3Store:  # noqa: F811
    """As often tried as a hub tries: this server fails where folders come and go under its feet."""
    return open_bucket(bucket_url.replace("max_attempts=2", "max_attempts=8"))


@pytest.fixture  # type: ignore[no-redef]
def heeds_deletions() -> bool:
    """Not in the test's own server: once in a while an object that was deleted is still listed."""
    return False


@pytest.fixture
def bucket(bucket_url: str) -> str:  # noqa: F811
    """The name of the bucket that `store` is in."""
    return parse_address(bucket_url).bucket


@pytest.fixture
def server(s3_server: S3Server, s3_environment: Mapping[str, str]) -> S3Server:  # noqa: F811
    return s3_server


def test_a_prefix_goes_before_every_key_and_shows_in_no_answer(
    server: S3Server, open_bucket: Callable[[str], S3Store]
) -> None:
    bucket = server.make_bucket()
    store = open_bucket(server.address(bucket, "team/a/"))
    put(store, "hub/one", b"mine")
    listed = server.client.list_objects_v2(Bucket=bucket)["Contents"]
    assert [each["Key"] for each in listed] == ["team/a/hub/one"]
    assert keys(store) == keys(store, "hub/") == ["hub/one"]
    info = store.head("hub/one")
    assert info is not None
    assert info.key == "hub/one"
    assert get(store, "hub/one") == b"mine"
    with pytest.raises(NameConflict, match="under hub/one"):
        put(store, "hub/one")


def test_stores_in_one_bucket_do_not_see_each_other(
    server: S3Server, open_bucket: Callable[[str], S3Store]
) -> None:
    """Not even where one prefix begins with the other, or one is in the other."""
    bucket = server.make_bucket()
    prefixes = ("", "team/a", "team/ab", "team/a/b")
    stores = {prefix: open_bucket(server.address(bucket, prefix)) for prefix in prefixes}
    for prefix, store in stores.items():
        put(store, "hub/one", prefix.encode())
    for prefix, store in stores.items():
        assert get(store, "hub/one") == prefix.encode()
    assert keys(stores["team/ab"]) == ["hub/one"]
    assert keys(stores["team/a"], "hub/") == ["hub/one"]
    stores["team/a"].delete("hub/one")
    assert stores["team/a/b"].head("hub/one") is not None


def test_uploads_of_another_prefix_are_left_alone(
    server: S3Server, open_bucket: Callable[[str], S3Store]
) -> None:
    bucket = server.make_bucket()
    mine, theirs = (open_bucket(server.address(bucket, prefix)) for prefix in ("a", "ab"))
    writer = theirs.open_writer("hub/one")
    writer.write(bytes(2 * PART))
    assert mine.abort_unfinished("", FAR_AHEAD) == 0
    writer.commit()
    assert keys(theirs) == ["hub/one"]


def test_more_keys_than_a_page_holds_are_all_listed(
    store: S3Store, server: S3Server, bucket: str
) -> None:
    """Put there behind the server's back, which is quick, before it has looked at the bucket."""
    names = [f"hub/{number:04}" for number in range(1050)]
    (server.root / bucket / "hub").mkdir()
    for name in names:
        (server.root / bucket / name).touch()
    assert "NextContinuationToken" in server.client.list_objects_v2(Bucket=bucket)
    assert keys(store, "hub/") == names


@pytest.mark.parametrize(
    "size", [PART - 1, PART, PART + 1, 2 * PART, 2 * PART + 1], ids=lambda size: f"{size:,}"
)
def test_an_object_is_whole_whatever_its_last_part_is(
    server: S3Server, open_bucket: Callable[[str], S3Store], size: int
) -> None:
    store = open_bucket(server.address(server.make_bucket(), part_size=PART, upload_threads=2))
    data = os.urandom(size)
    writer = store.open_writer("hub/one")
    for begin in range(0, size, 3_000_000):
        writer.write(data[begin : begin + 3_000_000])
    writer.commit()
    read = get(store, "hub/one", MIB)
    assert read is not None
    assert hashlib.sha256(read).digest() == hashlib.sha256(data).digest()
    assert store.abort_unfinished("", FAR_AHEAD) == 0


def test_parts_grow_so_that_no_home_is_too_large(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With parts as small as only this server takes them, and few of each size."""
    monkeypatch.setattr(parts, "EVEN", 4)
    monkeypatch.setattr(parts, "STEP", 2)
    data = os.urandom(4 * 1000 + 2 * 2000 + 2 * 4000 + 1)
    with FaultyProxy(server.url) as proxy:
        address = parse_address(server.address(server.make_bucket(), endpoint_url=proxy.url))
        small = replace(address, options=replace(address.options, part_size=1000))
        with closing(S3Store(small)) as store:
            put(store, "hub/one", data)
            assert get(store, "hub/one", MIB) == data
        sent = {int(each.query["partNumber"][0]): each.length for each in proxy.seen(is_part)}
    assert [sent[number] for number in sorted(sent)] == [*[1000] * 4, *[2000] * 2, *[4000] * 2, 1]


def test_one_large_write_is_taken_apart(store: S3Store) -> None:
    data = os.urandom(MIB) * 20
    put(store, "hub/one", data)
    assert get(store, "hub/one", MIB) == data


def test_objects_that_are_not_ours_are_not_listed(
    store: S3Store, server: S3Server, bucket: str
) -> None:
    for name in (".hidden/one", "with space", "hub/ümlaut"):
        server.client.put_object(Bucket=bucket, Key=name, Body=b"")
    put(store, "hub/one")
    assert keys(store) == ["hub/one"]


def test_deleting_below_an_object_does_not_delete_the_object(store: S3Store) -> None:
    """A server that keeps objects as files, such as this one, would."""
    put(store, "hub/one")
    store.delete("hub/one/below")
    assert keys(store) == ["hub/one"]


def test_an_upload_that_goes_on_is_not_old(store: S3Store, server: S3Server, bucket: str) -> None:
    writer = store.open_writer("hub/one")
    writer.write(bytes(9 * MIB))
    newest = _await_part(server.client, bucket)
    assert store.abort_unfinished("", newest) == 0
    assert store.abort_unfinished("", newest + timedelta(seconds=1)) == 1
    with pytest.raises(ActionFailed, match="given up"):
        writer.commit()


def _await_part(client: S3Client, bucket: str) -> datetime:
    """When the first part of the one upload arrived, which is after the upload began."""
    (upload,) = client.list_multipart_uploads(Bucket=bucket)["Uploads"]
    name, number = upload["Key"], upload["UploadId"]
    while True:
        parts = client.list_parts(Bucket=bucket, Key=name, UploadId=number).get("Parts")
        if parts:
            assert parts[0]["LastModified"] > upload["Initiated"]
            return parts[0]["LastModified"]


def test_a_reader_can_be_left_early_and_not_be_used_again(store: S3Store) -> None:
    put(store, "hub/one", bytes(3 * MIB))
    reader = store.open_reader("hub/one")
    assert reader is not None
    with reader:
        assert reader.read(10) == bytes(10)
    with pytest.raises(ActionFailed, match="no longer open"):
        reader.read(10)
    assert get(store, "hub/one", MIB) == bytes(3 * MIB)


def test_memory_does_not_grow_with_the_stream(server: S3Server) -> None:
    """The whole process, as the kernel counts it: 200 MiB need what 100 MiB need."""

    def peak(megabytes: int) -> int:
        url = server.address(server.make_bucket())
        done = subprocess.run(
            [sys.executable, "-c", STREAM, url, str(megabytes)],
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
        return int(done.stdout) * 1024

    short, long = peak(100), peak(200)
    assert long < short + FLAT
    assert long < 160 * MIB


@pytest.mark.parametrize(
    ("addressing", "begin"),
    [
        ("path", "https://s3.example.com/my-bucket/hub/one?"),
        ("virtual", "https://my-bucket.s3.example.com/hub/one?"),
    ],
)
def test_a_bucket_is_named_in_the_path_or_in_the_host(
    s3_environment: Mapping[str, str],  # noqa: F811
    addressing: str,
    begin: str,
) -> None:
    address = parse_address(
        f"s3://my-bucket?addressing={addressing}&endpoint_url=https://s3.example.com"
    )
    lazy = LazyClient(address.options)
    request = {"Bucket": "my-bucket", "Key": "hub/one"}
    url = lazy.get().generate_presigned_url("get_object", Params=request)
    lazy.close()
    assert url.startswith(begin)


@pytest.mark.parametrize(
    ("addressing", "target"),
    [
        ("path", "http://s3.test:9000/my-bucket/team/hub/one"),
        ("virtual", "http://my-bucket.s3.test:9000/team/hub/one"),
    ],
)
def test_the_request_goes_to_the_host_that_the_addressing_means(
    server: S3Server,
    open_bucket: Callable[[str], S3Store],
    monkeypatch: pytest.MonkeyPatch,
    addressing: str,
    target: str,
) -> None:
    """Seen by a proxy that the machine's settings name: it gets the whole address, unresolved."""
    options = {"endpoint_url": "http://s3.test:9000", "addressing": addressing}
    with FaultyProxy(server.url) as proxy:
        proxy.spoil(lambda exchange, _: exchange.client.sendall(FOUND), any_request)
        monkeypatch.setenv("http_proxy", proxy.url)
        assert open_bucket(server.address("my-bucket", "team", **options)).head("hub/one")
        (request,) = proxy.requests
    assert (request.method, request.target) == ("HEAD", target)
    assert request.headers["host"] == urlsplit(target).netloc


@pytest.mark.parametrize("profile", [None, "archives"])
def test_credentials_come_from_the_shared_file(
    server: S3Server,
    open_bucket: Callable[[str], S3Store],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    profile: str | None,
) -> None:
    use_shared_credentials(server, monkeypatch, tmp_path, profile)
    store = open_bucket(server.address(server.make_bucket()))
    put(store, "hub/one", b"mine")
    assert get(store, "hub/one") == b"mine"
    assert keys(store) == ["hub/one"]


def test_without_options_it_is_amazons_server(
    s3_environment: Mapping[str, str],  # noqa: F811
) -> None:
    lazy = LazyClient(S3Options())
    meta = lazy.get().meta
    lazy.close()
    assert meta.endpoint_url == "https://s3.amazonaws.com"
    assert meta.region_name == "us-east-1"
