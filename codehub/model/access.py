"""Who is let in and how: logins, tokens for programs, and what the audit keeps of them.

The secrets themselves (a session's id, a token, a code) are in none of these values but those that
carry a new one to its owner, and there they are left out of every repr.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from codehub.model.people import Role

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from uuid import UUID


class Scope(StrEnum):
    """What a token is good for. `write` includes `read` and `wake`; `plan` stands for itself."""

    READ = "read"
    WAKE = "wake"
    WRITE = "write"
    PLAN = "plan"


class Purpose(StrEnum):
    """What a one-time code is for: a login without a password, or a login on one more host."""

    LINK = "link"
    HANDOVER = "handover"


class AccessKind(StrEnum):
    """What the audit of logins tells of."""

    LOGIN = "login"
    FAILED = "failed"
    LOGOUT = "logout"
    LINK = "link"
    TOKEN_CREATED = "token_created"
    TOKEN_REVOKED = "token_revoked"


class Way(StrEnum):
    """How somebody showed who they are."""

    SESSION = "session"
    TOKEN = "token"
    HEADER = "header"


@dataclass(frozen=True, slots=True)
class Person:
    """A user as far as access is concerned."""

    id: UUID
    name: str
    role: Role

    @property
    def is_admin(self) -> bool:
        return self.role is Role.ADMIN

    def sees(self, owner: str) -> bool:
        """Whether they see what this user has."""
        return self.is_admin or self.name == owner


@dataclass(frozen=True, slots=True)
class Session:
    """A login: the hub's own, or with a `host` that of one workspace's host, below its parent."""

    id: UUID
    person: Person
    expires_at: datetime
    host: str = ""
    parent_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """A new session and the secret that goes into the browser's cookie, and nowhere else."""

    session: Session
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Token:
    """A token for programs, without the secret."""

    id: UUID
    person: Person
    name: str
    scopes: frozenset[Scope]
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Issued:
    """A new token and its secret, which is shown once."""

    token: Token
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AccessEvent:
    """One line of the audit of logins. `user` is empty where nobody of that name is known."""

    id: int
    at: datetime
    kind: AccessKind
    user: str
    by: str
    address: str
    agent: str
    reason: str


@dataclass(frozen=True, slots=True)
class Visitor:
    """Where somebody comes from, as far as the wire can tell; for the audit and the limits."""

    address: str = ""
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that may say who is asking: the hash of a secret, or a vouched-for name."""

    way: Way
    key: str

    def __hash__(self) -> int:
        """Of the key alone, which is different enough: this is asked at every request."""
        return hash(self.key)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who is asking, and by what. `id` is the session's, the token's, or with a header the user's.

    `csrf` is what a form must carry to be taken for this identity's own.
    """

    person: Person
    way: Way
    id: UUID
    scopes: frozenset[Scope] = frozenset(Scope)
    host: str = ""
    csrf: str = field(default="", repr=False)

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes


def widened(scopes: Iterable[Scope]) -> frozenset[Scope]:
    """All that these scopes allow: whoever may change things may also see and wake them."""
    given = frozenset(scopes)
    return given | {Scope.READ, Scope.WAKE} if Scope.WRITE in given else given
