"""Turn checked documents into the values that the rest of CodeHub works with.

Every default is filled in and every reference followed, so nobody further on needs to know how
something was written. The documents must have passed `validate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from codehub.model.people import Hub, TtlPolicy, User, Webhook
from codehub.model.spec import (
    HubDocument,
    TTLPolicyDocument,
    TtlSpec,
    UserDocument,
    WorkspaceDocument,
)
from codehub.model.states import DesiredState
from codehub.model.workspace import Declaration, Resources, Runtime, Ttl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codehub.model.document import Written
    from codehub.model.spec import ResourcesSpec, WorkspaceSpec
    from codehub.model.workspace import Source


class Resolved(NamedTuple):
    """All that a spec directory declares, each by name and sorted by it."""

    workspaces: Mapping[str, Declaration]
    users: Mapping[str, User]
    policies: Mapping[str, TtlPolicy]
    hub: Hub


def resolve(written: Sequence[Written]) -> Resolved:
    hub = Hub()
    users: dict[str, User] = {}
    policies: dict[str, TtlPolicy] = {}
    waiting: dict[str, tuple[WorkspaceDocument, Source]] = {}
    for each in written:
        document, source = each.document, each.source
        if isinstance(document, WorkspaceDocument):
            waiting[document.metadata.name] = (document, source)
        elif isinstance(document, UserDocument):
            users[document.metadata.name] = _user(document, source)
        elif isinstance(document, TTLPolicyDocument):
            name = document.metadata.name
            policies[name] = TtlPolicy(name, _ttl(document.spec, name), source)
        elif isinstance(document, HubDocument):
            hub = _hub(document, source)
    workspaces = {
        name: _declaration(document, source, policies, hub)
        for name, (document, source) in sorted(waiting.items())
    }
    return Resolved(workspaces, dict(sorted(users.items())), dict(sorted(policies.items())), hub)


def choose_runtime(spec: WorkspaceSpec, default: Runtime | None) -> Runtime:
    """The spec's own, else the hub's, else what fits: docker where there is an image."""
    return spec.runtime or default or (Runtime.DOCKER if spec.image else Runtime.PROCESS)


def _declaration(
    document: WorkspaceDocument, source: Source, policies: Mapping[str, TtlPolicy], hub: Hub
) -> Declaration:
    spec = document.spec
    return Declaration(
        name=document.metadata.name,
        owner=spec.owner,
        runtime=choose_runtime(spec, hub.default_runtime),
        description=spec.description,
        memo=spec.memo,
        labels=document.metadata.labels,
        image=spec.image,
        command=tuple(spec.command or ()),
        env=spec.env,
        secret_env=spec.secret_env,
        port=spec.port,
        path_prefix=spec.path_prefix,
        inject=spec.inject,
        resources=_resources(spec.resources),
        declared_state=DesiredState(spec.desired_state),
        start_on=spec.start_on,
        wake_from=DesiredState(spec.wake_from),
        ttl=_ttl_of(spec, policies, hub),
        update=spec.update,
        pinned=spec.pinned,
        suspend=spec.suspend,
        protect=spec.protect,
        renamed_from=spec.renamed_from,
        source=source,
    )


def _ttl_of(spec: WorkspaceSpec, policies: Mapping[str, TtlPolicy], hub: Hub) -> Ttl:
    if isinstance(spec.ttl, TtlSpec):
        return _ttl(spec.ttl, None)
    name = spec.ttl or hub.default_ttl
    return policies[name].ttl if name else Ttl()


def _ttl(spec: TtlSpec, policy: str | None) -> Ttl:
    return Ttl(spec.standby, spec.archive, spec.activity, spec.busy_cpu, policy)


def _resources(spec: ResourcesSpec) -> Resources:
    return Resources(spec.cpus, spec.memory, spec.pids)


def _user(document: UserDocument, source: Source) -> User:
    spec = document.spec
    return User(
        name=document.metadata.name,
        display_name=spec.display_name,
        role=spec.role,
        password_hash=spec.password_hash,
        max_running=spec.max_running,
        source=source,
    )


def _hub(document: HubDocument, source: Source) -> Hub:
    spec = document.spec
    return Hub(
        name=document.metadata.name,
        max_running_per_user=spec.max_running_per_user,
        max_running_global=spec.max_running_global,
        default_ttl=spec.default_ttl,
        default_runtime=spec.default_runtime,
        prune=spec.prune,
        webhooks=tuple(
            Webhook(hook.url, tuple(hook.events), hook.secret, hook.name) for hook in spec.webhooks
        ),
        source=source,
    )
