"""What an address is for: a page or a form of the hub's own, or a workspace.

It is read for every request, so few bytes of it are looked at, and names are remembered.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from codehub.proxy.hosts import NAME

if TYPE_CHECKING:
    from codehub.proxy.hosts import Place
    from codehub.proxy.seam import RequestHead

FORM_BYTES: Final = 64 * 1024
MOST_NAMES: Final = 1000
WORKSPACES: Final = b"/w/"
OWN: Final = b"/_codehub/"
_HUB_FORMS: Final = (b"/login", b"/logout", OWN)
_WORKSPACE_FORMS: Final = (b"/_codehub/do/",)
_LONGEST_BASE: Final = 64
_BELOW: Final = re.compile(rf"/w/({NAME})(?=[/?]|$)".encode())


def may_be_own(target: bytes, place: Place) -> bool:
    """Whether an address may be one of the hub's own; on a workspace's host few are."""
    if place.workspace is not None:
        return target.startswith(OWN)
    return not target.startswith(WORKSPACES)


def form_limit(head: RequestHead, place: Place) -> int:
    """The hub's own forms are read before they are judged; what is for a workspace is not."""
    forms = _HUB_FORMS if place.workspace is None else _WORKSPACE_FORMS
    return FORM_BYTES if head.method == b"POST" and head.path.startswith(forms) else 0


@lru_cache(MOST_NAMES)
def _below(target: bytes) -> tuple[str | None, bytes]:
    match = _BELOW.match(target)
    return (match[1].decode(), match[0]) if match is not None else (None, b"")


def workspace_of(head: RequestHead, place: Place) -> tuple[str | None, bytes]:
    """The workspace that is asked for, and what stands before its own paths."""
    if place.workspace is not None:
        return place.workspace, b""
    end = head.target.find(b"/", len(WORKSPACES), _LONGEST_BASE)
    return _below(head.target[: end if end > 0 else _LONGEST_BASE])
