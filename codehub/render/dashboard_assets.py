"""What the dashboard's pages load beside themselves: one style sheet, one script, one picture.

Each is served under a name that changes with its content, so that browsers can keep it for ever
and never have the wrong one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from codehub.resources import template_directory

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX: Final = "/assets/"
STYLE: Final = "dashboard.css"
SCRIPT: Final = "dashboard.js"
ICON: Final = "icon.svg"

_PARTS: Final = {
    # The colours and shapes of all our pages first, then what only the dashboard has.
    STYLE: ("style/page.css", "style/dashboard.css"),
    SCRIPT: ("script/dashboard.js",),
    ICON: ("image/icon.svg",),
}
_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is served."""

    path: str
    content: bytes
    kind: str


def asset_path(name: str) -> str:
    """Where pages find it."""
    return _assets()[name].path


@cache
def assets() -> Mapping[str, Asset]:
    """All of them, by the path they are served under."""
    return {each.path: each for each in _assets().values()}


@cache
def _assets() -> Mapping[str, Asset]:
    return {name: _asset(name) for name in _PARTS}


def _asset(name: str) -> Asset:
    directory = template_directory()
    content = b"".join((directory / part).read_bytes() for part in _PARTS[name])
    stem, _, suffix = name.rpartition(".")
    digest = sha256(content).hexdigest()[:16]
    return Asset(f"{PREFIX}{stem}.{digest}.{suffix}", content, _TYPES[suffix])
