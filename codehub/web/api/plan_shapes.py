"""The plan as the API's document describes it; `render/plan_json.py` makes it.

docs/reference/plan-json.md says the same in words.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Literal

from pydantic import ConfigDict, Field

from codehub.web.shapes import Shape

EXAMPLE: Final[dict[str, Any]] = {
    "formatVersion": 1,
    "madeAt": "2026-11-16T09:12:00+00:00",
    "specs": {"directory": "specs", "commit": None, "dirty": False, "digest": "3f1c0a2b…"},
    "hub": {
        "id": "0192d3b0-7c1e-7b8a-9a53-0f6f3e0c9d11",
        "revision": 41,
        "digest": "77ab91d0…",
        "empty": False,
    },
    "target": None,
    "asOf": None,
    "summary": {
        "create": 0,
        "update": 1,
        "delete": 0,
        "deferred": 0,
        "held": 0,
        "drifted": 0,
    },
    "changes": [
        {
            "kind": "Workspace",
            "name": "payments-api",
            "action": "update",
            "source": {"file": "specs/payments.yaml", "line": 12},
            "fields": [
                {
                    "field": "image",
                    "old": "registry.example.com/dev:1.4",
                    "new": "registry.example.com/dev:1.5",
                    "effect": "from the next start",
                    "withheld": False,
                }
            ],
            "path": ["STANDBY"],
            "notes": [],
            "deferred": None,
            "held": None,
            "stopsNow": None,
            "stopsLater": None,
            "seen": "generation 3, STANDBY, NONE",
        }
    ],
    "drift": [],
    "forecast": [],
    "unsafe": [],
}


class SpecsShape(Shape):
    """What was planned."""

    directory: str
    commit: str | None
    dirty: bool
    digest: str


class BaseShape(Shape):
    """What it was compared with."""

    id: str | None
    revision: int | None
    digest: str | None
    empty: bool


class SummaryShape(Shape):
    """How many objects; one may count as updated, deferred and held at once."""

    create: int = Field(ge=0)
    update: int = Field(ge=0)
    delete: int = Field(ge=0)
    deferred: int = Field(ge=0)
    held: int = Field(ge=0)
    drifted: int = Field(ge=0)


class SourceShape(Shape):
    file: str
    line: int = Field(ge=0)


class FieldShape(Shape):
    """One field. Where `withheld`, `old` is null and `new` says added, removed or changed."""

    field: str
    old: str | None
    new: str | None
    effect: str
    withheld: bool


class ChangeShape(Shape):
    """What would happen to one object; `held`, `orphan` and `none` change nothing."""

    kind: Literal["Workspace", "TTLPolicy", "User", "Hub"]
    name: str
    action: Literal["create", "update", "delete", "undelete", "held", "orphan", "none"]
    source: SourceShape | None
    fields: list[FieldShape]
    path: list[str] = Field(description="Phases and operations in turn, until it comes to rest.")
    notes: list[str]
    deferred: str | None = Field(description="Why it waits.")
    held: str | None = Field(description="What keeps it below its declared state.")
    stops_now: str | None = Field(description="Whom applying would interrupt at once.")
    stops_later: str | None = Field(description="Whom it would interrupt as soon as they pause.")
    seen: str | None = Field(description="What the plan is based on.")


class DriftShape(Shape):
    """Where reality differs from what was last applied."""

    name: str
    field: str
    expected: str
    actual: str
    note: str


class ForecastShape(Shape):
    """One move of idleness to come."""

    at: datetime
    name: str
    old: str = Field(alias="from")
    new: str = Field(alias="to")
    reason: str


class PlanShape(Shape):
    """What applying the specs would change, and why."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE})

    format_version: Literal[1]
    made_at: datetime
    specs: SpecsShape
    hub: BaseShape
    target: str | None
    as_of: datetime | None
    summary: SummaryShape
    changes: list[ChangeShape]
    drift: list[DriftShape]
    forecast: list[ForecastShape]
    unsafe: list[str] = Field(description="Why applying would need `--force`.")
