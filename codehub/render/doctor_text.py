"""The findings of a check-up, for people and for scripts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from codehub.model.checkup import Health
from codehub.render.words import counted
from codehub.render.wrap import wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codehub.model.checkup import Finding

FORMAT_VERSION: Final = 1
_HEALTH_WIDTH: Final = max(len(each.value) for each in Health)


def doctor_text(findings: Sequence[Finding]) -> str:
    """One paragraph for each check, how to fix it below, and the sum at the end."""
    width = max(len(each.name) for each in findings)
    return "".join(_paragraph(each, width) for each in findings) + "\n" + _sum(findings)


def _paragraph(finding: Finding, width: int) -> str:
    first = f"{finding.health.value.ljust(_HEALTH_WIDTH)}  {finding.name.ljust(width)}  "
    rest = " " * len(first)
    text = wrapped(finding.verdict.message, first, rest)
    if finding.verdict.fix:
        text += wrapped(finding.verdict.fix, f"{rest}-> ", f"{rest}   ")
    return text


def _sum(findings: Sequence[Finding]) -> str:
    problems = sum(each.health is Health.PROBLEM for each in findings)
    warnings = sum(each.health is Health.WARNING for each in findings)
    if not problems and not warnings:
        return f"{counted(len(findings), 'check')}, all well.\n"
    return (
        f"{counted(len(findings), 'check')}: {counted(problems, 'problem')}, "
        f"{counted(warnings, 'warning')}.\n"
    )


def doctor_json(findings: Sequence[Finding]) -> str:
    """Stable for scripts."""
    checks = [
        {
            "name": each.name,
            "health": each.health.value,
            "message": each.verdict.message,
            "fix": each.verdict.fix or None,
        }
        for each in findings
    ]
    healthy = all(each.health is not Health.PROBLEM for each in findings)
    return json.dumps(
        {"formatVersion": FORMAT_VERSION, "healthy": healthy, "checks": checks}, indent=2
    )
