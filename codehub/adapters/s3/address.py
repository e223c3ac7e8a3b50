"""The address of a bucket, `s3://bucket/prefix?option=value`, with all that is needed to use it.

A storage job gets this address and the environment, and no settings; so the options that are no
secrets travel in it. Each is named as its setting is, without `S3_`. Credentials never do: boto3
finds them where it always does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal, get_args
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from codehub.core.keys import is_part
from codehub.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from urllib.parse import SplitResult

SCHEME: Final = "s3"
MIB: Final = 1024 * 1024
SMALLEST_PART: Final = 5 * MIB
"""What S3 takes as a part that is not the last."""
LONGEST_PREFIX: Final = 100
"""Together with the longest key this stays below what S3 takes as a key."""

Style = Literal["auto", "path", "virtual"]

_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")
_HINT: Final = "give a bucket and, if you like, a prefix, such as s3://my-bucket/codehub"


@dataclass(frozen=True, slots=True)
class S3Options:
    """How a bucket is reached; the same names and defaults as the settings have."""

    endpoint_url: str | None = None
    region: str | None = None
    addressing: Style = "auto"
    ca_bundle: str | None = None
    connect_timeout: float = 10
    read_timeout: float = 60
    max_attempts: int = 4
    part_size: int = 8 * MIB
    upload_threads: int = 4


@dataclass(frozen=True, slots=True)
class S3Address:
    """A bucket and what goes before every key in it: nothing, or something that ends in "/"."""

    bucket: str
    prefix: str = ""
    options: S3Options = S3Options()


def parse_address(url: str) -> S3Address:
    """Take an address apart. It may hold a secret by mistake, so errors repeat nothing of it."""
    parts = _split(url)
    if "@" in parts.netloc:
        raise UsageError(
            "the address of the archive store has credentials in it",
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment instead",
        )
    if _BUCKET.fullmatch(parts.netloc) is None:
        raise UsageError("the address of the archive store names no bucket", hint=_HINT)
    return S3Address(parts.netloc, _prefix(parts.path), _options(_query(parts)))


def with_defaults(url: str, defaults: Mapping[str, object]) -> str:
    """The address with these options added; those it has itself stay as they are."""
    parts = _split(url)
    named = {name: str(value) for name, value in defaults.items() if value is not None}
    return parts._replace(query=urlencode(named | _query(parts))).geturl()


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise UsageError("the address of the archive store cannot be read", hint=_HINT) from None
    if parts.scheme != SCHEME or parts.fragment:
        raise UsageError("the address of the archive store is not one of a bucket", hint=_HINT)
    return parts


def _query(parts: SplitResult) -> dict[str, str]:
    try:
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise UsageError("the options of the archive store's address cannot be read") from None
    if len(dict(pairs)) != len(pairs):
        raise UsageError("the address of the archive store has an option twice")
    return dict(pairs)


def _prefix(path: str) -> str:
    prefix = unquote(path).strip("/")
    if not prefix:
        return ""
    if len(prefix) > LONGEST_PREFIX or not all(is_part(part) for part in prefix.split("/")):
        raise UsageError(
            "the prefix in the archive store's address cannot begin keys",
            hint=f"use letters, digits, '.', '_', '-' and '/', at most {LONGEST_PREFIX}",
        )
    return f"{prefix}/"


def _options(query: Mapping[str, str]) -> S3Options:
    known = [field.name for field in fields(S3Options)]
    strange = sorted(set(query) - set(known))
    if strange:
        raise UsageError(
            f"the address of the archive store has {len(strange)} unknown options",
            hint=f"there are {', '.join(known)}",
        )
    return replace(S3Options(), **{name: _READ[name](name, query[name]) for name in query})


def _text(name: str, text: str) -> str:
    if not text or not text.isprintable():
        raise _wrong(name, "must not be empty")
    return text


def _endpoint(name: str, text: str) -> str:
    try:
        parts = urlsplit(text)
        fits = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        fits = False
    if not fits or "@" in parts.netloc or parts.query or parts.fragment:
        raise _wrong(name, "must be http://host:port or https://host, without credentials")
    return text


def _style(name: str, text: str) -> str:
    if text not in get_args(Style):
        raise _wrong(name, f"must be one of {', '.join(get_args(Style))}")
    return text


def _seconds(name: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds <= 3600:
        raise _wrong(name, "must be seconds, above 0 and at most 3600")
    return seconds


def _within(least: int, most: int) -> Callable[[str, str], int]:
    def read(name: str, text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() else -1
        if not least <= number <= most:
            raise _wrong(name, f"must be a number from {least} to {most}")
        return number

    return read


def _wrong(name: str, rule: str) -> UsageError:
    return UsageError(
        f"S3_{name.upper()} {rule}", hint="correct the setting, or the archive store's address"
    )


_READ: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "endpoint_url": _endpoint,
    "region": _text,
    "addressing": _style,
    "ca_bundle": _text,
    "connect_timeout": _seconds,
    "read_timeout": _seconds,
    "max_attempts": _within(1, 20),
    "part_size": _within(SMALLEST_PART, 1024 * MIB),
    "upload_threads": _within(1, 16),
}
