"""A large object on its way, in parts that some threads upload at the same time.

No more parts are in memory than there are threads, and of larger ones fewer: whoever adds one waits
for the oldest before. An error of any part comes out at the next `await_room` or at `finish`.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from codehub.adapters.s3.body import as_body, content_md5
from codehub.adapters.s3.bucket import TOKEN
from codehub.adapters.s3.faults import NO_SUCH_UPLOAD, code_of
from codehub.adapters.s3.parts import MOST_PARTS, part_size, parts_at_once
from codehub.adapters.s3.resend import resend_damaged
from codehub.errors import ActionFailed

if TYPE_CHECKING:
    from concurrent.futures import Future

    from mypy_boto3_s3.type_defs import (
        CompletedPartTypeDef,
        CompleteMultipartUploadRequestTypeDef,
    )

    from codehub.adapters.s3.bucket import Bucket


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

    @property
    def next_size(self) -> int:
        """How large the next part is to be, unless it is the last."""
        return part_size(self._next, self._bucket.options.part_size)

    def await_room(self) -> None:
        """Wait until one more part may be in memory."""
        options = self._bucket.options
        at_once = parts_at_once(self.next_size, options.part_size, options.upload_threads)
        self._await_all_but(at_once - 1)

    def add(self, piece: bytes) -> None:
        number = self._next
        if number > MOST_PARTS:
            raise ActionFailed(
                f"the object has more than {MOST_PARTS} parts", hint="raise S3_PART_SIZE"
            )
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

    @property
    def _next(self) -> int:
        return len(self._parts) + len(self._going) + 1

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
