"""What a check-up finds: one finding for each check, and how to fix what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """A warning is worth knowing and stops nothing; with a problem something does not work."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one look showed; `fix` says what to do about it."""

    health: Health
    message: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A check by its name, and what it showed."""

    name: str
    verdict: Verdict

    @property
    def health(self) -> Health:
        return self.verdict.health


def well(message: str) -> Verdict:
    return Verdict(Health.OK, message)


def warning(message: str, fix: str = "") -> Verdict:
    return Verdict(Health.WARNING, message, fix)


def problem(message: str, fix: str = "") -> Verdict:
    return Verdict(Health.PROBLEM, message, fix)
