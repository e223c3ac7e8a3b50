"""The connection to an S3 server, as boto3 makes it from an address and the environment."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import boto3.session
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config

from codehub.errors import UsageError

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

    from codehub.adapters.s3.address import S3Options

_REGION: Final = "us-east-1"
"""What servers that know no regions expect in a signature."""
_CONNECTIONS: Final = 32


class LazyClient:
    """The client, made at its first use: looking for credentials may ask the network."""

    def __init__(self, options: S3Options) -> None:
        self._options = options
        self._lock = Lock()
        self._client: S3Client | None = None

    def get(self) -> S3Client:
        with self._lock:
            if self._client is None:
                self._client = _connect(self._options)
            return self._client

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None


def _connect(options: S3Options) -> S3Client:
    session = boto3.session.Session()
    try:
        client = session.client(
            "s3",
            endpoint_url=options.endpoint_url,
            region_name=options.region or session.region_name or _REGION,
            verify=options.ca_bundle,
            config=_config(options),
        )
    except ValueError as error:
        raise UsageError(
            "the endpoint or the region of the archive store cannot be right",
            hint="correct S3_ENDPOINT_URL, such as https://s3.example.com, and S3_REGION",
        ) from error
    client.meta.events.register("before-call.s3.HeadBucket", _no_region)  # type: ignore[arg-type]
    return client


def _no_region(**_: object) -> tuple[AWSResponse, dict[str, Any]]:
    """The answer to a HEAD of the bucket, which is never sent.

    Redirected, boto3 asks by it for the bucket's region; redirected again, it asks again, and so
    on without end. What a redirection says itself about the region is enough.
    """
    answer = {"ResponseMetadata": {"HTTPHeaders": {}, "HTTPStatusCode": 200}}
    return AWSResponse("", 200, HTTPHeaders(), None), answer


def _config(options: S3Options) -> Config:
    """Checksums beyond Content-MD5, which we send ourselves, are not known to every server."""
    return Config(
        signature_version="s3v4",
        connect_timeout=options.connect_timeout,
        read_timeout=options.read_timeout,
        tcp_keepalive=True,
        max_pool_connections=_CONNECTIONS,
        retries={"mode": "standard", "total_max_attempts": options.max_attempts},
        s3={"addressing_style": options.addressing},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        user_agent_extra="codehub",
    )
