"""Writing one object: a small one by a single PUT, a larger one in parts as it comes."""

from __future__ import annotations

import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from codehub.adapters.s3.body import as_body, content_md5
from codehub.adapters.s3.bucket import TOKEN
from codehub.adapters.s3.faults import translated
from codehub.adapters.s3.multipart import Multipart
from codehub.adapters.s3.place import place, require_free
from codehub.adapters.s3.resend import resend_damaged
from codehub.errors import ActionFailed, CodeHubError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3.type_defs import PutObjectRequestTypeDef

    from codehub.adapters.s3.bucket import Bucket


class S3Writer:
    """One object being written; nobody sees it before `commit`.

    Up to the size of one part, the server hears nothing of it before that.
    """

    def __init__(self, bucket: Bucket, key: str) -> None:
        self._bucket = bucket
        self._key = key
        self._token = uuid.uuid4().hex
        self._held = bytearray()
        self._upload: Multipart | None = None
        self._ended = False

    def write(self, data: bytes) -> None:
        with self._whole("uploading"):
            self._held += data
            while len(self._held) > (size := self._part_size):
                self._add(size)

    def commit(self) -> None:
        """Give it its name; one that has the name already is kept.

        Unreachable when the answer was lost and the object is not to be found: it may yet appear.
        """
        with self._whole("committing"):
            self._place()
        self._end()

    def abort(self) -> None:
        """Forget it; harmless after a commit."""
        if self._ended:
            return
        self._end()
        if self._upload is not None:
            with translated("giving up an upload"):
                self._upload.abort()

    @property
    def _part_size(self) -> int:
        return self._upload.next_size if self._upload else self._bucket.options.part_size

    def _add(self, size: int) -> None:
        """Send the first bytes that are held on their way, copied when there is room for that."""
        if self._upload is None:
            require_free(self._bucket, self._key)
            self._upload = Multipart(self._bucket, self._key, self._token)
        self._upload.await_room()
        self._upload.add(bytes(memoryview(self._held)[:size]))
        del self._held[:size]

    def _place(self) -> None:
        if self._upload is None:
            place(self._bucket, self._key, self._token, self._put)
            return
        self._add(len(self._held))
        self._upload.finish()
        place(self._bucket, self._key, self._token, self._upload.complete)

    def _put(self, conditional: bool) -> None:
        attempts = self._bucket.options.max_attempts
        resend_damaged(lambda: self._send(bytes(self._held), conditional), attempts)

    def _send(self, data: bytes, conditional: bool) -> None:
        request: PutObjectRequestTypeDef = {
            "Bucket": self._bucket.name,
            "Key": self._bucket.full(self._key),
            "Body": as_body(data),
            "ContentMD5": content_md5(data),
            "Metadata": {TOKEN: self._token},
        }
        if conditional:
            request["IfNoneMatch"] = "*"
        self._bucket.client.put_object(**request)

    @contextmanager
    def _whole(self, doing: str) -> Iterator[None]:
        """An upload that has failed once is over: what would follow has a hole before it."""
        if self._ended:
            raise ActionFailed("this upload has ended")
        try:
            with translated(doing):
                yield
        except BaseException:
            with suppress(CodeHubError):
                self.abort()
            raise

    def _end(self) -> None:
        self._ended = True
        self._held = bytearray()
