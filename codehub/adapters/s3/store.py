"""The object store in a bucket; see `codehub.ports.ObjectStore` for what each call promises."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from codehub.adapters.s3.bucket import Bucket
from codehub.adapters.s3.faults import NO_SUCH_UPLOAD, NOT_IMPLEMENTED, code_of, translated
from codehub.adapters.s3.multipart import end_upload
from codehub.adapters.s3.reader import open_object
from codehub.adapters.s3.writer import S3Writer
from codehub.core.keys import require_key, require_prefix
from codehub.model.runtime import ObjectInfo

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from mypy_boto3_s3.type_defs import MultipartUploadTypeDef

    from codehub.adapters.s3.address import S3Address
    from codehub.adapters.s3.reader import S3Reader


class S3Store:
    """Objects in a bucket, which must exist. Nothing is asked before the first call."""

    def __init__(self, address: S3Address) -> None:
        self._bucket = Bucket(address)

    def close(self) -> None:
        """Let go of connections; the store can be used again."""
        self._bucket.close()

    def head(self, key: str) -> ObjectInfo | None:
        require_key(key)
        with translated("looking at an object"):
            found = self._bucket.find(key)
        if found is None:
            return None
        return _info(key, found["ContentLength"], found["LastModified"])

    def open_writer(self, key: str) -> S3Writer:
        return S3Writer(self._bucket, require_key(key))

    def open_reader(self, key: str) -> S3Reader | None:
        return open_object(self._bucket, require_key(key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Ends with an error rather than early."""
        require_prefix(prefix)
        with translated("listing"):
            for each in self._bucket.objects(prefix):
                key = self._bucket.own(each["Key"])
                if key is not None:
                    yield _info(key, each["Size"], each["LastModified"])

    def delete(self, key: str) -> None:
        """Of an object that is there: asked to delete "a/b", some servers delete "a"."""
        require_key(key)
        with translated("deleting an object"):
            if self._bucket.find(key) is not None:
                name = self._bucket.full(key)
                self._bucket.client.delete_object(Bucket=self._bucket.name, Key=name)

    def abort_unfinished(self, prefix: str, older_than: datetime) -> int:
        """An upload's age is that of its last part.

        Some servers have no such listing, and some have none before there was an upload.
        """
        require_prefix(prefix)
        count = 0
        with translated("giving up old uploads"):
            try:
                uploads = list(self._bucket.uploads(prefix))
            except ClientError as error:
                if code_of(error) not in (NOT_IMPLEMENTED, NO_SUCH_UPLOAD):
                    raise
                return 0
            for each in uploads:
                if self._is_abandoned(each, older_than):
                    count += end_upload(self._bucket, each["Key"], each["UploadId"])
        return count

    def _is_abandoned(self, upload: MultipartUploadTypeDef, older_than: datetime) -> bool:
        """One that takes longer than uploads are kept for is not given up while it goes on."""
        if self._bucket.own(upload["Key"]) is None or upload["Initiated"] >= older_than:
            return False
        parts = self._bucket.client.get_paginator("list_parts").paginate(
            Bucket=self._bucket.name, Key=upload["Key"], UploadId=upload["UploadId"]
        )
        try:
            return all(
                part["LastModified"] < older_than
                for page in parts
                for part in page.get("Parts", [])
            )
        except ClientError as error:
            if code_of(error) != NO_SUCH_UPLOAD:
                raise
            return False


def _info(key: str, size: int, modified_at: datetime) -> ObjectInfo:
    """To the second, as HTTP has it: listings are finer on some servers, and must not differ."""
    return ObjectInfo(key, size, modified_at.astimezone(UTC).replace(microsecond=0))
