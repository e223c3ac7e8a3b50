"""Durations in SQL, in the words of `core/express.py`, for audit rows that a statement writes.

A statement that tests, sets and tells why has no moment at which Python could put the words.
"""

from __future__ import annotations

from typing import Final

_SECONDS: Final = "GREATEST(floor(extract(epoch FROM {span})), 0)::bigint"


def short(span: str) -> str:
    """SQL for an interval's two largest units: `4h12m`, `3d`, `45s`; nothing is below `0s`."""
    return f"""(SELECT CASE
            WHEN n >= 86400 THEN {_pair(86400, "d", 3600, "h")}
            WHEN n >= 3600 THEN {_pair(3600, "h", 60, "m")}
            WHEN n >= 60 THEN {_pair(60, "m", 1, "s")}
            ELSE n || 's' END FROM (SELECT {_SECONDS.format(span=span)} AS n) AS s)"""


def exact(span: str) -> str:
    """SQL for an interval as a spec would write it: `24h`, `90s`, `7d`."""
    return f"""(SELECT CASE
            WHEN n >= 172800 AND mod(n, 86400) = 0 THEN n / 86400 || 'd'
            WHEN n >= 3600 AND mod(n, 3600) = 0 THEN n / 3600 || 'h'
            WHEN n >= 60 AND mod(n, 60) = 0 THEN n / 60 || 'm'
            ELSE n || 's' END FROM (SELECT {_SECONDS.format(span=span)} AS n) AS s)"""


def _pair(unit: int, letter: str, part: int, smaller: str) -> str:
    """The larger unit, and the smaller one where there is any of it."""
    rest = f"NULLIF(mod(n, {unit}) / {part}, 0)"
    return f"concat(n / {unit}, '{letter}', {rest} || '{smaller}')"
