"""Which workspaces a plan is about when it is asked for only some: `--target`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codehub.core.suggest import did_you_mean
from codehub.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codehub.model.admission import Admission
    from codehub.model.workspace import Declaration


def select(admissions: Iterable[Admission], target: str | None) -> tuple[Admission, ...]:
    """Those that `target` names: a workspace, by its old or new name, or a label `key=value`."""
    if target is None:
        return tuple(admissions)
    known = tuple(admissions)
    key, equals, value = target.partition("=")
    if equals:
        chosen = tuple(each for each in known if _labelled(each, key, value))
    else:
        chosen = tuple(each for each in known if target in _names(each))
    if not chosen:
        raise _unknown(target, known)
    return chosen


def _sides(admission: Admission) -> tuple[Declaration, ...]:
    stored = admission.existing.declaration if admission.existing else None
    return tuple(each for each in (stored, admission.declaration) if each is not None)


def _names(admission: Admission) -> set[str]:
    return {each.name for each in _sides(admission)}


def _labelled(admission: Admission, key: str, value: str) -> bool:
    return any(each.labels.get(key) == value for each in _sides(admission))


def _unknown(target: str, known: Iterable[Admission]) -> UsageError:
    if "=" in target:
        labels = {f"{k}={v}" for each in known for s in _sides(each) for k, v in s.labels.items()}
        return UsageError(
            f'no workspace has the label "{target}"{did_you_mean(target, sorted(labels))}',
            hint="a label is given as key=value, as in metadata.labels",
        )
    names = {name for each in known for name in _names(each)}
    return UsageError(
        f'no workspace is called "{target}"{did_you_mean(target, sorted(names))}',
        hint="give the name of a workspace in the specs or in the hub, or a label as key=value",
    )
