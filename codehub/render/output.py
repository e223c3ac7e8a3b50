"""A workspace's own output on a terminal: its colours stay, whatever else acts on one does not."""

from __future__ import annotations

import codecs
import re
from typing import Final

from codehub.render.words import clean

_KEPT: Final = re.compile(r"(\x1b\[[0-9;]*m|\r?\n|\t)")
_BEGUN: Final = re.compile(r"(\x1b(\[[0-9;]{0,30})?|\r)\Z")


class Harmless:
    """Makes chunks of output safe to print, also where a chunk ends in the middle of something."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""

    def text(self, chunk: bytes) -> str:
        """What of it can be shown now."""
        text = self._rest + self._decoder.decode(chunk)
        begun = _BEGUN.search(text)
        self._rest = begun.group() if begun else ""
        return _safe(text[: len(text) - len(self._rest)])

    def end(self) -> str:
        """What was held back, and colours as they were before."""
        return _safe(self._rest + self._decoder.decode(b"", final=True)) + "\x1b[0m"


def _safe(text: str) -> str:
    parts = _KEPT.split(text)
    return "".join(part if index % 2 else clean(part) for index, part in enumerate(parts))
