"""What is sent to the store, in a form that neither copies it nor gives it one time limit.

A client that is handed plain bytes joins them with the headers, which costs as much memory again,
and allows the time for connecting for all of them: too little on a slow line. Of a file, each block
has that time for itself.
"""

from __future__ import annotations

import base64
import hashlib
from io import BytesIO
from typing import Final

_BLOCK: Final = 256 * 1024


class _Blocks(BytesIO):
    """Gives more than is asked for: 16 KiB at a time would be too many turns of a busy thread."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(max(size, _BLOCK) if size is not None and size > 0 else size)


def as_body(data: bytes) -> bytes | BytesIO:
    return data if len(data) <= _BLOCK else _Blocks(data)


def content_md5(data: bytes) -> str:
    """The checksum that every S3 server compares before it takes what it was sent."""
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
