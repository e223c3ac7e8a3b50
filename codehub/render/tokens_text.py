"""The tokens as a table, for `codehub token list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codehub.render.table import table
from codehub.render.words import clean

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from codehub.model.access import Token

HEAD = ("USER", "NAME", "SCOPES", "CREATED", "LAST USED", "EXPIRES")
NONE = "There are no tokens. Make one with 'codehub token create'.\n"


def tokens_text(tokens: Iterable[Token], now: datetime) -> str:
    """Whose they are, what they are good for, and until when."""
    rows = [_row(token, now) for token in tokens]
    return table(HEAD, rows) if rows else NONE


def _row(token: Token, now: datetime) -> tuple[str, ...]:
    return (
        clean(token.person.name),
        clean(token.name),
        ",".join(sorted(token.scopes)),
        _day(token.created_at, "-"),
        _day(token.last_used_at, "never"),
        _end(token.expires_at, now),
    )


def _day(moment: datetime | None, otherwise: str) -> str:
    return f"{moment:%Y-%m-%d}" if moment else otherwise


def _end(moment: datetime | None, now: datetime) -> str:
    return f"{_day(moment, 'never')}{' (expired)' if moment and moment <= now else ''}"
