"""A row of `workspaces` as a `Workspace`, without loss; `columns.py` is the way back.

Every query that reads workspaces selects `COLUMNS` and comes through `workspace_of`. Reading
ten thousand rows must stay far below a second: JSON arrives as text (see `workspaces.fetch`), equal
texts are decoded once, and conditions, of which a plan reads few, are decoded when somebody looks
at them. The one field a row does not hold is `renamed_from`: it says how a row is found and
nothing about it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from codehub.model.conditions import (
    Condition,
    ConditionName,
    ConditionStatus,
    KnownConditions,
)
from codehub.model.runtime import Upstream
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.workspace import (
    Activity,
    ActivityPolicy,
    Declaration,
    HomeContext,
    Intent,
    Override,
    PathPrefix,
    Resources,
    Runtime,
    Source,
    StartOn,
    Status,
    Ttl,
    UpdatePolicy,
    Workspace,
)

Row = Mapping[str, Any]

DECLARED: Final = (
    *("name", "owner_user_id", "description", "memo", "labels", "image_ref", "instance_backend"),
    *("storage_backend", "command", "env", "secret_env", "port", "resources", "path_prefix"),
    *("template_digest", "standby_ttl_seconds", "archive_ttl_seconds", "ttl_policy"),
    *("activity_policy", "busy_cpu", "inject", "declared_state", "start_on", "update_policy"),
    *("pinned", "suspend", "protect", "wake_from", "generation", "spec_revision", "spec_source"),
    "orphaned",
)
"""The spec loader's columns, but for `declared_at`, which it computes in SQL."""

INTENDED: Final = (
    *("desired_state", "desired_source", "desired_at", "desired_by", "override_state"),
    *("override_until", "override_reason", "recover_requested"),
)
"""The intent service's columns."""

ACTIVE: Final = ("last_access_at", "last_access_source")
"""The activity sync's columns."""

OBSERVED: Final = (
    *("conditions", "observed_at", "phase", "phase_changed_at", "operation", "op_started_at"),
    *("op_id", "op_progress", "archive_key", "archive_bytes", "archive_sha256", "home_store_key"),
    *("home_generation", "home_ctx", "container_template", "error_reason", "error_message"),
    *("error_count", "retry_at", "observed_generation", "deleted_at", "purged_at"),
    *("upstream_host", "upstream_port"),
)
"""The controller's columns."""

_NOT_READ: Final = ("owner_user_id", "storage_backend")

COLUMNS: Final = ", ".join(
    f"w.{name}"
    for name in ("id", "created_at", "declared_at", *DECLARED, *INTENDED, *ACTIVE, *OBSERVED)
    if name not in _NOT_READ
)
"""What `workspace_of` needs of `workspaces w`; beside it, `u.name AS owner`."""

BACKENDS: Final = {
    Runtime.DOCKER: ("local-docker", "docker-volume"),
    Runtime.PROCESS: ("process", "directory"),
    Runtime.KUBERNETES: ("k8s", "pvc"),
}
"""instance_backend and storage_backend of a runtime, in the seeds' words."""

# Calling an Enum costs more than the rest of a column together; a dictionary does not.
_RUNTIMES: Final = {instance: runtime for runtime, (instance, _) in BACKENDS.items()}
_STATES: Final = {each.value: each for each in DesiredState}
_SOURCES: Final = {each.value: each for each in IntentSource}
_PHASES: Final = {each.value: each for each in Phase}
_OPERATIONS: Final = {each.value: each for each in Operation}
_PREFIXES: Final = {each.value: each for each in PathPrefix}
_STARTS: Final = {each.value: each for each in StartOn}
_UPDATES: Final = {each.value: each for each in UpdatePolicy}
_POLICIES: Final = {each.value: each for each in ActivityPolicy}
_CONDITIONS: Final = {each.value: each for each in ConditionName}
_VERDICTS: Final = {each.value: each for each in ConditionStatus}


def workspace_of(row: Row) -> Workspace:
    """The workspace in a row that has `COLUMNS` and `owner`, JSON as text."""
    return Workspace(
        row["id"],
        _declaration(row),
        _intent(row),
        _status(row),
        Activity(row["last_access_at"], row["last_access_source"]),
        row["generation"],
        row["template_digest"],
        row["spec_revision"],
        row["orphaned"],
        row["created_at"],
        row["declared_at"],
    )


def _declaration(row: Row) -> Declaration:
    return Declaration(
        name=row["name"],
        owner=row["owner"],
        runtime=_RUNTIMES[row["instance_backend"]],
        description=row["description"],
        memo=row["memo"],
        labels=_decoded(row["labels"]),
        image=row["image_ref"],
        command=_words(row["command"]),
        env=_decoded(row["env"]),
        secret_env=_decoded(row["secret_env"]),
        port=row["port"],
        path_prefix=_PREFIXES[row["path_prefix"]],
        inject=row["inject"],
        resources=_resources(row["resources"]),
        declared_state=_STATES[row["declared_state"]],
        start_on=_STARTS[row["start_on"]],
        wake_from=_STATES[row["wake_from"]],
        ttl=_ttl(
            row["standby_ttl_seconds"],
            row["archive_ttl_seconds"],
            row["activity_policy"],
            row["busy_cpu"],
            row["ttl_policy"],
        ),
        update=_UPDATES[row["update_policy"]],
        pinned=row["pinned"],
        suspend=row["suspend"],
        protect=row["protect"],
        source=source_of(row["spec_source"]),
    )


