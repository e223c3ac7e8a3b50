"""New secrets: session ids, codes, tokens. All of them hold 256 random bits."""

from __future__ import annotations

import secrets

from codehub.core.fingerprint import ALPHABET, TOKEN_PREFIX, TOKEN_RANDOM, checksum


def new_secret() -> str:
    """A session's id, a code or a key: 43 characters that need no quoting anywhere."""
    return secrets.token_urlsafe(32)


def new_token() -> str:
    """A token for programs, with what scanners and people know it by."""
    body = TOKEN_PREFIX + "".join(secrets.choice(ALPHABET) for _ in range(TOKEN_RANDOM))
    return body + checksum(body)
