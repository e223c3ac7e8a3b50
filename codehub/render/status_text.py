"""The fleet for people (`codehub status`) and for scripts (`--format json|yaml`).

Never shown: values of env and anything a workspace could keep secret.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from codehub.core.amend import amend, first_of
from codehub.core.express import short
from codehub.core.gauge import unanswered
from codehub.model.conditions import ConditionStatus
from codehub.model.states import ErrorReason, Operation, Phase
from codehub.render.history_text import revision_data
from codehub.render.table import table
from codehub.render.words import ago, clean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from codehub.model.revision import HubState
    from codehub.model.workspace import Workspace

FORMAT_VERSION = 1
MOST_NAMES = 3
HEAD = ("NAME", "OWNER", "PHASE", "DESIRED", "OPERATION", "SINCE", "DECLARED IN")


def status_text(state: HubState, workspaces: Sequence[Workspace], now: datetime) -> str:
    """One line for each workspace, what is wrong below, and the revision at the end."""
    if not workspaces:
        how = "" if state.failed else " 'codehub apply' loads the specs."
        return f"No workspaces.{how}\n{_revision(state, now)}"
    body = table(HEAD, [_row(each, now) for each in workspaces])
    errors = "".join(_error(each) for each in workspaces) + _advice(workspaces)
    errors += _unanswered(workspaces) + _unreachable(workspaces)
    return body + ("\n" + errors if errors else "") + "\n" + _revision(state, now)


def _row(workspace: Workspace, now: datetime) -> tuple[str, ...]:
    status = workspace.status
    since = status.phase_changed_at or workspace.created_at
    operation = "-" if status.operation is Operation.NONE else status.operation.value
    return (
        clean(workspace.name),
        clean(workspace.declaration.owner),
        status.phase.value,
        workspace.intent.desired.value,
        operation,
        short(now - since) if since else "-",
        "orphan" if workspace.orphaned else clean(str(workspace.declaration.source)),
    )


def _error(workspace: Workspace) -> str:
    status = workspace.status
    if status.phase is not Phase.ERROR:
        return ""
    message = clean(status.error_message or "no message was kept")
    return f"{clean(workspace.name)}: {status.error_reason}: {message}\n"


def _advice(workspaces: Sequence[Workspace]) -> str:
    """Where to read on, once for all that are in ERROR."""
    broken = [clean(each.name) for each in workspaces if each.status.phase is Phase.ERROR]
    return f"  'codehub explain {broken[0]}' says what to do\n" if broken else ""


def _unanswered(workspaces: Sequence[Workspace]) -> str:
    """Those that run by their phase and that nobody can use yet."""
    names = [clean(each.name) for each in workspaces if unanswered(each.status)]
    return f"{several(names)}: running, but no answer at the port yet\n" if names else ""


def _unreachable(workspaces: Sequence[Workspace]) -> str:
    """What nobody could ask for, each cause once: it mostly is one for many."""
    names: dict[str, list[str]] = {}
    for each in workspaces:
        for message in _silences(each):
            names.setdefault(clean(message), []).append(clean(each.name))
    return "".join(
        f"{several(affected)}: {ErrorReason.UNREACHABLE}: {message}\n"
        for message, affected in names.items()
    )


def _silences(workspace: Workspace) -> list[str]:
    """The messages of whatever gave no answer about it; an ERROR is told elsewhere."""
    status = workspace.status
    if status.phase is Phase.ERROR:
        return []
    told = [
        each.message
        for each in status.conditions.values()
        if each.status is ConditionStatus.UNKNOWN and each.message
    ]
    if status.error_reason is ErrorReason.UNREACHABLE and status.error_message:
        told.append(status.error_message)
    return list(dict.fromkeys(told))


def several(names: Sequence[str]) -> str:
    """The first few, and how many more."""
    more = len(names) - MOST_NAMES
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:MOST_NAMES])} and {more} more"


def _revision(state: HubState, now: datetime) -> str:
    revision, failed = state.revision, _failed(state, now)
    if revision is None:
        return failed or "No revision has been applied yet.\n"
    commit = f", commit {revision.origin.commit[:12]}" if revision.origin.commit else ""
    when = ago(now - revision.created_at)
    applied = f"Revision {revision.id}{commit}, applied {when} by {clean(revision.author)}.\n"
    return applied + failed


def _failed(state: HubState, now: datetime) -> str:
    """A load that came after the revision in force and failed, and what to do about it."""
    failed = state.failed
    if failed is None:
        return ""
    stays = f"revision {state.revision.id} stays" if state.revision else "no revision is"
    said = f"{clean(first_of(failed.problems))}; {stays} in force"
    when = ago(now - failed.created_at)
    return f"Revision {failed.id} failed {when}: {said}\n  {clean(amend(failed))}\n"


def status_data(state: HubState, workspaces: Sequence[Workspace]) -> dict[str, object]:
    """The same as plain data, stable for scripts."""
    revision = state.revision
    return {
        "formatVersion": FORMAT_VERSION,
        "revision": revision.id if revision else None,
        "failedRevision": revision_data(state.failed) if state.failed else None,
        "workspaces": [workspace_data(each) for each in workspaces],
    }


def status_json(state: HubState, workspaces: Sequence[Workspace]) -> str:
    return json.dumps(status_data(state, workspaces), indent=2)


def workspace_data(workspace: Workspace) -> dict[str, object]:
    """One workspace as plain data."""
    declared, intent, status = workspace.declaration, workspace.intent, workspace.status
    return {
        "id": str(workspace.id),
        "name": workspace.name,
        "owner": declared.owner,
        "labels": dict(declared.labels),
        "runtime": declared.runtime.value,
        "image": declared.image,
        "declared": declared.declared_state.value,
        "source": None if workspace.orphaned else str(declared.source),
        "orphaned": workspace.orphaned,
        "desired": intent.desired.value,
        "desiredBy": intent.by,
        "desiredSource": intent.source.value,
        "desiredAt": _time(intent.at),
        "phase": status.phase.value,
        "phaseChangedAt": _time(status.phase_changed_at),
        "operation": status.operation.value,
        "errorReason": status.error_reason.value if status.error_reason else None,
        "errorMessage": status.error_message,
        "lastAccessAt": _time(workspace.activity.last_access_at),
        "generation": workspace.generation,
    }


def _time(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
