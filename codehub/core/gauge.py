"""How far an operation is, in words: what a storage job reports, put to people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.model.states import Operation, Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codehub.model.workspace import Status

_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")
_STEP: Final = 1024


def progress_words(progress: Mapping[str, object]) -> str:
    """`uploading, 1.2 GiB of 4.0 GiB (30%)`; nothing where nothing was reported."""
    stage = progress.get("stage")
    parts = [stage] if isinstance(stage, str) and stage else []
    done, total = _number(progress, "bytes"), _number(progress, "total")
    if done is not None and total:
        percent = min(100, 100 * done // total)
        parts.append(f"{amount(done)} of {amount(total)} ({percent}%)")
    elif done:
        parts.append(amount(done))
    return ", ".join(parts)


def unanswered(status: Status) -> bool:
    """Whether it runs and nobody has answered at its port yet.

    What runs is RUNNING by the facts; people can use it when its start is over.
    """
    return status.phase is Phase.RUNNING and status.operation is Operation.STARTING


def amount(count: int) -> str:
    """Bytes as people say them: rounded, in the largest unit that fits."""
    value, unit = float(count), _UNITS[0]
    for unit in _UNITS:
        if value < _STEP or unit == _UNITS[-1]:
            break
        value /= _STEP
    return f"{count} bytes" if unit == _UNITS[0] else f"{value:.1f} {unit}"


def _number(progress: Mapping[str, object], key: str) -> int | None:
    value = progress.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
