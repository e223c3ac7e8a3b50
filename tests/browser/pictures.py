"""The pictures of the hub's pages in the documentation, made anew:

    python -m tests.browser.pictures docs/images/pages

Each page light and dark, wide and narrow. The files are small: few colours, packed well. What they
were made from is kept beside them, so that a test sees when they are to be made again.
"""

from __future__ import annotations

import struct
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path
from typing import Final

from tests.browser.driven import driven
from tests.browser.pages_site import serving
from tests.browser.rendered import keep
from tests.snapshots.page_cases import PAGES

SHOWN: Final = (
    *("login", "loading", "restoring", "archived", "pending", "error", "held", "limit"),
    *("missing", "gone"),
)
SIZES: Final = {"wide": (1400, 760), "narrow": (390, 700)}
SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"


def main(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with profile as place, serving() as site, driven(Path(place)) as tab:
        for name in SHOWN:
            for size, (width, height) in SIZES.items():
                for scheme in ("light", "dark"):
                    tab.look_like(width, height, dark=scheme == "dark")
                    tab.open(f"{site}/{name}")
                    file = directory / f"{name}-{size}-{scheme}.png"
                    file.write_bytes(packed(tab.picture()))
    keep(directory, rendered())


def rendered() -> dict[str, str]:
    """What the pictures show."""
    return {name: PAGES[name]() for name in SHOWN}


def packed(png: bytes) -> bytes:
    """The picture with at most 256 colours: the most frequent ones, and the nearest for others."""
    width, height, channels, rows = _read(png)
    starts = range(0, width * channels, channels)
    pixels = [[bytes(row[at : at + 3]) for at in starts] for row in rows]
    counted = Counter(colour for row in pixels for colour in row)
    palette = [colour for colour, _ in counted.most_common(256)]
    numbers = {colour: _nearest(colour, palette) for colour in counted}
    lines = b"".join(b"\0" + bytes(numbers[colour] for colour in row) for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = (b"IHDR", header), (b"PLTE", b"".join(palette)), (b"IDAT", zlib.compress(lines, 9))
    return SIGNATURE + b"".join(_chunk(kind, data) for kind, data in (*parts, (b"IEND", b"")))


def _nearest(colour: bytes, palette: list[bytes]) -> int:
    def distance(number: int) -> int:
        return sum((a - b) ** 2 for a, b in zip(colour, palette[number], strict=True))

    return palette.index(colour) if colour in palette else min(range(len(palette)), key=distance)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _read(png: bytes) -> tuple[int, int, int, list[bytearray]]:
    """Width, height, bytes for each pixel, and the rows of a plain 8-bit picture."""
    assert png.startswith(SIGNATURE)
    at, data = len(SIGNATURE), b""
    while at < len(png):
        (size,), kind = struct.unpack_from(">I", png, at), png[at + 4 : at + 8]
        content = png[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colours = struct.unpack_from(">IIBB", content)
            assert depth == 8
            channels = {2: 3, 6: 4}[colours]
        elif kind == b"IDAT":
            data += content
        at += size + 12
    raw, stride = zlib.decompress(data), width * channels
    rows: list[bytearray] = []
    before = bytearray(stride)
    for line in range(height):
        start = line * (stride + 1)
        before = _unfiltered(raw[start], raw[start + 1 : start + 1 + stride], before, channels)
        rows.append(before)
    return width, height, channels, rows


def _unfiltered(kind: int, line: bytes, above: bytearray, step: int) -> bytearray:
    row = bytearray(line)
    if kind == 0:
        return row
    for at in range(len(row)):
        left = row[at - step] if at >= step else 0
        if kind == 1:
            guess = left
        elif kind == 2:
            guess = above[at]
        elif kind == 3:
            guess = (left + above[at]) // 2
        else:
            guess = _paeth(left, above[at], above[at - step] if at >= step else 0)
        row[at] = (row[at] + guess) & 0xFF
    return row


def _paeth(left: int, above: int, corner: int) -> int:
    near = left + above - corner
    return min((left, above, corner), key=lambda each: abs(near - each))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
