"""One thing asked of one workspace, from the path's name to the answer with its ETag.

The routes that look at a workspace or move it differ in what they ask for and in nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Depends, Path, Response

from codehub.core.present import version
from codehub.model.access import Way
from codehub.model.states import DesiredState
from codehub.service.asking import ask_for, held_still, missing
from codehub.service.sessions import tidy
from codehub.store.workspaces import find_live_by_id
from codehub.web.etags import TAG_EXAMPLE, IfMatch, check_match, etag
from codehub.web.hub import Hub, hub_of
from codehub.web.shapes import WorkspaceShape, view_of, workspace_shape
from codehub.web.who import Caller, Waker, Writer

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.service.asking import Only
    from codehub.store.workspaces import Found

    Conn = AsyncConnection[DictRow]
    Act = Callable[[Conn, Found], Awaitable[object]]

Name = Annotated[
    str, Path(description="The workspace's name, or its id.", examples=["payments-api"])
]
TheHub = Annotated[Hub, Depends(hub_of)]

TOLD: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "headers": {
            "ETag": {
                "description": "Its `version`, to be sent back as `If-Match`.",
                "schema": {"type": "string"},
                "example": TAG_EXAMPLE,
            }
        }
    }
}
"""For `responses=` of routes that tell of one workspace."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Who asks what of which workspace; `match` is what they have seen of it."""

    hub: Hub
    caller: Caller
    name: str
    match: str | None
    response: Response

    async def toward(
        self, state: DesiredState, *, only: Only | None = None, why: str = ""
    ) -> WorkspaceShape:
        """Ask for a state."""

        async def act(conn: Conn, found: Found) -> None:
            await ask_for(
                conn,
                found,
                state,
                by=self.by,
                reason=self.reason(why),
                limits=self.hub.limits,
                only=only,
            )

        return await self.change(act, counted=state is DesiredState.RUNNING)

    async def change(
        self, act: Act, *, counted: bool = False, deleted: bool = False
    ) -> WorkspaceShape:
        """Do something with it while nobody else can, and tell what it is then."""
        async with self.hub.pool.connection() as conn:
            async with held_still(
                conn, self.name, self.caller.sees, counted=counted, deleted=deleted
            ) as found:
                check_match(self.match, version(found.workspace, found.read_at))
                await act(conn, found)
            changed = await find_live_by_id(conn, found.workspace.id)
        if changed is None:
            raise missing()
        return tell(self.hub, self.caller, changed, self.response)

    @property
    def by(self) -> str:
        return self.caller.person.name

    def reason(self, why: str = "") -> str:
        """For the audit: what they said, how they asked, and from where."""
        how = "with a token" if self.caller.identity.way is Way.TOKEN else "on a page"
        said = f"asked {how}, from {tidy(self.caller.visitor).address}"
        return f"{why} ({said})" if why else said


def tell(hub: Hub, caller: Caller, found: Found, response: Response) -> WorkspaceShape:
    """One workspace as an answer."""
    shape = shape_of(hub, caller, found)
    response.headers["ETag"] = etag(shape.version)
    return shape


def shape_of(hub: Hub, caller: Caller, found: Found) -> WorkspaceShape:
    view = view_of(found.workspace, found.read_at, hub.settings)
    return workspace_shape(view, hub.where.workspace(caller.head, found.workspace.name))


async def _wake(
    name: Name, hub: TheHub, caller: Waker, response: Response, match: IfMatch = None
) -> Ask:
    return Ask(hub, caller, name, match, response)


async def _write(
    name: Name, hub: TheHub, caller: Writer, response: Response, match: IfMatch = None
) -> Ask:
    return Ask(hub, caller, name, match, response)


Wake = Annotated[Ask, Depends(_wake)]
"""Somebody who may start it; `Write`, who may do all else."""
Write = Annotated[Ask, Depends(_write)]
