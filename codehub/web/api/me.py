"""`/api/v1/me`: who the hub takes the caller for."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from codehub.model.access import Scope, Way
from codehub.web.who import Caller, Known

router = APIRouter(tags=["me"])


class Me(BaseModel):
    """Somebody who is logged in, or a program with their token."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "name": "ana",
                "role": "member",
                "way": "session",
                "scopes": ["plan", "read", "wake", "write"],
                "csrf": "chub_csrf_5f2c…",
            }
        }
    )

    name: str = Field(description="The user's name in the specs.")
    role: Literal["member", "admin"]
    way: Literal["session", "token", "header"] = Field(description="How they showed who they are.")
    scopes: list[str] = Field(description="What they may do.")
    csrf: str | None = Field(
        None, description="What a page must send as `X-CSRF-Token` to change something."
    )


@router.get("/me", operation_id="getMe", summary="Who am I")
async def me(caller: Known) -> Me:
    return me_of(caller)


def me_of(caller: Caller) -> Me:
    identity = caller.identity
    return Me(
        name=identity.person.name,
        role=identity.person.role.value,
        way=identity.way.value,
        scopes=sorted(scope.value for scope in Scope if identity.may(scope)),
        csrf=None if identity.way is Way.TOKEN else identity.csrf,
    )
