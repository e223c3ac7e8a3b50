"""What a benchmark is to reach: every goal is printed with its figure, and one that is missed ends
the command with 1. Only whole runs are judged, never the short ones of the test suite."""

from __future__ import annotations

import sys


class Goals:
    """The goals of one run, judged one after the other; leave with `finish`."""

    def __init__(self) -> None:
        self._missed = 0

    def at_most(self, what: str, value: float, limit: float, unit: str = "") -> None:
        self._judge(what, f"{value:.4g}{unit}, goal at most {limit:g}{unit}", value <= limit)

    def at_least(self, what: str, value: float, limit: float, unit: str = "") -> None:
        self._judge(what, f"{value:.4g}{unit}, goal at least {limit:g}{unit}", value >= limit)

    def exactly(self, what: str, value: object, wanted: object) -> None:
        self._judge(what, f"{value}, goal {wanted}", value == wanted)

    def finish(self) -> None:
        sys.exit(1 if self._missed else 0)

    def _judge(self, what: str, told: str, reached: bool) -> None:
        self._missed += not reached
        print(f"{'reached' if reached else 'MISSED '}  {what}: {told}", flush=True)
