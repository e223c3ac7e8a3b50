"""Values for tests: every argument has a plain default, a test names only what it is about."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from codehub.model.people import User
from codehub.model.revision import Origin, SpecSet
from codehub.model.states import DesiredState
from codehub.model.workspace import (
    Activity,
    Declaration,
    Intent,
    Runtime,
    Source,
    Status,
    Workspace,
)

NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)


def declaration(name: str = "api", **fields: Any) -> Declaration:
    fields.setdefault("owner", "alice")
    fields.setdefault("runtime", Runtime.PROCESS)
    fields.setdefault("command", ("serve",))
    fields.setdefault("source", Source(f"specs/{name}.yaml", 1))
    return Declaration(name=name, **fields)


def workspace(
    name: str = "api",
    *,
    number: int = 1,
    desired: DesiredState = DesiredState.RUNNING,
    intent: Intent | None = None,
    status: Status | None = None,
    activity: Activity | None = None,
    generation: int = 1,
    template_digest: str = "t1",
    orphaned: bool = False,
    **declared: Any,
) -> Workspace:
    return Workspace(
        id=UUID(int=number),
        declaration=declaration(name, **declared),
        intent=intent or Intent(desired),
        status=status or Status(),
        activity=activity or Activity(),
        generation=generation,
        template_digest=template_digest,
        spec_revision=1,
        orphaned=orphaned,
        created_at=NOW,
    )


def user(name: str = "alice", **fields: Any) -> User:
    fields.setdefault("source", Source("specs/users.yaml", 1))
    return User(name=name, **fields)


def spec_set(*declarations: Declaration, digest: str = "d1", **fields: Any) -> SpecSet:
    owners = {each.owner: user(each.owner) for each in declarations}
    fields.setdefault("users", owners)
    fields.setdefault("origin", Origin("specs"))
    return SpecSet(
        digest=digest,
        workspaces={each.name: each for each in declarations},
        **fields,
    )
