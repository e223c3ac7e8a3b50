"""Reading one object to its end, over as many connections as that takes.

A stream that breaks, stalls or ends early is taken up where it stopped, as long as the object is
still the same one. Less than the whole object is never passed off as the whole.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError, IncompleteReadError

from codehub.adapters.s3.bucket import require_fields
from codehub.adapters.s3.faults import NO_SUCH_KEY, RAW, code_of, translate, translated
from codehub.errors import ActionFailed

if TYPE_CHECKING:
    from types import TracebackType

    from botocore.response import StreamingBody
    from mypy_boto3_s3.type_defs import GetObjectOutputTypeDef

    from codehub.adapters.s3.bucket import Bucket

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 20.0
_PROGRESS: Final = 1024 * 1024
"""So much further on, earlier troubles are forgotten."""
_DOING: Final = "reading an object"


def open_object(bucket: Bucket, key: str) -> S3Reader | None:
    """The object, ready to be read; None when there is none."""
    with translated("opening an object"):
        try:
            answer = bucket.client.get_object(Bucket=bucket.name, Key=bucket.full(key))
        except ClientError as error:
            if code_of(error) != NO_SUCH_KEY:
                raise
            return None
        return S3Reader(bucket, key, require_fields(answer, "ContentLength", "ETag"))


class S3Reader:
    """One object being read."""

    def __init__(self, bucket: Bucket, key: str, answer: GetObjectOutputTypeDef) -> None:
        self._bucket = bucket
        self._key = key
        self._etag = answer["ETag"]
        self._size = answer["ContentLength"]
        self._at = 0
        self._troubles = 0
        self._troubled_at = 0
        self._body: StreamingBody | None = answer["Body"]
        self._open = True

    def read(self, size: int) -> bytes:
        if not self._open:
            raise ActionFailed("this object is no longer open")
        while size > 0 and self._at < self._size:
            piece = self._read(min(size, self._size - self._at))
            if piece:
                self._at += len(piece)
                return piece
        return b""

    def __enter__(self) -> S3Reader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open = False
        self._drop()

    def _read(self, size: int) -> bytes:
        """The next piece; nothing when there was trouble that may pass."""
        try:
            if self._body is None:
                self._body = self._resume()
            piece = self._body.read(size)
        except RAW as error:
            self._drop()
            self._bear(error)
            return b""
        if not piece:
            self._drop()
            self._bear(None)
        return piece

    def _resume(self) -> StreamingBody:
        """The rest, of the very same object: a server may ignore each condition it is given."""
        answer = self._bucket.client.get_object(
            Bucket=self._bucket.name,
            Key=self._bucket.full(self._key),
            Range=f"bytes={self._at}-",
            IfMatch=self._etag,
        )
        expected = f"bytes {self._at}-{self._size - 1}/{self._size}"
        if answer.get("ETag") != self._etag or answer.get("ContentRange") != expected:
            answer["Body"].close()
            raise ActionFailed(
                f"{self._key} could not be read to its end: the archive store went on with "
                "something else"
            )
        return answer["Body"]

    def _bear(self, error: Exception | None) -> None:
        """Pause before the next try, or give up; an answer that means "no" is not asked for again.

        boto3 has tried the request itself several times already; a stream is ours to take up.
        """
        if isinstance(error, ClientError):
            raise translate(error, _DOING) from error
        if self._at - self._troubled_at >= _PROGRESS:
            self._troubles = 0
        self._troubles += 1
        self._troubled_at = self._at
        if self._troubles >= self._bucket.options.max_attempts:
            raise translate(error or _cut_short(self._at, self._size), _DOING) from error
        time.sleep(random.uniform(0, min(_FIRST_PAUSE * 2**self._troubles, _LONGEST_PAUSE)))

    def _drop(self) -> None:
        if self._body is not None:
            self._body.close()
            self._body = None


def _cut_short(at: int, size: int) -> IncompleteReadError:
    return IncompleteReadError(actual_bytes=at, expected_bytes=size)
