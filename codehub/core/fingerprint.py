"""Secrets by their fingerprints: the hub keeps no session id, code or token, only hashes of them.

They are 256 random bits, so one round of SHA-256 is enough: there is nothing to guess. What a
person chose, a password, never comes here.
"""

from __future__ import annotations

import hmac
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from zlib import crc32

if TYPE_CHECKING:
    from uuid import UUID

    from codehub.model.access import Way

TOKEN_PREFIX: Final = "chub_"
"""By this and the fixed length, scanners find tokens that were committed or logged."""

CSRF_PREFIX: Final = f"{TOKEN_PREFIX}csrf_"
"""By this a proxy finds the proofs of forms where they must not go; pages of workspaces have
headers of the same names."""
ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
TOKEN_RANDOM: Final = 43
"""As many of 62 characters hold 256 bits."""
CHECK: Final = 6

_SECRET: Final = re.compile(rb"[A-Za-z0-9_-]{43}\Z")
_TOKEN: Final = re.compile(rb"chub_[A-Za-z0-9]{49}\Z")


def fingerprint(secret: str | bytes) -> str:
    """What is stored in place of a secret, and what it is found by."""
    return sha256(secret.encode() if isinstance(secret, str) else secret).hexdigest()


def looks_like_secret(value: bytes) -> bool:
    """Whether it could be a session id of ours; if not, nobody need be asked."""
    return _SECRET.match(value) is not None


def looks_like_token(value: bytes) -> bool:
    """Whether it could be a token of ours, typed or copied without a slip."""
    if _TOKEN.match(value) is None:
        return False
    text = value.decode("ascii")
    return text[-CHECK:] == checksum(text[:-CHECK])


def checksum(text: str) -> str:
    """What a token ends with: a slip in copying shows without asking the database."""
    number, digits = crc32(text.encode()), ""
    for _ in range(CHECK):
        number, digit = divmod(number, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    return digits


def csrf_token(key: bytes, way: Way, bound_to: UUID) -> str:
    """What a form of this session must carry; another session's is of no use."""
    return CSRF_PREFIX + hmac.digest(key, f"csrf {way} {bound_to}".encode(), "sha256").hex()


def same(given: str | bytes, expected: str) -> bool:
    """Compares without telling by the time it takes how much was right."""
    raw = given.encode("utf-8", "surrogatepass") if isinstance(given, str) else given
    return bool(expected) and hmac.compare_digest(raw, expected.encode())
