"""Plans kept in files: shown again in any rendering, and applied only while they still fit.

A saved plan holds no specs and so no secrets. It names the spec directory and is bound to the
digest of what was read there, to the hub and its revision, and to what was seen of each workspace
it touches. Applying reads the directory again and refuses when any of these differs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from codehub.core.compare import withheld
from codehub.core.plan import touched
from codehub.core.preview import seen
from codehub.errors import CodeHubError
from codehub.model.plan import (
    Action,
    Change,
    Drift,
    FieldChange,
    Forecast,
    Kind,
    Plan,
    Summary,
)
from codehub.model.workspace import Source
from codehub.render.plan_json import json_text, plan_data

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codehub.model.revision import HubState
    from codehub.model.workspace import Workspace

KIND: Final = "CodeHubSavedPlan"
FORMAT_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A plan and where its specs are to be read again."""

    plan: Plan
    directory: Path
    ref: str | None = None


def save_plan(plan: Plan, *, ref: str | None = None) -> str:
    """The plan as a file's content. Values of env stay out, even if the plan shows them."""
    data = plan_data(_withheld(plan))
    head = {"kind": KIND, "formatVersion": FORMAT_VERSION, "ref": ref, "checksum": _checksum(data)}
    return json_text({**head, "plan": data})


def _withheld(plan: Plan) -> Plan:
    changes = (
        replace(change, fields=tuple(_without_values(each) for each in change.fields))
        for change in plan.changes
    )
    return replace(plan, changes=tuple(changes))


def _without_values(change: FieldChange) -> FieldChange:
    if change.withheld or not change.field.startswith(("env.", "secretEnv.")):
        return change
    return replace(withheld(change.field, change.old, change.new), effect=change.effect)


def _checksum(data: Mapping[str, Any]) -> str:
    return sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def read_plan_file(path: Path) -> SavedPlan:
    """The plan in a file; errors name the file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise CodeHubError(
            f"cannot read the plan {path}: {reason}",
            hint="make one with 'codehub plan --save FILE'",
        ) from error
    return read_plan(text, name=str(path))


def read_plan(text: str, *, name: str = "the file") -> SavedPlan:
    """The plan in a file's content; a clear error for anything else."""
    data = _envelope(text, name)
    try:
        plan = plan_of(data["plan"])
        ref = data["ref"]
        intact = data["checksum"] == _checksum(data["plan"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unusable(f"{name} is a saved plan, but parts of it are missing or wrong") from error
    if not intact:
        raise _unusable(f"{name} was changed after it was saved")
    return SavedPlan(plan, Path(plan.directory), ref)


def _envelope(text: str, name: str) -> Mapping[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unusable(f"{name} is not a saved plan") from error
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise _unusable(f"{name} is not a saved plan")
    version = data.get("formatVersion")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise CodeHubError(
            f"{name} was saved by a newer CodeHub (format {version}, known is {FORMAT_VERSION})",
            hint="read it with the CodeHub that made it, or save a new plan",
        )
    if version != FORMAT_VERSION:
        raise _unusable(f"{name} is a saved plan of unknown format {version!r}")
    return data


def _unusable(message: str) -> CodeHubError:
    return CodeHubError(message, hint="make a new one with 'codehub plan --save FILE'")


def plan_of(data: Mapping[str, Any]) -> Plan:
    """The plan of plain data as `plan_data` makes it.

    Raises KeyError, TypeError, ValueError or AttributeError for anything else.
    """
    specs, hub = data["specs"], data["hub"]
    as_of = data["asOf"]
    return Plan(
        digest=specs["digest"],
        made_at=datetime.fromisoformat(data["madeAt"]),
        directory=specs["directory"],
        commit=specs["commit"],
        dirty=specs["dirty"],
        hub_id=hub["id"],
        base_revision=hub["revision"],
        base_digest=hub["digest"],
        against_empty=hub["empty"],
        target=data["target"],
        as_of=datetime.fromisoformat(as_of) if as_of else None,
        changes=tuple(_change(each) for each in data["changes"]),
        drift=tuple(Drift(**each) for each in data["drift"]),
        forecast=tuple(_forecast(each) for each in data["forecast"]),
        unsafe=tuple(data["unsafe"]),
        summary=Summary(**data["summary"]),
    )


def _change(data: Mapping[str, Any]) -> Change:
    return Change(
        kind=Kind(data["kind"]),
        name=data["name"],
        action=Action(data["action"]),
        source=Source(**data["source"]) if data["source"] else None,
        fields=tuple(FieldChange(**each) for each in data["fields"]),
        path=tuple(data["path"]),
        notes=tuple(data["notes"]),
        deferred=data["deferred"],
        held=data["held"],
        stops_now=data["stopsNow"],
        stops_later=data["stopsLater"],
        seen=data["seen"],
    )


def _forecast(data: Mapping[str, Any]) -> Forecast:
    at = datetime.fromisoformat(data["at"])
    return Forecast(at, data["name"], data["from"], data["to"], data["reason"])


def staleness(plan: Plan, stored: HubState, digest: str) -> tuple[str, ...]:
    """What has changed since the plan was made, a sentence each; empty while it still fits.

    `digest` is that of the specs as they are now.
    """
    found: list[str] = []
    if digest != plan.digest:
        found.append(f"the specs in {plan.directory} have changed")
    if plan.hub_id != stored.hub_id and not plan.against_empty:
        found.append("it was made against another hub")
    base = stored.revision.id if stored.revision else None
    if base != plan.base_revision:
        found.append(
            f"the hub is at {_revision(base)}, no longer at {_revision(plan.base_revision)}"
        )
    return (*found, *_moved(plan, stored))


def _revision(number: int | None) -> str:
    return "no revision" if number is None else f"revision {number}"


def _moved(plan: Plan, stored: HubState) -> Iterator[str]:
    live = {each.name: each for each in stored.workspaces if each.status.deleted_at is None}
    gone = {each.name: each for each in stored.workspaces if each.status.deleted_at is not None}
    for change in touched(plan):
        if change.kind is not Kind.WORKSPACE:
            continue
        row = _row(change, live, gone)
        now = seen(row) if row else None
        if now != change.seen:
            yield f"{change.name} was {change.seen or 'not there'}, is now {now or 'gone'}"


def _row(
    change: Change, live: Mapping[str, Workspace], gone: Mapping[str, Workspace]
) -> Workspace | None:
    """The row that the change is about: by its old name when the plan renames it."""
    renamed = (each.old for each in change.fields if each.field == "name" and each.old)
    name = next(renamed, change.name)
    row = live.get(name)
    if row is None and change.action is Action.UNDELETE:
        return gone.get(name)
    return row