def _intent(row: Row) -> Intent:
    override = None
    if row["override_state"] is not None:
        state, reason = _STATES[row["override_state"]], row["override_reason"] or ""
        override = Override(state, row["override_until"], reason)
    return Intent(
        _STATES[row["desired_state"]],
        _SOURCES[row["desired_source"]],
        row["desired_at"],
        row["desired_by"],
        override,
        row["recover_requested"],
    )


def _status(row: Row) -> Status:
    reason = row["error_reason"]
    return Status(
        phase=_PHASES[row["phase"]],
        phase_changed_at=row["phase_changed_at"],
        operation=_OPERATIONS[row["operation"]],
        op_started_at=row["op_started_at"],
        op_id=row["op_id"],
        op_progress=_decoded(row["op_progress"]),
        conditions=StoredConditions(row["conditions"]),
        observed_at=row["observed_at"],
        archive_key=row["archive_key"],
        archive_bytes=row["archive_bytes"],
        archive_sha256=row["archive_sha256"],
        home_store_key=row["home_store_key"],
        home_generation=row["home_generation"],
        home_ctx=_home(row["home_ctx"]),
        container_template=row["container_template"],
        error_reason=None if reason is None else ErrorReason(reason),
        error_message=row["error_message"],
        error_count=row["error_count"],
        retry_at=row["retry_at"],
        observed_generation=row["observed_generation"],
        deleted_at=row["deleted_at"],
        purged_at=row["purged_at"],
        upstream=_upstream(row),
    )


def _upstream(row: Row) -> Upstream | None:
    host = row["upstream_host"]
    return None if host is None else Upstream(host, row["upstream_port"])


class StoredConditions(KnownConditions):
    """Conditions as they came from the database, decoded at the first look."""

    __slots__ = ("_decoded", "_stored", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._stored: dict[str, dict[str, str | None]] | None = None
        self._decoded: dict[ConditionName, Condition] | None = None

    def hold(self, judged: Mapping[ConditionName, Condition]) -> bool:
        stored = self._parsed()
        return len(stored) == len(judged) and all(
            _says(stored.get(name), condition) for name, condition in judged.items()
        )

    def _parsed(self) -> dict[str, dict[str, str | None]]:
        if self._stored is None:
            self._stored = json.loads(self._text)
        return self._stored

    def _all(self) -> dict[ConditionName, Condition]:
        if self._decoded is None:
            stored = self._parsed()
            self._decoded = {_CONDITIONS[name]: _condition(stored[name]) for name in stored}
        return self._decoded

    def __getitem__(self, name: ConditionName) -> Condition:
        return self._all()[name]

    def __iter__(self) -> Iterator[ConditionName]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return repr(self._all())


def _says(stored: Mapping[str, str | None] | None, condition: Condition) -> bool:
    return (
        stored is not None
        and stored["status"] == condition.status
        and (stored.get("reason") or "") == condition.reason
        and (stored.get("message") or "") == condition.message
        and stored.get("last_transition_time") is not None
    )


def _condition(stored: Mapping[str, str | None]) -> Condition:
    since = stored.get("last_transition_time")
    return Condition(
        _VERDICTS[stored["status"] or ""],
        stored.get("reason") or "",
        stored.get("message") or "",
        None if since is None else datetime.fromisoformat(since),
    )


# The caches below hold values that nobody changes: the model's are frozen, mappings by contract.


@lru_cache(maxsize=4096)
def _decoded(text: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(text)
    return value


@lru_cache(maxsize=4096)
def _words(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


@lru_cache(maxsize=4096)
def _resources(text: str) -> Resources:
    stored = json.loads(text)
    cpus = stored.get("cpus")
    # jsonb writes 1e16 without a point, which would come back as an integer.
    cpus = None if cpus is None else float(cpus)
    return Resources(cpus, stored.get("memory_bytes"), stored.get("pids"))


@lru_cache(maxsize=4096)
def _home(text: str) -> HomeContext:
    stored = json.loads(text)
    return HomeContext(
        stored.get("restore_marker"),
        tuple(stored.get("retired", ())),
        tuple(stored.get("given_up", ())),
        tuple(stored.get("found", ())),
    )


@lru_cache(maxsize=4096)
def _ttl(
    standby: int | None, archive: int | None, activity: str, busy: int, policy: str | None
) -> Ttl:
    return Ttl(standby, archive, _POLICIES[activity], busy, policy)


def source_of(text: str) -> Source:
    """`file:line`, or nothing where a value came from no file."""
    file, _, line = text.rpartition(":")
    return Source(file, int(line)) if file else Source("", 0)
