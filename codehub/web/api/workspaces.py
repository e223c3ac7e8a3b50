"""`/api/v1/workspaces`: the list, one of them, and asking for another state."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from codehub.model.scalars import NAME_LENGTH, NAME_PATTERN
from codehub.model.states import DesiredState, Operation, Phase
from codehub.service.asking import find_theirs
from codehub.store.listing import Wanted, read_listing
from codehub.web.api.documented import problems
from codehub.web.asking import TOLD, Name, TheHub, Write, tell
from codehub.web.etags import IfNoneMatch, etag, is_known
from codehub.web.paging import CURSOR_WORDS, LIMIT_WORDS, MOST, USUAL
from codehub.web.shapes import EXAMPLE, Shape, WorkspaceShape, views_of, workspace_shape
from codehub.web.who import Reader

router = APIRouter(tags=["workspaces"])

PLAIN: Final = r"^[^\x00-\x1f\x7f-\x9f]*$"
"""Text that fits on a line of the audit, and that the database takes."""
LABEL: Final = r"^[^\x00-\x1f\x7f-\x9f=]+(=[^\x00-\x1f\x7f-\x9f]*)?$"
_MOST_LABELS: Final = 20


def _is_whole(text: str) -> str:
    """JSON can say halves of characters; the database cannot keep them."""
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise ValueError("must not have halves of characters")
    return text


Line = Annotated[str, AfterValidator(_is_whole)]


class Filters(BaseModel):
    """What to list. What is said twice means either; labels must all be there."""

    model_config = ConfigDict(extra="forbid")

    owner: str | None = Field(
        None,
        max_length=100,
        pattern=PLAIN,
        description="Whose; for admins, who see everybody's.",
        examples=["ana"],
    )
    phase: list[Phase] = Field(
        [],
        max_length=10,
        description="In one of these phases.",
        examples=[["RUNNING", "STANDBY"]],
    )
    operation: list[Operation] = Field(
        [],
        max_length=10,
        description="With one of these under way; `NONE` for those at rest.",
        examples=[["STARTING"]],
    )
    desired: list[DesiredState] = Field(
        [], max_length=10, description="Asked to be there.", examples=[["RUNNING"]]
    )
    busy: bool | None = Field(
        None, description="With an operation under way, or without.", examples=[True]
    )
    archived: bool | None = Field(
        None, description="Only archived ones, or none of them.", examples=[False]
    )
    orphaned: bool | None = Field(
        None, description="Only what no spec declares, or none of it.", examples=[True]
    )
    label: list[Annotated[str, Field(max_length=200, pattern=LABEL)]] = Field(
        [],
        max_length=_MOST_LABELS,
        description="With this label: `key=value`, or `key` for whatever value.",
        examples=[["team=payments"]],
    )
    q: str = Field(
        "",
        max_length=100,
        pattern=PLAIN,
        description="With this text in the name or the description.",
        examples=["payments"],
    )
    limit: int = Field(USUAL, ge=1, le=MOST, description=LIMIT_WORDS, examples=[50])
    cursor: str | None = Field(
        None,
        max_length=NAME_LENGTH,
        pattern=NAME_PATTERN,
        description=CURSOR_WORDS,
        examples=["payments-api"],
    )

    def wanted(self, seen_by: str | None) -> Wanted:
        pairs = [each.partition("=") for each in self.label]
        return Wanted(
            seen_by=seen_by,
            owner=self.owner,
            phases=tuple(self.phase),
            operations=tuple(self.operation),
            desired=tuple(self.desired),
            busy=self.busy,
            archived=self.archived,
            orphaned=self.orphaned,
            labels=tuple((key, value) for key, is_pair, value in pairs if is_pair),
            label_keys=tuple(key for key, is_pair, _ in pairs if not is_pair),
            text=self.q,
        )


class WorkspacePage(Shape):
    """Some of the workspaces, by name."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"items": [EXAMPLE], "next": "payments-api"}}
    )

    items: list[WorkspaceShape]
    next: str | None = Field(
        None, description="The `cursor` of the next page; null where this is the last one."
    )


class Wish(Shape):
    """Where a workspace should be."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"example": {"desired": "RUNNING", "reason": "demo at ten"}},
    )

    desired: Literal["RUNNING", "STANDBY", "ARCHIVED"]
    reason: Line = Field("", max_length=200, pattern=PLAIN, description="Why, for the audit.")


@router.get(
    "/workspaces",
    operation_id="listWorkspaces",
    summary="List workspaces",
    responses=problems(422),
)
async def list_workspaces(
    filters: Annotated[Filters, Query()], caller: Reader, hub: TheHub
) -> WorkspacePage:
    """One's own by name, for an admin everybody's, a page at a time."""
    wanted, after = filters.wanted(caller.owner), filters.cursor or ""
    async with hub.pool.connection() as conn:
        page = await read_listing(conn, wanted, after=after, limit=filters.limit)
    if page.read_at is None:
        return WorkspacePage(items=[], next=None)
    views = views_of(page.found, page.read_at, hub.settings)
    return WorkspacePage(
        items=[
            workspace_shape(view, hub.where.workspace(caller.head, view.workspace.name))
            for view in views
        ],
        next=page.found[-1].name if page.more else None,
    )


@router.get(
    "/workspaces/{name}",
    operation_id="getWorkspace",
    summary="Look at a workspace",
    response_model=WorkspaceShape,
    responses={**TOLD, 304: {"description": "It is as it was."}, **problems(404)},
)
async def get_workspace(
    name: Name, caller: Reader, hub: TheHub, response: Response, known: IfNoneMatch = None
) -> WorkspaceShape | Response:
    """With `If-None-Match`, only if it has changed.

    The `ETag` is about what one decides on: that somebody worked in it does not change it, nor
    does an operation's progress, so an operation under way is told every time.
    """
    async with hub.pool.connection() as conn:
        found = await find_theirs(conn, name, caller.sees)
    shape = tell(hub, caller, found, response)
    if shape.operation is Operation.NONE and is_known(known, shape.version):
        return Response(status_code=304, headers={"ETag": etag(shape.version)})
    return shape


@router.patch(
    "/workspaces/{name}",
    operation_id="patchWorkspace",
    summary="Ask for a state",
    responses={**TOLD, **problems(400, 404, 409, 412, 422, 429)},
)
async def patch_workspace(ask: Write, wish: Wish) -> WorkspaceShape:
    """What is asked for is written at once; the coordinator then gets the workspace there.

    Asking for what is asked for already is fine. A refusal changes nothing.
    """
    return await ask.toward(DesiredState(wish.desired), why=wish.reason)
