"""`/api/v1/hub`: the hub in a few figures."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from fastapi import APIRouter
from pydantic import ConfigDict, Field

from codehub import __version__
from codehub.model.states import Phase
from codehub.store.tally import read_tally
from codehub.web.asking import TheHub
from codehub.web.shapes import Shape
from codehub.web.who import Reader

_EXAMPLE: Final[dict[str, Any]] = {
    "name": "team",
    "id": "0192d3b0-7c1e-7b8a-9a53-0f6f3e0c9d11",
    "version": "0.1.0",
    "revision": {
        "id": 41,
        "commit": "9d1f6c2b7e0a4d35b8c1f2e3a4b5c6d7e8f90a1b",
        "createdAt": "2026-11-16T09:11:58Z",
    },
    "limits": {"perUser": 2, "global": 100},
    "running": 1,
    "workspaces": {"PENDING": 0, "ARCHIVED": 4, "STANDBY": 2, "RUNNING": 1, "ERROR": 0},
}

router = APIRouter(tags=["hub"])


class InForce(Shape):
    """The revision that is in force."""

    id: int
    commit: str | None
    created_at: datetime


class Limits(Shape):
    """How many workspaces may run at once."""

    per_user: int = Field(description="Of the caller's own.")
    in_all: int = Field(alias="global", description="On the whole hub.")


class HubShape(Shape):
    """The hub, as far as the caller sees it."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE})

    name: str
    id: str | None = Field(description="Null before anything was applied.")
    version: str = Field(description="Of the hub's software.")
    revision: InForce | None
    limits: Limits
    running: int = Field(description="Those that run or are to run; an admin's count is of all.")
    workspaces: dict[Phase, int] = Field(description="How many are in which phase.")


@router.get("/hub", operation_id="getHub", summary="The hub")
async def hub_info(caller: Reader, hub: TheHub) -> HubShape:
    """Name, version, revision and limits, and how many workspaces are where.

    Members are told of their own workspaces, admins of all.
    """
    async with hub.pool.connection() as conn:
        found = await read_tally(conn, caller.person.id, everybody=caller.owner is None)
    revision = found.revision
    return HubShape(
        name=found.name,
        id=found.id,
        version=__version__,
        revision=InForce(id=revision.id, commit=revision.commit, created_at=revision.created_at)
        if revision
        else None,
        limits=Limits(
            per_user=_else(found.limit_per_user, hub.limits.max_running_per_user),
            in_all=_else(found.limit_of_all, hub.limits.max_running_global),
        ),
        running=found.running,
        workspaces=dict(found.phases),
    )


def _else(given: int | None, usual: int) -> int:
    return usual if given is None else given
