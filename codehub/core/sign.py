"""Sign what is posted to webhooks, as the Standard Webhooks convention has it.

The receiver computes the same over the id, the time and the bytes it got: nobody without the
secret can make one up, and the time keeps an old one from being sent again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING, Final

from codehub.errors import ActionFailed

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

ENCODED: Final = "whsec_"
"""Before a key in base64; without it the text itself is the key."""


def stamp(parcel_id: UUID, at: datetime) -> dict[str, str]:
    """The headers by which a receiver knows a parcel again and how old it is."""
    return {"webhook-id": str(parcel_id), "webhook-timestamp": str(int(at.timestamp()))}


def sign(secret: str, stamped: dict[str, str], body: bytes) -> dict[str, str]:
    """The stamp with its signature. Each line of the secret is a key that signs.

    So a key is changed without a gap: both for a while, then the new one alone.
    """
    head = f"{stamped['webhook-id']}.{stamped['webhook-timestamp']}."
    signed = head.encode() + body
    signatures = [_signature(key, signed) for key in read_keys(secret)]
    return {**stamped, "webhook-signature": " ".join(signatures)}


def read_keys(secret: str) -> tuple[bytes, ...]:
    """The keys in a secret. Raises ActionFailed for one that is none."""
    lines = [line.strip() for line in secret.splitlines() if line.strip()]
    if not lines:
        raise ActionFailed("the secret is empty")
    return tuple(_key(line) for line in lines)


def _key(line: str) -> bytes:
    if not line.startswith(ENCODED):
        return line.encode()
    try:
        return base64.b64decode(line.removeprefix(ENCODED), validate=True)
    except (binascii.Error, ValueError):
        raise ActionFailed(f"the secret has a key after {ENCODED} that is not base64") from None


def _signature(key: bytes, signed: bytes) -> str:
    digest = hmac.new(key, signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"
