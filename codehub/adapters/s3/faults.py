"""What an S3 server's refusal or silence means: "no", or no answer; and what to do about it.

Only the code of an answer is told. Its text may name keys and signatures, and a broken server's
may be anything.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from botocore import exceptions as boto
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from codehub.errors import ActionFailed, CodeHubError, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_SUCH_KEY: Final = "NoSuchKey"
NO_SUCH_BUCKET: Final = "NoSuchBucket"
NO_SUCH_UPLOAD: Final = "NoSuchUpload"
NOT_IMPLEMENTED: Final = "NotImplemented"
DAMAGED: Final = frozenset(
    {"BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch", "IncompleteBody"}
)
"""What was sent arrived as something else."""

RAW: Final = (boto.ClientError, boto.BotoCoreError, ResponseParserError, HTTPError)
"""What boto3 raises, and what its streams let through."""

_CREDENTIALS_HINT: Final = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, for the hub's processes"
)


@dataclass(frozen=True, slots=True)
class _Meaning:
    kind: type[CodeHubError]
    sentence: str
    hint: str | None = None


_CREDENTIALS: Final = _Meaning(
    Unreachable, "the archive store does not accept our credentials", _CREDENTIALS_HINT
)
_DENIED: Final = _Meaning(
    Unreachable,
    "the archive store denies us access",
    "let the policy of the bucket, or of our credentials, allow to list the bucket and to get, "
    "put and delete its objects",
)
_CLOCK: Final = _Meaning(
    Unreachable,
    "the clock of this machine and that of the archive store differ too much",
    "set this machine's clock, best by NTP",
)
_NO_BUCKET: Final = _Meaning(
    Unreachable,
    "there is no such bucket in the archive store",
    "create it, or correct ARCHIVE_STORE_URL and S3_ENDPOINT_URL",
)
_REGION: Final = _Meaning(
    Unreachable,
    "the archive store sends us elsewhere, as when the bucket is in another region",
    "correct S3_REGION, or S3_ENDPOINT_URL",
)
_NO_SERVER: Final = _Meaning(Unreachable, "what answers is no S3 server", "correct S3_ENDPOINT_URL")
_FULL: Final = _Meaning(
    ActionFailed, "no space is left in the archive store", "free space there, or raise its quota"
)
_ARRIVED_DAMAGED: Final = _Meaning(
    ActionFailed, "what was sent to the archive store arrived damaged", "look after the network"
)
_BUSY: Final = _Meaning(Unreachable, "the archive store is not able to answer now")
_BROKEN: Final = _Meaning(
    Unreachable, "the archive store has an error of its own, such as a full disk; see its log"
)
"""What several servers answer where they have no room, and do not say so."""

_MEANINGS: Final = {
    "RequestTimeTooSkewed": _CLOCK,
    "RequestExpired": _CLOCK,
    "InvalidAccessKeyId": _CREDENTIALS,
    "SignatureDoesNotMatch": _CREDENTIALS,
    "ExpiredToken": _CREDENTIALS,
    "InvalidToken": _CREDENTIALS,
    "TokenRefreshRequired": _CREDENTIALS,
    NO_SUCH_BUCKET: _NO_BUCKET,
    "InvalidBucketName": _NO_BUCKET,
    "PermanentRedirect": _REGION,
    "TemporaryRedirect": _REGION,
    "AuthorizationHeaderMalformed": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "QuotaExceeded": _FULL,
    "InsufficientStorage": _FULL,
    "XMinioStorageFull": _FULL,
    "XMinioAdminBucketQuotaExceeded": _FULL,
    "InternalError": _BROKEN,
    "SlowDown": _BUSY,
    "RequestTimeout": _BUSY,
    NO_SUCH_UPLOAD: _Meaning(ActionFailed, "the archive store has given up this upload"),
    NO_SUCH_KEY: _Meaning(ActionFailed, "the object is no longer in the archive store"),
    "PreconditionFailed": _Meaning(ActionFailed, "the object was changed in between"),
    "412": _Meaning(ActionFailed, "the object was changed in between"),
    "InvalidObjectState": _Meaning(
        ActionFailed,
        "the object lies in cold storage",
        "restore it there, and keep archives in a storage class that can be read at once",
    ),
    **dict.fromkeys(DAMAGED, _ARRIVED_DAMAGED),
}

_SILENCES: Final[tuple[tuple[tuple[type[Exception], ...], str, str | None], ...]] = (
    (
        (boto.SSLError,),
        "the certificate of the archive store cannot be verified",
        "set S3_CA_BUNDLE to the certificate of its authority",
    ),
    (
        (
            boto.NoCredentialsError,
            boto.PartialCredentialsError,
            boto.CredentialRetrievalError,
            boto.TokenRetrievalError,
            boto.ProfileNotFound,
        ),
        "there are no credentials for the archive store",
        _CREDENTIALS_HINT,
    ),
    (
        (boto.EndpointConnectionError, boto.ConnectTimeoutError, boto.ProxyConnectionError),
        "the archive store cannot be reached",
        "see whether it runs, and whether S3_ENDPOINT_URL is right",
    ),
    ((boto.ReadTimeoutError,), "the archive store did not answer in time", None),
    (
        (boto.ConnectionError, boto.HTTPClientError, boto.IncompleteReadError, HTTPError),
        "the connection to the archive store broke off",
        None,
    ),
    (
        (ResponseParserError,),
        "the archive store's answer is not what an S3 server says",
        "see whether S3_ENDPOINT_URL is right",
    ),
)


def code_of(error: Exception) -> str:
    """What a server answered; nothing where it did not answer."""
    if not isinstance(error, boto.ClientError):
        return ""
    return str(error.response.get("Error", {}).get("Code", ""))


def status_of(error: boto.ClientError) -> int:
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)


def is_absent(error: boto.ClientError) -> bool:
    """Whether the answer is that there is no such object; after a HEAD also: no such bucket."""
    return status_of(error) == 404 and code_of(error) not in (NO_SUCH_BUCKET, NO_SUCH_UPLOAD)


def translate(error: Exception, doing: str) -> CodeHubError:
    """The error for people, saying what was being done."""
    if isinstance(error, boto.ClientError):
        return _translate_answer(error, doing)
    for kinds, sentence, hint in _SILENCES:
        if isinstance(error, kinds):
            return Unreachable(f"{sentence} ({doing})", hint=hint)
    return ActionFailed(f"the archive store could not be used: {type(error).__name__} ({doing})")


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Let no error of boto3 out of here."""
    try:
        yield
    except RAW as error:
        raise translate(error, doing) from error


def _translate_answer(error: boto.ClientError, doing: str) -> CodeHubError:
    code, status = code_of(error), status_of(error)
    meaning = _MEANINGS.get(code) or _by_status(status)
    sentence = meaning.sentence if meaning else "the archive store refused"
    detail = f"HTTP {status}" if not code or code.isdigit() else code
    kind = meaning.kind if meaning else ActionFailed
    return kind(f"{sentence}: {detail} ({doing})", hint=meaning.hint if meaning else None)


def _by_status(status: int) -> _Meaning | None:
    if status in (401, 403):
        return _DENIED
    if status in (301, 307, 308):
        return _REGION
    if status == 404:
        return _NO_SERVER
    if status == 507:
        return _FULL
    if status == 500:
        return _BROKEN
    if status in (408, 429) or (status >= 500 and status != 501):
        return _BUSY
    return None
