"""A large object on its way, in parts that some threads upload at the same time.

No more parts are in memory than there are threads: whoever adds one waits for the oldest. An error
of any part comes out at the next `add` or at `finish`.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from codehub.adapters.s3.body import as_body, content_md5
from codehub.adapters.s3.bucket import TOKEN
from codehub.adapters.s3.faults import NO_SUCH_UPLOAD, code_of
from codehub.adapters.s3.resend import resend_damaged
from codehub.errors import ActionFailed

if TYPE_CHECKING:
    from concurrent.futures import Future

    from mypy_boto3_s3.type_defs import (
        CompletedPartTypeDef,
        CompleteMultipartUploadRequestTypeDef,
    )

    from codehub.adapters.s3.bucket import Bucket

MOST_PARTS: Final = 10_000
"""What S3 allows; all parts but the last have one size, because some servers insist."""


class Multipart:
    """One upload that the server knows of and that must be completed or aborted."""

    def __init__(self, bucket: Bucket, key: str, token: str) -> None:
        self._bucket = bucket
        self._name = bucket.full(key)
        begun = bucket.client.create_multipart_upload(
            Bucket=bucket.name, Key=self._name, Metadata={TOKEN: token}
        )
        self._id = begun["UploadId"]
        self._threads = ThreadPoolExecutor(bucket.options.upload_threads, "codehub-s3")
        self._going: deque[Future[CompletedPartTypeDef]] = deque()
        self._parts: list[CompletedPartTypeDef] = []

    def add(self, piece: bytes) -> None:
        number = len(self._parts) + len(self._going) + 1
        if number > MOST_PARTS:
            size = self._bucket.options.part_size
            raise ActionFailed(
                f"the object has more than {MOST_PARTS} parts of {size} bytes",
                hint="raise S3_PART_SIZE",
            )
        self._await_all_but(self._bucket.options.upload_threads - 1)
        self._going.append(self._threads.submit(self._upload, number, piece))

    def finish(self) -> None:
        """Wait until every part is there."""
        self._await_all_but(0)
        self._threads.shutdown()

    def complete(self, conditional: bool) -> None:
        request: CompleteMultipartUploadRequestTypeDef = {
            "Bucket": self._bucket.name,
            "Key": self._name,
            "UploadId": self._id,
            "MultipartUpload": {"Parts": self._parts},
        }
        if conditional:
            request["IfNoneMatch"] = "*"
        self._bucket.client.complete_multipart_upload(**request)

    def abort(self) -> None:
        """Parts under way would outlive the upload, so their end is waited for."""
        self._threads.shutdown(cancel_futures=True)
        self._going.clear()
        end_upload(self._bucket, self._name, self._id)

    def _await_all_but(self, count: int) -> None:
        while len(self._going) > count:
            self._parts.append(self._going.popleft().result())

    def _upload(self, number: int, piece: bytes) -> CompletedPartTypeDef:
        attempts = self._bucket.options.max_attempts
        return resend_damaged(lambda: self._send(number, piece), attempts)

    def _send(self, number: int, piece: bytes) -> CompletedPartTypeDef:
        sent = self._bucket.client.upload_part(
            Bucket=self._bucket.name,
            Key=self._name,
            UploadId=self._id,
            PartNumber=number,
            Body=as_body(piece),
            ContentMD5=content_md5(piece),
        )
        return {"PartNumber": number, "ETag": sent["ETag"]}


def end_upload(bucket: Bucket, name: str, upload_id: str) -> bool:
    """Give up an upload; whether there was one."""
    try:
        bucket.client.abort_multipart_upload(Bucket=bucket.name, Key=name, UploadId=upload_id)
    except ClientError as error:
        if code_of(error) != NO_SUCH_UPLOAD:
            raise
        return False
    return True
