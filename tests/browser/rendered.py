"""What the pictures in the documentation were made from, so that none grows stale unnoticed.

Whatever makes pictures keeps a digest of each page beside them, with `keep`. A test asks `stale`
which of the pages look different by now: no browser is needed for that. Styles and scripts count,
since a page has them in itself or names them by their digests.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE: Final = "rendered.json"


def keep(directory: Path, pages: Mapping[str, str]) -> None:
    """The pictures in `directory` show these pages, by the names that their files begin with."""
    (directory / FILE).write_text(json.dumps(_digests(pages), indent=2, sort_keys=True) + "\n")


def stale(directory: Path, pages: Mapping[str, str]) -> set[str]:
    """Pages that changed, came or went since their pictures were made."""
    kept, now = json.loads((directory / FILE).read_text()), _digests(pages)
    return {name for name in {*kept, *now} if kept.get(name) != now.get(name)}


def _digests(pages: Mapping[str, str]) -> dict[str, str]:
    return {name: sha256(text.encode()).hexdigest()[:16] for name, text in pages.items()}
