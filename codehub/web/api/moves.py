"""What one does with a workspace, a route each: start, stop, archive, restore, delete, recover …

Every POST may be sent again, for instance by somebody who lost the answer: what was carried out is
a 200 once more and changes nothing, as is asking for what is so anyway. "Still working" is noted
each time, and an override lasts from when it was last asked for. So none of them needs an
`Idempotency-Key`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final, Literal

from fastapi import APIRouter, Body, Query, Response
from pydantic import ConfigDict, Field

from codehub.model.scalars import parse_duration
from codehub.model.states import DesiredState, IntentSource, Phase, RecoverMode
from codehub.service.asking import Only, held_still
from codehub.service.intent import (
    clear_override,
    request_discard,
    request_recover,
    set_override,
    touch,
    undelete,
)
from codehub.web.api.documented import problems
from codehub.web.api.workspaces import Line
from codehub.web.asking import TOLD, Ask, Name, TheHub, Wake, Write
from codehub.web.shapes import Shape, WorkspaceShape
from codehub.web.who import Writer

if TYPE_CHECKING:
    from codehub.model.workspace import Workspace
    from codehub.store.workspaces import Found
    from codehub.web.asking import Conn

router = APIRouter(prefix="/workspaces/{name}", tags=["moves"])

_MOVED: Final = {**TOLD, **problems(404, 409, 412, 422)}
_STARTED: Final = _MOVED | problems(429)


_LASTS: Final = r"^([1-9][0-9]{0,7}s|[1-9][0-9]{0,5}m|[1-9][0-9]{0,3}h|[1-9][0-9]{0,2}d)$"
_SAYS_WHY: Final = r"^[^\x00-\x1f\x7f-\x9f]*[^\x00-\x20\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"


class Override(Shape):
    """Another ceiling than the declared one, for a while."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"example": {"state": "RUNNING", "for": "8h", "reason": "demo tonight"}},
    )

    state: Literal["RUNNING", "STANDBY", "ARCHIVED"]
    lasts: str = Field(
        alias="for", pattern=_LASTS, description="How long: 90s, 10m, 8h, 3d; at most 999d."
    )
    reason: Line = Field(max_length=200, pattern=_SAYS_WHY)


