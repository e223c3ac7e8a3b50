"""One workspace in depth, for people (`codehub explain`) and for scripts (`--format json`).

Never shown: values of env and anything a workspace could keep secret.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from codehub.core.express import short
from codehub.render.table import table
from codehub.render.words import clean
from codehub.render.wrap import wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from codehub.model.conditions import Condition, ConditionName
    from codehub.model.explanation import Block, Explanation

FORMAT_VERSION: Final = 1
HEAD: Final = ("CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE")
TITLES: Final = {
    "phase": "Why",
    "owner": "Owner",
    "declared": "Declared",
    "asked": "Asked for",
    "heading": "Heading to",
    "activity": "Activity",
    "next": "Next",
    "coordinator": "Coordinator",
    "archive": "Archive",
    "back": "Way back",
    "found": "Found again",
}
_INDENT: Final = max(len(title) for title in TITLES.values()) + 4


def explain_text(explanation: Explanation) -> str:
    """What is the matter first, then the whole story, then the conditions."""
    parts = [f"{clean(explanation.headline)}.\n"]
    if explanation.blocks:
        parts.append("In its way:\n" + "".join(_block(each) for each in explanation.blocks))
    parts.append("".join(_line(TITLES[each.topic], each.text) for each in explanation.lines))
    if explanation.conditions:
        rows = [_condition(name, each, explanation.now) for name, each in explanation.conditions]
        parts.append(table(HEAD, rows))
    return "\n".join(parts)


def _line(title: str, text: str) -> str:
    first = f"  {title.ljust(_INDENT - 2)}"
    return wrapped(text, first, " " * _INDENT)


def _block(block: Block) -> str:
    text = wrapped(block.message, "  - ", "    ")
    return text + (wrapped(block.advice, "    -> ", "       ") if block.advice else "")


def _condition(name: ConditionName, condition: Condition, now: datetime) -> tuple[str, ...]:
    since = condition.last_transition_time
    return (
        name.value,
        condition.status.value,
        short(now - since) if since else "-",
        clean(condition.reason) or "-",
        clean(condition.message),
    )


def explain_json(explanation: Explanation) -> str:
    """The same as data, stable for scripts."""
    return json.dumps(explain_data(explanation), indent=2)


def explain_data(explanation: Explanation) -> dict[str, object]:
    """The same as plain data; times are ISO 8601 in UTC."""
    return {"formatVersion": FORMAT_VERSION, **dict(_fields(explanation))}


def _fields(explanation: Explanation) -> Iterator[tuple[str, object]]:
    workspace = explanation.workspace
    declared, status = workspace.declaration, workspace.status
    yield "name", workspace.name
    yield "id", str(workspace.id)
    yield "owner", declared.owner
    yield "readAt", _time(explanation.now)
    yield "phase", status.phase.value
    yield "phaseChangedAt", _time(status.phase_changed_at)
    yield "declared", _declared(explanation)
    yield "asked", _asked(explanation)
    yield "way", list(explanation.way)
    yield "operation", _operation(explanation)
    yield "error", _error(explanation)
    yield (
        "activity",
        {
            "lastAccessAt": _time(workspace.activity.last_access_at),
            "source": workspace.activity.source,
        },
    )
    yield "next", _next(explanation)
    yield "queue", _queue(explanation)
    yield (
        "blockedBy",
        [
            {
                "kind": each.kind.value,
                "message": each.message,
                "advice": each.advice or None,
                "until": _time(each.until),
            }
            for each in explanation.blocks
        ],
    )
    yield (
        "conditions",
        {
            name.value: {
                "status": each.status.value,
                "reason": each.reason,
                "message": each.message,
                "lastTransitionTime": _time(each.last_transition_time),
            }
            for name, each in explanation.conditions
        },
    )
    yield "leader", _leader(explanation)
    yield "deletedAt", _time(status.deleted_at)
    yield "archiveKeptUntil", _time(explanation.kept_until)
    yield "sentences", {each.topic: each.text for each in explanation.lines}


def _declared(explanation: Explanation) -> dict[str, object]:
    workspace = explanation.workspace
    declaration = workspace.declaration
    return {
        "state": declaration.declared_state.value,
        "file": declaration.source.file,
        "line": declaration.source.line,
        "commit": explanation.commit,
        "revision": workspace.spec_revision,
        "generation": workspace.generation,
        "observedGeneration": workspace.status.observed_generation,
        "orphaned": workspace.orphaned,
        "pinned": declaration.pinned,
        "suspend": declaration.suspend,
    }


def _asked(explanation: Explanation) -> dict[str, object]:
    intent, event = explanation.workspace.intent, explanation.moved
    override = intent.override
    return {
        "desired": intent.desired.value,
        "by": intent.by,
        "source": intent.source.value,
        "at": _time(intent.at),
        "reason": event.reason if event and event.new == intent.desired.value else "",
        "recover": intent.recover_requested,
        "override": override
        and {
            "state": override.state.value,
            "until": _time(override.until),
            "reason": override.reason,
        },
    }


def _operation(explanation: Explanation) -> dict[str, object]:
    status = explanation.workspace.status
    return {
        "name": status.operation.value,
        "startedAt": _time(status.op_started_at),
        "progress": dict(status.op_progress),
    }


def _error(explanation: Explanation) -> dict[str, object] | None:
    status = explanation.workspace.status
    if status.error_reason is None:
        return None
    return {
        "reason": status.error_reason.value,
        "message": status.error_message,
        "count": status.error_count,
        "retryAt": _time(status.retry_at),
    }


def _next(explanation: Explanation) -> dict[str, object] | None:
    falls = explanation.next
    if falls is None:
        return None
    return {
        "at": _time(falls.at),
        "to": str(falls.new),
        "reason": falls.reason,
        "remindAt": _time(explanation.remind_at),
    }


def _queue(explanation: Explanation) -> dict[str, object] | None:
    queued = explanation.queued
    if queued is None:
        return None
    return {
        "position": queued.position,
        "limit": queued.limit,
        "owner": queued.owner,
        "running": list(queued.running),
    }


def _leader(explanation: Explanation) -> dict[str, object]:
    leader = explanation.leader
    return {
        "held": leader.held,
        "holder": leader.holder or None,
        "epoch": leader.epoch,
        "since": _time(leader.since),
    }


def _time(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
