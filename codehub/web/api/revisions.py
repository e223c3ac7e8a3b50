"""`/api/v1/revisions`: what was loaded into the hub, when, from where and by whom."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Path
from pydantic import ConfigDict, Field

from codehub.store.revisions import list_revisions, read_revision
from codehub.web.api.documented import problems
from codehub.web.asking import TheHub
from codehub.web.paging import USUAL, IdCursor, Limit
from codehub.web.shapes import Shape
from codehub.web.who import Caller, Reader

if TYPE_CHECKING:
    from codehub.model.revision import Revision

LARGEST: Final = 2**63 - 1
_EXAMPLE: Final[dict[str, Any]] = {
    "id": 41,
    "digest": "77ab91d0…",
    "createdAt": "2026-11-16T09:11:58Z",
    "author": "watcher",
    "applied": True,
    "directory": "specs",
    "commit": "9d1f6c2b7e0a4d35b8c1f2e3a4b5c6d7e8f90a1b",
    "dirty": False,
    "ref": None,
    "summary": {"create": 1, "update": 2},
    "problems": [],
}

router = APIRouter(tags=["revisions"])


class RevisionShape(Shape):
    """One load of the specs: applied, or failed, which changed nothing."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE})

    id: int = Field(description="Ids grow.")
    digest: str = Field(description="Equal for specs that say the same.")
    created_at: datetime
    author: str
    applied: bool
    directory: str
    commit: str | None
    dirty: bool = Field(description="Whether the files differed from that commit.")
    ref: str | None
    summary: dict[str, int] = Field(description="How many were created, updated and deleted.")
    problems: list[str] | None = Field(
        None, description="Why it failed; null for who is not an admin."
    )


class RevisionPage(Shape):
    """Some of the revisions, latest first."""

    model_config = ConfigDict(json_schema_extra={"example": {"items": [_EXAMPLE], "next": "41"}})

    items: list[RevisionShape]
    next: str | None = Field(
        None, description="The `cursor` of the next page, which is older; null for the last one."
    )


@router.get(
    "/revisions",
    operation_id="listRevisions",
    summary="List revisions",
    responses=problems(422),
)
async def revisions(
    caller: Reader, hub: TheHub, limit: Limit = USUAL, cursor: IdCursor = None
) -> RevisionPage:
    """Applied and failed ones, latest first."""
    before = None if cursor is None else int(cursor)
    async with hub.pool.connection() as conn:
        found = await list_revisions(conn, limit + 1, before)
    shown = found[:limit]
    return RevisionPage(
        items=[_shape(each, caller) for each in shown],
        next=str(shown[-1].id) if len(found) > limit else None,
    )


@router.get(
    "/revisions/{number}",
    operation_id="getRevision",
    summary="Look at a revision",
    responses=problems(404, 422),
)
async def revision(
    number: Annotated[int, Path(ge=1, le=LARGEST, description="Its id.", examples=[41])],
    caller: Reader,
    hub: TheHub,
) -> RevisionShape:
    """Its specs are not told: they hold values of `env`."""
    async with hub.pool.connection() as conn:
        return _shape(await read_revision(conn, number), caller)


def _shape(revision: Revision, caller: Caller) -> RevisionShape:
    origin = revision.origin
    return RevisionShape(
        id=revision.id,
        digest=revision.digest,
        created_at=revision.created_at,
        author=revision.author,
        applied=revision.applied,
        directory=origin.directory,
        commit=origin.commit,
        dirty=origin.dirty,
        ref=origin.ref,
        summary=dict(revision.summary),
        # They quote lines of specs, which may be anybody's.
        problems=list(revision.problems) if caller.person.is_admin else None,
    )