class Recovery(Shape):
    """How to leave ERROR; lost data needs one of the latter two."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"mode": "plain"}})

    mode: RecoverMode = RecoverMode.PLAIN


_PLAINLY: Final = Recovery()


@router.post("/start", operation_id="startWorkspace", summary="Start", responses=_STARTED)
async def start(ask: Wake) -> WorkspaceShape:
    """From wherever it is; the one thing that a token with scope `wake` may do."""
    return await ask.toward(DesiredState.RUNNING)


@router.post("/stop", operation_id="stopWorkspace", summary="Stop", responses=_MOVED)
async def stop(ask: Write) -> WorkspaceShape:
    """Its home stays. One that is or becomes archived stays archived."""
    return await ask.toward(DesiredState.STANDBY, only=Only.DOWN)


@router.post("/archive", operation_id="archiveWorkspace", summary="Archive", responses=_MOVED)
async def archive(ask: Write) -> WorkspaceShape:
    """Its home goes to the archive store."""
    return await ask.toward(DesiredState.ARCHIVED)


@router.post("/restore", operation_id="restoreWorkspace", summary="Restore", responses=_STARTED)
async def restore(
    ask: Write,
    start: Annotated[bool, Query(description="Start it as well.", examples=[False])] = True,
) -> WorkspaceShape:
    """Its home comes back from the archive store. Stops nothing."""
    state = DesiredState.RUNNING if start else DesiredState.STANDBY
    return await ask.toward(state, only=Only.UP)


@router.delete(
    "",
    operation_id="deleteWorkspace",
    summary="Delete",
    status_code=202,
    responses={202: TOLD[200], **problems(404, 409, 412, 422)},
)
async def delete(
    ask: Write,
    discard: Annotated[
        bool,
        Query(
            alias="discardData",
            description="For admins: give up a home that cannot be archived. No way back.",
            examples=[False],
        ),
    ] = False,
) -> WorkspaceShape:
    """What no spec declares. What one declares is deleted there."""
    if not discard:
        return await ask.toward(DesiredState.DELETED)

    async def act(conn: Conn, found: Found) -> None:
        await request_discard(
            conn,
            found.workspace.name,
            by=ask.by,
            source=IntentSource.API,
            admin=ask.caller.person.is_admin,
            reason=ask.reason(),
        )

    return await ask.change(act)


@router.post("/undelete", operation_id="undeleteWorkspace", summary="Undelete", responses=_MOVED)
async def bring_back(ask: Write) -> WorkspaceShape:
    """What a spec declares, within the retention. One that is not deleted stays as it is."""

    async def act(conn: Conn, found: Found) -> None:
        if _is_there(found.workspace):
            return
        name = found.workspace.name
        await undelete(conn, name, source=IntentSource.API, by=ask.by, reason=ask.reason())

    return await ask.change(act, deleted=True)


@router.put(
    "/override",
    operation_id="overrideWorkspace",
    summary="Override",
    responses=_MOVED | problems(400),
)
async def override(ask: Write, wish: Override) -> WorkspaceShape:
    """For admins: let it go higher than its spec allows, or hold it lower, from now on."""

    async def act(conn: Conn, found: Found) -> None:
        await set_override(
            conn,
            found.workspace.name,
            DesiredState(wish.state),
            lasts=timedelta(seconds=parse_duration(wish.lasts)),
            reason=wish.reason,
            by=ask.by,
            source=IntentSource.API,
            admin=ask.caller.person.is_admin,
            asked=ask.reason(),
        )

    return await ask.change(act)


@router.delete("/override", operation_id="endOverride", summary="End an override", responses=_MOVED)
async def end_override(ask: Write) -> WorkspaceShape:
    """For admins. Where there is none, nothing happens."""

    async def act(conn: Conn, found: Found) -> None:
        await clear_override(
            conn,
            found.workspace.name,
            by=ask.by,
            source=IntentSource.API,
            admin=ask.caller.person.is_admin,
            reason=ask.reason(),
        )

    return await ask.change(act)


@router.post(
    "/recover",
    operation_id="recoverWorkspace",
    summary="Recover from an ERROR",
    responses=_MOVED | problems(400),
)
async def recover(ask: Write, wish: Annotated[Recovery, Body()] = _PLAINLY) -> WorkspaceShape:
    """Plain, unless its data was lost: then somebody says what takes its place.

    One that is not in `ERROR` stays as it is, its home too, whatever the mode.
    """

    async def act(conn: Conn, found: Found) -> None:
        if found.workspace.status.phase is not Phase.ERROR:
            return
        await request_recover(
            conn,
            found.workspace.name,
            wish.mode,
            by=ask.by,
            source=IntentSource.API,
            reason=ask.reason(),
        )

    return await ask.change(act)


@router.post(
    "/touch",
    operation_id="touchWorkspace",
    summary="Still working",
    status_code=204,
    response_class=Response,
    responses=problems(404),
)
async def still_working(name: Name, caller: Writer, hub: TheHub) -> None:
    """Idleness counts from now."""
    ask = Ask(hub, caller, name, None, Response())
    async with (
        hub.pool.connection() as conn,
        held_still(conn, name, caller.sees) as found,
    ):
        await touch(
            conn, found.workspace.name, by=ask.by, source=IntentSource.API, reason=ask.reason()
        )


def _is_there(workspace: Workspace) -> bool:
    """Whether it is neither deleted nor on its way there."""
    leaves = workspace.intent.desired is DesiredState.DELETED
    return not leaves and workspace.status.deleted_at is None
