"""How a column is written in `tables.py`: one word for each kind, so that tables read as lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field

if TYPE_CHECKING:
    from enum import StrEnum


def _default(value: object) -> Any:
    """A server default as SQL; strings are quoted, None is no default."""
    if value is None:
        return None
    return text(f"'{value}'" if isinstance(value, str) else str(value).lower())


def words(default: str | None = None, *, null: bool = False) -> Any:
    return Field(sa_column=Column(Text, nullable=null, server_default=_default(default)))


def number(default: int | None = None, *, null: bool = False, big: bool = False) -> Any:
    kind = BigInteger if big else Integer
    return Field(sa_column=Column(kind, nullable=null, server_default=_default(default)))


def flag(default: bool = False) -> Any:
    return Field(sa_column=Column(Boolean, nullable=False, server_default=_default(default)))


def json(default: str = "{}") -> Any:
    return Field(
        sa_column=Column(JSONB, nullable=False, server_default=text(f"'{default}'::jsonb"))
    )


def moment(*, null: bool = False, now: bool = False) -> Any:
    default = text("now()") if now else None
    column = Column(DateTime(timezone=True), nullable=null, server_default=default)
    return Field(sa_column=column)


def identity() -> Any:
    default = text("gen_random_uuid()")
    return Field(sa_column=Column(Uuid, primary_key=True, server_default=default))


def serial() -> Any:
    return Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=True))


def user() -> Any:
    return Field(sa_column=Column(Uuid, ForeignKey("users.id"), nullable=False))


def session() -> Any:
    """A session that may be none; what refers to it goes with it."""
    return Field(
        sa_column=Column(Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), nullable=True)
    )


def due(base: str, ttl: str) -> Any:
    """When a TTL is due; NULL for never. Where the TTL is the hub's, it is the base alone.

    A generated column needs immutable functions, and adding an interval to a timestamptz is not
    one; in UTC it is. The text is as Postgres writes it back, which is what Alembic compares.
    """
    utc = "AT TIME ZONE 'UTC'::text"
    due = f"(({base} {utc}) + COALESCE({ttl}, 0)::double precision * '00:00:01'::interval) {utc}"
    sql = f"CASE WHEN {ttl} = 0 THEN NULL::timestamp with time zone ELSE {due} END"
    column = Column(DateTime(timezone=True), Computed(sql, persisted=True), nullable=True)
    return Field(sa_column=column)


def one_of(column: str, values: type[StrEnum] | tuple[StrEnum, ...]) -> CheckConstraint:
    """A column holds one of these, or NULL where it may."""
    listed = ", ".join(f"'{value.value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=column)


def index(name: str, *columns: str, where: str | None = None, unique: bool = False) -> Index:
    return Index(
        name, *columns, unique=unique, postgresql_where=None if where is None else text(where)
    )
