"""The plan as JSON: stable, versioned, documented in docs/reference/plan-json.md."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from codehub.render.words import DECEPTIVE

if TYPE_CHECKING:
    import re

    from codehub.model.plan import Change, Drift, FieldChange, Forecast, Plan

FORMAT_VERSION: Final = 1


def plan_json(plan: Plan) -> str:
    """The whole plan; nothing is shortened."""
    return json_text({"formatVersion": FORMAT_VERSION, **plan_data(plan)})


def json_text(data: object) -> str:
    """Readable JSON in which what could deceive a terminal stands as an escape."""
    text = json.dumps(data, indent=2, ensure_ascii=False)
    return DECEPTIVE.sub(_escape, text) + "\n"


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    if character == "\n":
        # Inside strings a line break is escaped already: this one is layout.
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else json.dumps(character)[1:-1]


def plan_data(plan: Plan) -> dict[str, Any]:
    """The plan as plain data."""
    return {
        "madeAt": plan.made_at.isoformat(),
        "specs": {
            "directory": plan.directory,
            "commit": plan.commit,
            "dirty": plan.dirty,
            "digest": plan.digest,
        },
        "hub": {
            "id": plan.hub_id,
            "revision": plan.base_revision,
            "digest": plan.base_digest,
            "empty": plan.against_empty,
        },
        "target": plan.target,
        "asOf": plan.as_of.isoformat() if plan.as_of else None,
        "summary": asdict(plan.summary),
        "changes": [_change(each) for each in plan.changes],
        "drift": [drift_data(each) for each in plan.drift],
        "forecast": [_forecast(each) for each in plan.forecast],
        "unsafe": list(plan.unsafe),
    }


def _change(change: Change) -> dict[str, Any]:
    source = change.source
    return {
        "kind": change.kind.value,
        "name": change.name,
        "action": change.action.value,
        "source": {"file": source.file, "line": source.line} if source else None,
        "fields": [_field(each) for each in change.fields],
        "path": list(change.path),
        "notes": list(change.notes),
        "deferred": change.deferred,
        "held": change.held,
        "stopsNow": change.stops_now,
        "stopsLater": change.stops_later,
        "seen": change.seen,
    }


def _field(change: FieldChange) -> dict[str, Any]:
    return {
        "field": change.field,
        "old": change.old,
        "new": change.new,
        "effect": change.effect,
        "withheld": change.withheld,
    }


def drift_data(drift: Drift) -> dict[str, Any]:
    """One difference as plain data."""
    return {
        "name": drift.name,
        "field": drift.field,
        "expected": drift.expected,
        "actual": drift.actual,
        "note": drift.note,
    }


def _forecast(forecast: Forecast) -> dict[str, Any]:
    return {
        "at": forecast.at.isoformat(),
        "name": forecast.name,
        "from": forecast.old,
        "to": forecast.new,
        "reason": forecast.reason,
    }
