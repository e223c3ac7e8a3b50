"""`Idempotency-Key`: what a client calls a request by which it may send again.

Most of what the API does may be repeated as it is. The header is for what makes something new, and
whose answer cannot be had a second time.
"""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Depends, Header, Request

from codehub.errors import UsageError

NAME: Final = "Idempotency-Key"
MOST: Final = 255
_PRINTABLE: Final = r"^[!-~]+$"
_ABOUT: Final = (
    "What to know this request by, for instance a UUID: sent again within a day with the same key "
    "and body, it makes nothing new. With another body it is a 422."
)


async def one_key(
    request: Request,
    key: Annotated[
        str | None,
        Header(
            alias=NAME,
            max_length=MOST,
            pattern=_PRINTABLE,
            description=_ABOUT,
            examples=["0e6f3c52-43c7-4f5e-8a62-0f5f1b3a9d10"],
        ),
    ] = None,
) -> str | None:
    """A dependency: the key, None where there is none. Two of them would be none at all."""
    if len(request.headers.getlist(NAME)) > 1:
        raise UsageError(f"there is more than one {NAME}", hint="send one of them")
    return key


RequestKey = Annotated[str | None, Depends(one_key)]
