"""How times, sizes and durations are put to people: the same words wherever they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import timedelta

_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_LONG: Final = {"d": "day", "h": "hour", "m": "minute", "s": "second"}
_BINARY: Final = (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))


def short(span: timedelta) -> str:
    """The two largest units that matter: `4h12m`, `3d`, `45s`; nothing is below `0s`."""
    rest = max(0, int(span.total_seconds()))
    parts: list[str] = []
    for letter, unit in _UNITS:
        count, rest = divmod(rest, unit)
        if count:
            parts.append(f"{count}{letter}")
        elif parts:
            break
    return "".join(parts[:2]) or "0s"


def long(span: timedelta) -> str:
    """The largest unit, in words: `2 minutes`, `1 hour`."""
    rest = max(0, int(span.total_seconds()))
    for letter, unit in _UNITS:
        if rest >= unit:
            count = rest // unit
            return f"{count} {_LONG[letter]}{'' if count == 1 else 's'}"
    return "0 seconds"


def seconds(count: int) -> str:
    """A duration as a spec would write it: exact, in one unit (`24h`, `90s`, `7d`)."""
    for letter, unit in _UNITS:
        # A day is written as 24h, which is what policies say; from two days on, days read better.
        if count >= unit and count % unit == 0 and not (letter == "d" and count < 2 * unit):
            return f"{count // unit}{letter}"
    return f"{count}s"


def size(count: int) -> str:
    """Bytes as a spec would write them: exact, in one unit (`4Gi`, `512Mi`)."""
    for suffix, unit in _BINARY:
        if count >= unit and count % unit == 0:
            return f"{count // unit}{suffix}"
    return str(count)
