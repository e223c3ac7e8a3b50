"""A `Workspace` as the columns of its row, in four parts with one writer each.

The values are plain JSON data: writers hand whole lists of rows to Postgres in one parameter, and
`jsonb_populate_recordset(NULL::workspaces, …)` gives every column its type. `rows.py` is the way
back, and a test holds the two together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codehub.store.rows import BACKENDS

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from codehub.model.conditions import Condition
    from codehub.model.workspace import (
        Activity,
        Declaration,
        Intent,
        Resources,
        Source,
        Status,
        Workspace,
    )


def source_text(source: Source) -> str:
    return str(source) if source.file else ""


def declared_columns(declaration: Declaration, owner_id: UUID) -> dict[str, Any]:
    """The columns that hold a declaration; generation, revision and digest are the loader's."""
    instance, storage = BACKENDS[declaration.runtime]
    return {
        "name": declaration.name,
        "owner_user_id": str(owner_id),
        "description": declaration.description,
        "memo": declaration.memo,
        "labels": dict(declaration.labels),
        "image_ref": declaration.image,
        "instance_backend": instance,
        "storage_backend": storage,
        "command": list(declaration.command),
        "env": dict(declaration.env),
        "secret_env": dict(declaration.secret_env),
        "port": declaration.port,
        "resources": _resources(declaration.resources),
        "path_prefix": declaration.path_prefix.value,
        "standby_ttl_seconds": declaration.ttl.standby,
        "archive_ttl_seconds": declaration.ttl.archive,
        "ttl_policy": declaration.ttl.policy,
        "activity_policy": declaration.ttl.activity.value,
        "busy_cpu": declaration.ttl.busy_cpu,
        "inject": declaration.inject,
        "declared_state": declaration.declared_state.value,
        "start_on": declaration.start_on.value,
        "update_policy": declaration.update.value,
        "pinned": declaration.pinned,
        "suspend": declaration.suspend,
        "protect": declaration.protect,
        "wake_from": declaration.wake_from.value,
        "spec_source": source_text(declaration.source),
    }


def intent_columns(intent: Intent) -> dict[str, Any]:
    override = intent.override
    return {
        "desired_state": intent.desired.value,
        "desired_source": intent.source.value,
        "desired_at": _time(intent.at),
        "desired_by": intent.by,
        "override_state": override and override.state.value,
        "override_until": override and _time(override.until),
        "override_reason": override and override.reason,
        "recover_requested": intent.recover_requested,
    }


def activity_columns(activity: Activity) -> dict[str, Any]:
    return {
        "last_access_at": _time(activity.last_access_at),
        "last_access_source": activity.source,
    }


def status_columns(status: Status) -> dict[str, Any]:
    return {
        "conditions": {name.value: _stored(each) for name, each in status.conditions.items()},
        "observed_at": _time(status.observed_at),
        "phase": status.phase.value,
        "phase_changed_at": _time(status.phase_changed_at),
        "operation": status.operation.value,
        "op_started_at": _time(status.op_started_at),
        "op_id": status.op_id and str(status.op_id),
        "op_progress": dict(status.op_progress),
        "archive_key": status.archive_key,
        "archive_bytes": status.archive_bytes,
        "archive_sha256": status.archive_sha256,
        "home_store_key": status.home_store_key,
        "home_generation": status.home_generation,
        "home_ctx": _without_none(
            restore_marker=status.home_ctx.restore_marker,
            retired=list(status.home_ctx.retired) or None,
            given_up=list(status.home_ctx.given_up) or None,
            found=list(status.home_ctx.found) or None,
        ),
        "container_template": status.container_template,
        "error_reason": status.error_reason and status.error_reason.value,
        "error_message": status.error_message,
        "error_count": status.error_count,
        "retry_at": _time(status.retry_at),
        "observed_generation": status.observed_generation,
        "deleted_at": _time(status.deleted_at),
        "purged_at": _time(status.purged_at),
        "upstream_host": status.upstream and status.upstream.host,
        "upstream_port": status.upstream and status.upstream.port,
    }


def row_of(workspace: Workspace, owner_id: UUID) -> dict[str, Any]:
    """The whole row as plain data, ready for `jsonb_populate_recordset`."""
    return {
        "id": str(workspace.id),
        "created_at": _time(workspace.created_at),
        "declared_at": _time(workspace.declared_at),
        **declared_columns(workspace.declaration, owner_id),
        "template_digest": workspace.template_digest,
        "generation": workspace.generation,
        "spec_revision": workspace.spec_revision,
        "orphaned": workspace.orphaned,
        **intent_columns(workspace.intent),
        **activity_columns(workspace.activity),
        **status_columns(workspace.status),
    }


def _resources(resources: Resources) -> dict[str, object]:
    return _without_none(
        cpus=resources.cpus, memory_bytes=resources.memory_bytes, pids=resources.pids
    )


def _stored(condition: Condition) -> dict[str, Any]:
    return {
        "status": condition.status.value,
        "reason": condition.reason,
        "message": condition.message,
        "last_transition_time": _time(condition.last_transition_time),
    }


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _without_none(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}
