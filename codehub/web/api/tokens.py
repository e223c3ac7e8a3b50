"""`/api/v1/tokens`: one's own tokens for programs.

A token is made by a person who is logged in, never by another token: one that leaked could
otherwise outlive its own end.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Response
from pydantic import ConfigDict, Field

from codehub.errors import NotAllowed
from codehub.model.access import Scope, Way
from codehub.model.scalars import NAME_LENGTH, NAME_PATTERN
from codehub.service.tokens import create_token, revoke_token
from codehub.store.tokens import read_tokens
from codehub.web.api.documented import problems
from codehub.web.asking import TheHub
from codehub.web.repeating import RequestKey
from codehub.web.shapes import Shape
from codehub.web.who import Caller, Known, Reader, Writer

if TYPE_CHECKING:
    from codehub.model.access import Token

MOST_DAYS: Final = 366
_EXAMPLE: Final[dict[str, Any]] = {
    "name": "ci-plan",
    "scopes": ["plan"],
    "createdAt": "2026-11-16T09:11:58Z",
    "expiresAt": "2026-12-16T09:11:58Z",
    "lastUsedAt": None,
}

router = APIRouter(tags=["tokens"])


class TokenShape(Shape):
    """A token, without its secret."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE})

    name: str
    scopes: list[Scope] = Field(
        description="`read`: look. `wake`: reach and wake workspaces. `write`: change things, and "
        "both of these. `plan`: make plans."
    )
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


class NewToken(TokenShape):
    """A new token, and its secret, which is told this once."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE | {"secret": "chub_4f1e…"}})

    secret: str


class TokenList(Shape):
    """All of one's tokens, expired ones too, by name."""

    model_config = ConfigDict(json_schema_extra={"example": {"items": [_EXAMPLE]}})

    items: list[TokenShape]


class TokenWish(Shape):
    """A token to make."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"example": {"name": "ci-plan", "scopes": ["plan"], "days": 30}},
    )

    name: str = Field(max_length=NAME_LENGTH, pattern=NAME_PATTERN)
    scopes: list[Scope] = Field(min_length=1, max_length=len(Scope))
    days: int = Field(90, ge=1, le=MOST_DAYS, description="How long it is good.")


async def person(caller: Known) -> Caller:
    """A dependency: somebody who is here themselves."""
    if caller.identity.way is Way.TOKEN:
        raise NotAllowed("a token cannot make tokens", hint="log in, and make it there")
    return caller


TokenName = Annotated[str, Path(max_length=NAME_LENGTH, pattern=NAME_PATTERN, examples=["ci-plan"])]


@router.get("/tokens", operation_id="listTokens", summary="List one's tokens")
async def tokens(caller: Reader, hub: TheHub) -> TokenList:
    """One's own; those of others are for `codehub token list`."""
    async with hub.pool.connection() as conn:
        found = await read_tokens(conn, caller.person.name)
    return TokenList(items=[TokenShape(**_told(each)) for each in found])


@router.post(
    "/tokens",
    operation_id="createToken",
    summary="Make a token",
    status_code=201,
    responses=problems(409, 422),
)
async def create(
    wish: TokenWish, caller: Annotated[Caller, Depends(person)], hub: TheHub, key: RequestKey
) -> NewToken:
    """For oneself, while logged in: a token cannot make tokens. The secret is told this once.

    Whoever sent an `Idempotency-Key` and lost the answer sends the same again within a day: the
    token is the same, its secret is a new one, and the first one is good for nothing any more.
    Once the secret was used or the token revoked, that is a 409.
    """
    async with hub.pool.connection() as conn:
        made = await create_token(
            conn,
            caller.person.name,
            wish.name,
            wish.scopes,
            timedelta(days=wish.days),
            by=caller.person.name,
            visitor=caller.visitor,
            key=key,
        )
    return NewToken(**_told(made.token), secret=made.secret)


@router.delete(
    "/tokens/{name}",
    operation_id="revokeToken",
    summary="Revoke a token",
    status_code=204,
    response_class=Response,
    responses=problems(404, 422),
)
async def revoke(name: TokenName, caller: Writer, hub: TheHub) -> None:
    """One of one's own; it ends at once."""
    async with hub.pool.connection() as conn:
        await revoke_token(
            conn, caller.person.name, name, by=caller.person.name, visitor=caller.visitor
        )


def _told(token: Token) -> dict[str, Any]:
    return {
        "name": token.name,
        "scopes": sorted(token.scopes),
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "last_used_at": token.last_used_at,
    }
