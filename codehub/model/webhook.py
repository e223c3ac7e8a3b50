"""Webhooks at work: who is told, what happened, what is on its way, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta
    from uuid import UUID

    from codehub.model.events import Event
    from codehub.model.revision import Revision


class WebhookEvent(StrEnum):
    """What a webhook can be told of; a spec's `events` are of these."""

    WORKSPACE_ERROR = "workspace.error"
    WORKSPACE_EXPIRING = "workspace.expiring"
    WORKSPACE_ARCHIVED = "workspace.archived"
    REVISION_FAILED = "revision.failed"


TEST: Final = "test"
"""Sent when somebody asks for it, whatever `events` say."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """A declared webhook: `secret` is the name of one. It is told of what happened from `since`."""

    id: UUID
    name: str
    url: str
    events: tuple[str, ...]
    secret: str | None
    since: datetime


@dataclass(frozen=True, slots=True)
class Sender:
    """The hub as receivers see it; `public_url` is where browsers find it, if anybody said."""

    id: UUID
    name: str
    public_url: str | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """What another line of the audit says: what became of it, through whom, and why."""

    new: str
    source: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Moved:
    """Something that happened to a workspace: a line of the audit, and what belongs to it.

    `phase` is where the workspace is when this is read. `cause` is the line before it that says
    why: the error of an ERROR, whoever asked for an archive.
    """

    event: Event
    owner: str
    phase: str
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class FailedLoad:
    """Specs that could not be loaded."""

    revision: Revision


@dataclass(frozen=True, slots=True)
class Happening:
    """What waits to be handed out to webhooks, under its number in the queue.

    Of what is not there any more there is nothing to tell.
    """

    number: int
    what: Moved | FailedLoad | None


@dataclass(frozen=True, slots=True)
class Parcel:
    """One notice for one receiver. The same one has the same id however often it is made."""

    id: UUID
    receiver_id: UUID
    kind: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A parcel on its way: how often it was tried, when next, and how long at most."""

    id: UUID
    receiver: Receiver
    kind: str
    created_at: datetime
    expires_at: datetime
    attempts: int
    next_at: datetime
    delivered_at: datetime | None = None
    failed_at: datetime | None = None
    last_status: int | None = None
    last_error: str = ""

    @property
    def is_done(self) -> bool:
        return self.delivered_at is not None or self.failed_at is not None


@dataclass(frozen=True, slots=True)
class Due:
    """A delivery whose time has come, what is to be sent, and the server's time by now."""

    delivery: Delivery
    payload: Mapping[str, Any]
    now: datetime


@dataclass(frozen=True, slots=True)
class Answer:
    """What a receiver said; `retry_after` is for how long it asked to be left alone."""

    status: int
    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Backlog:
    """One receiver and how its deliveries stand."""

    receiver: Receiver
    pending: int = 0
    failing: int = 0
    """Of the pending ones, those that were tried in vain."""
    failed: int = 0
    delivered: int = 0
    last_delivered_at: datetime | None = None
