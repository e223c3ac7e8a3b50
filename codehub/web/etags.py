"""ETags: what somebody has seen, and whether it is still so (RFC 9110)."""

from __future__ import annotations

import re
from typing import Annotated, Final

from fastapi import Header

from codehub.errors import Outdated

_TAG: Final = re.compile(r'(?:W/)?"([^"]*)"')

TAG_EXAMPLE: Final = '"6f1c0a2b9d3e4f508192a3b4c5d6e7f8"'

IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        description="Only if it is as it was seen: the `ETag` it had then. `*` for however it is.",
        examples=[TAG_EXAMPLE],
    ),
]
IfNoneMatch = Annotated[
    str | None,
    Header(
        alias="If-None-Match",
        description="Only if it is not as it was seen.",
        examples=[TAG_EXAMPLE],
    ),
]


def etag(version: str) -> str:
    return f'"{version}"'


def check_match(said: str | None, version: str) -> None:
    """Raise Outdated unless one of the tags is this version's; weak ones never are."""
    if said is None or said.strip() == "*" or etag(version) in _tags(said):
        return
    raise Outdated(
        "it has changed since you looked", hint="look again, and ask again if you still want it"
    )


def is_known(said: str | None, version: str) -> bool:
    """Whether a client that has these tags has this version; a weak tag will do."""
    if said is None:
        return False
    return said.strip() == "*" or etag(version) in [tag.removeprefix("W/") for tag in _tags(said)]


def _tags(said: str) -> list[str]:
    return [match[0] for match in _TAG.finditer(said)]
