"""One bucket and the place in it that is ours: keys here go without the prefix of the address.

These are the bare calls; their errors are boto3's, and are translated by whoever makes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError

from codehub.adapters.s3.client import LazyClient
from codehub.adapters.s3.faults import is_absent
from codehub.core.keys import LONGEST_KEY, is_part
from codehub.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_s3.type_defs import (
        HeadObjectOutputTypeDef,
        ListMultipartUploadsRequestTypeDef,
        ListObjectsV2OutputTypeDef,
        ListObjectsV2RequestTypeDef,
        MultipartUploadTypeDef,
        ObjectTypeDef,
    )

    from codehub.adapters.s3.address import S3Address

Answer = TypeVar("Answer", bound="Mapping[str, object]")

TOKEN: Final = "codehub-upload"
"""The metadata by which an upload knows its own object again."""

_OF_OBJECTS: Final = ("Name", "IsTruncated", "KeyCount", "Contents")
_OF_UPLOADS: Final = ("Bucket", "IsTruncated", "MaxUploads", "Uploads")
"""Of each listing a server has some of these, also where it is empty."""


class Bucket:
    """A bucket; `conditional` turns False when its server knows no conditional writes."""

    def __init__(self, address: S3Address) -> None:
        self.name = address.bucket
        self.options = address.options
        self.conditional = True
        self._prefix = address.prefix
        self._client = LazyClient(address.options)

    @property
    def client(self) -> S3Client:
        return self._client.get()

    def close(self) -> None:
        self._client.close()

    def full(self, key: str) -> str:
        """What the server calls it."""
        return self._prefix + key

    def own(self, name: str) -> str | None:
        """The key of an object by its full name; None for one that we cannot have written."""
        key = name.removeprefix(self._prefix)
        ours = name.startswith(self._prefix) and len(key) <= LONGEST_KEY
        return key if ours and all(is_part(part) for part in key.split("/")) else None

    def find(self, key: str) -> HeadObjectOutputTypeDef | None:
        """The answer to a HEAD of the object; None when there is none.

        A HEAD's refusal has no body that says why: "no such object" and "no such bucket" are the
        same, and so are all denials. A listing of this one key says it, by the error it raises.
        """
        name = self.full(key)
        try:
            return self._head(name)
        except ClientError as error:
            page = self._page({"Bucket": self.name, "Prefix": name, "MaxKeys": 1})
            if not is_absent(error):
                raise
        if any(each["Key"] == name for each in page.get("Contents", [])):
            return self._find_listed(name)
        return None

    def objects(self, prefix: str) -> Iterator[ObjectTypeDef]:
        """All objects whose keys begin with the prefix, page after page; never less than all."""
        request: ListObjectsV2RequestTypeDef = {"Bucket": self.name, "Prefix": self.full(prefix)}
        while True:
            page = self._page(request)
            yield from page.get("Contents", [])
            if not page.get("IsTruncated"):
                return
            token = page.get("NextContinuationToken")
            if not token or token == request.get("ContinuationToken"):
                raise _broken_off()
            request["ContinuationToken"] = token

    def uploads(self, prefix: str) -> Iterator[MultipartUploadTypeDef]:
        """All uploads that are not finished, for keys that begin with the prefix."""
        request: ListMultipartUploadsRequestTypeDef = {
            "Bucket": self.name,
            "Prefix": self.full(prefix),
        }
        while True:
            page = require_any(self.client.list_multipart_uploads(**request), *_OF_UPLOADS)
            yield from page.get("Uploads", [])
            if not page.get("IsTruncated"):
                return
            after = (page.get("NextKeyMarker", ""), page.get("NextUploadIdMarker", ""))
            if after == (request.get("KeyMarker"), request.get("UploadIdMarker")) or not after[0]:
                raise _broken_off()
            request["KeyMarker"], request["UploadIdMarker"] = after

    def _find_listed(self, name: str) -> HeadObjectOutputTypeDef:
        """One that has come to be in this moment is there now."""
        try:
            return self._head(name)
        except ClientError as error:
            if is_absent(error):
                raise _contradiction() from error
            raise

    def _head(self, name: str) -> HeadObjectOutputTypeDef:
        found = self.client.head_object(Bucket=self.name, Key=name)
        return require_fields(found, "ContentLength", "LastModified")

    def _page(self, request: ListObjectsV2RequestTypeDef) -> ListObjectsV2OutputTypeDef:
        return require_any(self.client.list_objects_v2(**request), *_OF_OBJECTS)


def require_any(answer: Answer, *names: str) -> Answer:
    """The answer itself. A page of another kind, if it is XML, reads as a listing of nothing."""
    if not any(name in answer for name in names):
        raise ResponseParserError
    return answer


def require_fields(answer: Answer, *names: str) -> Answer:
    """The answer itself. A web server that is not S3's has other headers, or none."""
    if any(name not in answer for name in names):
        raise ResponseParserError
    return answer


def _contradiction() -> Unreachable:
    return Unreachable(
        "the archive store contradicts itself: it lists an object that it says is not there",
        hint="see whether all parts of it are up",
    )


def _broken_off() -> Unreachable:
    return Unreachable("the archive store broke off a listing, so what it holds is unknown")
