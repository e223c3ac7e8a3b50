"""`/`: the workspaces of whoever looks, all of them for admins; and the parts that stay live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Depends, Query
from fastapi.responses import HTMLResponse

from codehub.model.states import Phase
from codehub.model.voice import Voice
from codehub.render.dashboard_home import (
    Filter,
    Home,
    Paging,
    Use,
    home_page,
    row_fragment,
    summary_fragment,
)
from codehub.render.dashboard_row import Row
from codehub.service.asking import find_theirs
from codehub.store.clock import read_now
from codehub.store.connect import transaction
from codehub.store.listing import Wanted as Looked
from codehub.store.listing import read_listing
from codehub.store.overview import count_phases, read_in_use, read_owners
from codehub.store.revisions import latest_applied, list_revisions
from codehub.web.hub import Hub, hub_of
from codehub.web.pages.answering import PageRoute, html, hub_name, shell_of
from codehub.web.pages.flashing import flash_of
from codehub.web.shapes import view_of
from codehub.web.who import Caller, Reader

if TYPE_CHECKING:
    from datetime import datetime

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.workspace import Workspace
    from codehub.store.listing import Listed

router = APIRouter(include_in_schema=False, route_class=PageRoute)

PAGE: Final = 100
LONGEST_TEXT: Final = 100


class Wanted:
    """What the address asks for. What makes no sense there asks for nothing."""

    def __init__(
        self,
        q: Annotated[str, Query()] = "",
        phase: Annotated[str, Query()] = "",
        owner: Annotated[str, Query()] = "",
        after: Annotated[str, Query()] = "",
    ) -> None:
        known = phase.upper() in Phase.__members__
        self.filter = Filter(
            text=_plain(q), phase=Phase(phase.upper()) if known else None, owner=_plain(owner)
        )
        self.after = _plain(after)

    def of(self, caller: Caller) -> Looked:
        """What they may look for: everybody's is for admins."""
        return Looked(
            seen_by=caller.owner,
            owner=self.filter.owner or None,
            phases=(self.filter.phase,) if self.filter.phase else (),
            text=self.filter.text,
        )

    def counted(self, caller: Caller) -> str | None:
        """Whose are counted above the list: None for everybody's."""
        return caller.owner or self.filter.owner or None


@router.get("/")
async def home(
    caller: Reader,
    wanted: Annotated[Wanted, Depends()],
    hub: Annotated[Hub, Depends(hub_of)],
    did: Annotated[str, Query()] = "",
    to: Annotated[str, Query()] = "",
) -> HTMLResponse:
    async with hub.pool.connection() as conn, transaction(conn, snapshot=True):
        now = await read_now(conn)
        found = await read_listing(conn, wanted.of(caller), after=wanted.after, limit=PAGE)
        shown = await _home(conn, hub, caller, wanted, now, found)
        name = await hub_name(conn)
    shell = shell_of(caller, now, "home", hub=name, flash=flash_of(did, to))
    return html(home_page(shown, shell))


@router.get("/summary")
async def summary(
    caller: Reader, wanted: Annotated[Wanted, Depends()], hub: Annotated[Hub, Depends(hub_of)]
) -> HTMLResponse:
    """What is above the list alone, for the script."""
    async with hub.pool.connection() as conn, transaction(conn, snapshot=True):
        now = await read_now(conn)
        shown = await _home(conn, hub, caller, wanted, now, None)
    return HTMLResponse(summary_fragment(shown, shell_of(caller, now)))


@router.get("/workspaces/{name}/card")
async def card(caller: Reader, name: str, hub: Annotated[Hub, Depends(hub_of)]) -> HTMLResponse:
    """One row alone, for the script."""
    async with hub.pool.connection() as conn:
        found = await find_theirs(conn, name, caller.sees)
    row = row_of(found.workspace, found.read_at, hub, caller)
    return HTMLResponse(row_fragment(row, shell_of(caller, found.read_at)))


def row_of(workspace: Workspace, now: datetime, hub: Hub, caller: Caller) -> Row:
    url = hub.where.workspace(caller.head, workspace.name)
    return Row(view_of(workspace, now, hub.settings, Voice.BUTTONS), url)


async def _home(
    conn: AsyncConnection[DictRow],
    hub: Hub,
    caller: Caller,
    wanted: Wanted,
    now: datetime,
    found: Listed | None,
) -> Home:
    admin = caller.person.is_admin
    newest = await list_revisions(conn, 1) if admin else ()
    failed = newest[0] if newest and not newest[0].applied else None
    workspaces = found.found if found else ()
    return Home(
        rows=[row_of(each, now, hub, caller) for each in workspaces],
        counts=await count_phases(conn, wanted.counted(caller)),
        uses=await _uses(conn, hub, caller),
        sought=wanted.filter,
        owners=await read_owners(conn) if admin else (),
        paging=_paging(wanted, found),
        failed=failed,
        in_force=await latest_applied(conn) if failed else None,
    )


async def _uses(conn: AsyncConnection[DictRow], hub: Hub, caller: Caller) -> tuple[Use, ...]:
    used = await read_in_use(conn, caller.person.name)
    own_limit = used.own_limit if used.own_limit is not None else hub.limits.max_running_per_user
    limit = used.limit if used.limit is not None else hub.limits.max_running_global
    own = Use(used.own, own_limit, "places of yours in use")
    everybody = Use(used.everybody, limit, "in all")
    return (own, everybody) if caller.person.is_admin else (own,)


def _paging(wanted: Wanted, found: Listed | None) -> Paging:
    behind = found.found[-1].name if found and found.more else ""
    return Paging(
        first=wanted.filter.link() if wanted.after else "",
        following=wanted.filter.link(after=behind) if behind else "",
    )


def _plain(text: str) -> str:
    """What the database can look for: it knows no NUL."""
    return text.replace("\0", "").strip()[:LONGEST_TEXT]
