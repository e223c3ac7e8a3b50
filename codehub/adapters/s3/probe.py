"""A bucket as `codehub doctor` looks at it: with little patience, and with questions of its own."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from codehub.adapters.s3.address import parse_address
from codehub.adapters.s3.body import as_body, content_md5
from codehub.adapters.s3.faults import status_of, translated
from codehub.adapters.s3.store import S3Store
from codehub.core.keys import require_key

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any

    from codehub.adapters.s3.address import S3Options

CONNECT_SECONDS: Final = 3.0
READ_SECONDS: Final = 5.0
ATTEMPTS: Final = 2
_MOST: Final = 1000


class ProbedStore(S3Store):
    """The store at an address, for a check-up that people wait for."""

    def __init__(self, url: str) -> None:
        address = parse_address(url)
        super().__init__(replace(address, options=_hurried(address.options)))

    def server_time(self) -> datetime | None:
        """The server's clock, to the second; also from a refusal. None where it does not tell."""
        with translated("asking for the time"):
            try:
                listed = self._bucket.client.list_objects_v2(
                    Bucket=self._bucket.name, Prefix=self._bucket.full(""), MaxKeys=1
                )
                return _date(listed["ResponseMetadata"]["HTTPHeaders"])
            except ClientError as error:
                return _date(error.response["ResponseMetadata"].get("HTTPHeaders", {}))

    def compares_checksums(self, key: str) -> bool:
        """Whether it refuses what is not what its checksum says. Nothing is left under the key."""
        name = self._bucket.full(require_key(key))
        with translated("sending a wrong checksum"):
            try:
                self._bucket.client.put_object(
                    Bucket=self._bucket.name,
                    Key=name,
                    Body=as_body(b"sent"),
                    ContentMD5=content_md5(b"meant"),
                )
            except ClientError as error:
                # Servers have several codes for it; one in trouble has refused nothing.
                if status_of(error) >= 500:
                    raise
                return True
            finally:
                self.delete(key)
        return False

    def folders(self) -> list[str]:
        """The first parts of the keys here: each hub has one. Of very many, the first."""
        with translated("listing"):
            listed = self._bucket.client.list_objects_v2(
                Bucket=self._bucket.name,
                Prefix=self._bucket.full(""),
                Delimiter="/",
                MaxKeys=_MOST,
            )
        names = (each["Prefix"].rstrip("/") for each in listed.get("CommonPrefixes", []))
        return [key for name in names if (key := self._bucket.own(name)) is not None]


def _hurried(options: S3Options) -> S3Options:
    return replace(
        options,
        connect_timeout=min(options.connect_timeout, CONNECT_SECONDS),
        read_timeout=min(options.read_timeout, READ_SECONDS),
        max_attempts=min(options.max_attempts, ATTEMPTS),
    )


def _date(headers: Mapping[str, Any]) -> datetime | None:
    try:
        found = parsedate_to_datetime(headers.get("date", ""))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
