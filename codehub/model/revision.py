"""A revision: one atomic load of the whole spec directory, resolved and ready to compare."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from codehub.model.people import Hub

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from codehub.model.people import TtlPolicy, User
    from codehub.model.workspace import Declaration, Workspace

UNREADABLE: Final = "unreadable:"
"""Starts the digest of specs that could not be read; the rest tells such failures apart."""

UNSAFE: Final = "needs a person and --force: "
"""Starts each reason of a plan that the watcher does not dare to apply."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a revision was read: a directory, and the git commit when there is one."""

    directory: str
    commit: str | None = None
    dirty: bool = False
    ref: str | None = None


@dataclass(frozen=True, slots=True)
class SpecSet:
    """Everything a spec directory declares.

    `digest` covers the meaning of every document (not comments, layout or file names), so two
    directories with equal digests declare the same hub. `documents` are the documents as plain
    data, as they are stored with the revision for rollback and diff: each a mapping with
    apiVersion, kind, metadata, spec, and `file` and `line` beside them.
    """

    digest: str
    origin: Origin
    workspaces: Mapping[str, Declaration] = field(default_factory=dict)
    users: Mapping[str, User] = field(default_factory=dict)
    policies: Mapping[str, TtlPolicy] = field(default_factory=dict)
    hub: Hub = Hub()
    documents: tuple[Mapping[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision as recorded, applied or failed."""

    id: int
    digest: str
    origin: Origin
    created_at: datetime
    author: str
    applied: bool = True
    problems: tuple[str, ...] = ()
    summary: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HubState:
    """What the database holds, read in one snapshot: the left side of every plan.

    `revision` is the one in force, `failed` a later load that could not be applied. `workspaces`
    are all rows not purged, DELETED ones within the retention included, by id order.
    """

    hub: Hub = Hub()
    hub_id: str | None = None
    revision: Revision | None = None
    workspaces: tuple[Workspace, ...] = ()
    users: Mapping[str, User] = field(default_factory=dict)
    failed: Revision | None = None
