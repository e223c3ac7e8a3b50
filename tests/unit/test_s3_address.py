"""Addresses of buckets: what they say, what they may not, and how settings get into them."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from codehub.adapters.s3.address import (
    LONGEST_PREFIX,
    S3Address,
    S3Options,
    parse_address,
    with_defaults,
)
from codehub.adapters.stores import open_store
from codehub.config import Settings
from codehub.core.keys import LONGEST_KEY
from codehub.errors import UsageError
from codehub.wiring import HubChoice, archive_store_url

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def no_settings_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("S3_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("url", "bucket", "prefix"),
    [
        ("s3://my-bucket", "my-bucket", ""),
        ("s3://my-bucket/", "my-bucket", ""),
        ("s3://my-bucket/team", "my-bucket", "team/"),
        ("s3://my.bucket/team/a/", "my.bucket", "team/a/"),
        ("s3://my_bucket/te%61m", "my_bucket", "team/"),
    ],
)
def test_an_address_names_a_bucket_and_a_prefix(url: str, bucket: str, prefix: str) -> None:
    assert parse_address(url) == S3Address(bucket, prefix)


def test_options_are_read_as_what_they_are() -> None:
    query = (
        "endpoint_url=https%3A%2F%2Fs3.example.com%3A9000&region=eu-1&addressing=path"
        "&ca_bundle=%2Fetc%2Fca.pem&connect_timeout=2.5&read_timeout=30&max_attempts=7"
        "&part_size=5242880&upload_threads=1"
    )
    assert parse_address(f"s3://bucket?{query}").options == S3Options(
        "https://s3.example.com:9000", "eu-1", "path", "/etc/ca.pem", 2.5, 30, 7, 5242880, 1
    )


@pytest.mark.parametrize(
    ("url", "match"),
    [
        ("s3://", "no bucket"),
        ("s3:///prefix", "no bucket"),
        ("s3:bucket", "no bucket"),
        ("s3://b", "no bucket"),
        ("s3://bu cket", "no bucket"),
        ("s3://bucket:80/x", "no bucket"),
        ("s3://bucket/../x", "prefix"),
        ("s3://bucket/a//b", "prefix"),
        ("s3://bucket/.hidden", "prefix"),
        ("s3://bucket/a%20b", "prefix"),
        (f"s3://bucket/{'x' * (LONGEST_PREFIX + 1)}", "prefix"),
        ("s3://bucket#x", "not one of a bucket"),
        ("s3://[bucket", "cannot be read"),
        ("s3://bucket?bogus=1", "unknown option"),
        ("s3://bucket?region", "cannot be read"),
        ("s3://bucket?region=a&region=b", "twice"),
        ("s3://bucket?region=", "S3_REGION"),
        ("s3://bucket?addressing=host", "S3_ADDRESSING"),
        ("s3://bucket?endpoint_url=s3.example.com", "S3_ENDPOINT_URL"),
        ("s3://bucket?endpoint_url=ftp://s3.example.com", "S3_ENDPOINT_URL"),
        ("s3://bucket?endpoint_url=http://host:port", "S3_ENDPOINT_URL"),
        ("s3://bucket?endpoint_url=http://user:pass@host", "S3_ENDPOINT_URL"),
        ("s3://bucket?read_timeout=0", "S3_READ_TIMEOUT"),
        ("s3://bucket?read_timeout=nan", "S3_READ_TIMEOUT"),
        ("s3://bucket?connect_timeout=soon", "S3_CONNECT_TIMEOUT"),
        ("s3://bucket?max_attempts=0", "S3_MAX_ATTEMPTS"),
        ("s3://bucket?part_size=1000", "S3_PART_SIZE"),
        ("s3://bucket?upload_threads=100", "S3_UPLOAD_THREADS"),
    ],
)
def test_what_is_wrong_with_an_address_is_named(url: str, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        parse_address(url)


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIA:canary@bucket/prefix",
        "s3://bucket?endpoint_url=http://u:canary@host",
        "s3://bucket?canary=1",
        "s3://bucket?secret=canary",
        "s3://bucket/canary canary",
    ],
)
def test_a_secret_in_an_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_store(url)
    assert "canary" not in f"{caught.value} {caught.value.hint}"


def test_a_prefix_leaves_room_for_every_key() -> None:
    assert len(f"{'x' * LONGEST_PREFIX}/") + LONGEST_KEY <= 1024


def test_settings_travel_in_the_address_and_its_own_options_win(tmp_path: Path) -> None:
    settings = Settings(
        archive_store_url="s3://bucket/team?region=own",
        s3_endpoint_url="https://s3.example.com/a b",
        s3_region="other",
        s3_ca_bundle=tmp_path / "my ca.pem",
        s3_connect_timeout=3,
        s3_max_attempts=9,
    )
    address = parse_address(archive_store_url(HubChoice(tmp_path), settings))
    assert (address.bucket, address.prefix) == ("bucket", "team/")
    assert address.options == S3Options(
        endpoint_url="https://s3.example.com/a b",
        region="own",
        ca_bundle=str(tmp_path / "my ca.pem"),
        connect_timeout=3,
        max_attempts=9,
    )


def test_options_and_settings_are_the_same(tmp_path: Path) -> None:
    """A name or a default that only one of them has would be lost on the way to a job."""
    named = {name for name in Settings.model_fields if name.startswith("s3_")}
    assert named == {f"s3_{field.name}" for field in fields(S3Options)}
    settings = Settings(archive_store_url="s3://bucket")
    url = archive_store_url(HubChoice(tmp_path), settings)
    assert parse_address(url).options == S3Options()


def test_other_addresses_are_left_as_they_are(tmp_path: Path) -> None:
    settings = Settings(archive_store_url="file:///archives", s3_region="x")
    assert archive_store_url(HubChoice(tmp_path), settings) == "file:///archives"


def test_an_option_without_a_value_is_not_written() -> None:
    assert with_defaults("s3://bucket/x", {"region": None}) == "s3://bucket/x"
