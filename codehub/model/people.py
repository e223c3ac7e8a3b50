"""Users and the hub itself, as specs declare them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from codehub.model.workspace import Source

if TYPE_CHECKING:
    from codehub.model.workspace import Runtime, Ttl


class Role(StrEnum):
    MEMBER = "member"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may own workspaces. `disabled` once no spec declares them any more."""

    name: str
    display_name: str = ""
    role: Role = Role.MEMBER
    password_hash: str | None = None
    max_running: int | None = None
    disabled: bool = False
    source: Source = Source("", 0)


@dataclass(frozen=True, slots=True)
class TtlPolicy:
    """A named TTL that workspaces refer to; it exists in the specs only."""

    name: str
    ttl: Ttl
    source: Source = Source("", 0)


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where to tell of what happens; the secret is a name below the hub's secrets directory.

    None among its `events` means all. `name` is what people call it, if they do.
    """

    url: str
    events: tuple[str, ...] = ()
    secret: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Hub:
    """Defaults and limits for all; None leaves it to the settings."""

    name: str = "hub"
    max_running_per_user: int | None = None
    max_running_global: int | None = None
    default_ttl: str | None = None
    default_runtime: Runtime | None = None
    prune: bool = True
    webhooks: tuple[Webhook, ...] = ()
    source: Source = Source("", 0)
