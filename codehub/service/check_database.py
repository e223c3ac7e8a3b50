"""Checks of the hub's database and of what is in it. Every one has its own connection."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from codehub.core.amend import amend, first_of
from codehub.core.express import short
from codehub.errors import CodeHubError, DatabaseProblem, Unreachable
from codehub.model.checkup import problem, warning, well
from codehub.service.threads import in_thread
from codehub.store.advisory import Lock, session_lock
from codehub.store.circumstances import read_leadership
from codehub.store.connect import connect, redacted, translated
from codehub.store.hubs import read_hub_id
from codehub.store.revisions import latest_applied, latest_failed
from codehub.store.schema import current, misfit, require_schema
from codehub.store.session import require_own_session
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.checkup import Verdict
    from codehub.model.runtime import VolumeSeen
    from codehub.service.check_docker import Ask, AskKnown

    Conn = AsyncConnection[DictRow]

OLDEST: Final = 14
SKEW: Final = timedelta(seconds=5)
NAMED: Final = 5
"""How many of a list are named; the rest is counted."""

SERVER: Final = "SELECT current_setting('server_version_num')::integer AS number"
TIME: Final = "SELECT clock_timestamp() AS now"
ERRORS: Final = """
SELECT count(*) OVER () AS count, count(*) FILTER (WHERE phase = 'ERROR') OVER () AS broken,
       name, phase = 'ERROR' AS is_broken
FROM workspaces WHERE deleted_at IS NULL ORDER BY phase = 'ERROR' DESC, name LIMIT %(named)s
"""
KNOWN: Final = """
SELECT id, COALESCE(home_ctx -> 'given_up', '[]') AS given_up
FROM workspaces WHERE id = ANY(%(ids)s)
"""


async def look_at_server(url: str) -> Verdict:
    """Whether it answers, and which version it is."""
    async with await connect(url) as conn:
        with translated():
            number = (await fetch(conn, SERVER))[0]["number"]
    return judge_server(number, redacted(url))


def judge_server(number: int, where: str) -> Verdict:
    """`number` as the server itself counts its versions: 140005 for 14.5."""
    text = f"PostgreSQL {number // 10000}.{number % 10000} at {where}"
    if number // 10000 < OLDEST:
        return warning(f"{text}: older than {OLDEST}", f"use PostgreSQL {OLDEST} or newer")
    return well(text)


async def look_at_schema(url: str) -> Verdict:
    """Whether its tables are those of this code; nothing is upgraded here."""
    state = await in_thread(lambda: current(url))
    wrong = misfit(state)
    if wrong is not None:
        return problem(wrong.message, wrong.hint or "")
    return well(f"version {state.revision}, as this codehub needs it")


async def look_at_session(url: str) -> Verdict:
    """Whether a session is ours alone: through a transaction pooler nobody could lead."""
    async with await connect(url) as conn, await connect(url) as other:
        await check_session(conn, other)
    return well("direct: the leader's lock holds across transactions")


async def check_session(conn: Conn, other: Conn) -> None:
    """Raises DatabaseProblem behind a transaction pooler."""
    with translated():
        async with session_lock(conn, Lock.PROBE):
            await require_own_session(conn, other, Lock.PROBE)


async def look_at_clock(url: str) -> Verdict:
    """How far its clock is from ours. TTLs go by its clock alone, so this confuses people only."""
    async with await connect(url) as conn:
        before = datetime.now(UTC)
        with translated():
            theirs: datetime = (await fetch(conn, TIME))[0]["now"]
        after = datetime.now(UTC)
    return judge_clock(theirs, before, after)


def judge_clock(theirs: datetime, before: datetime, after: datetime) -> Verdict:
    """The answer was given between two times of ours; within them there is no skew."""
    skew = max(before - theirs, theirs - after, timedelta(0))
    if skew < SKEW:
        return well(f"within {SKEW.total_seconds():g} s of this machine's")
    side = "behind" if theirs < before else "ahead of"
    return warning(
        f"the database's clock is {short(skew)} {side} this machine's; idleness goes by the "
        "database's",
        "let both follow the same time server",
    )


async def look_for_leader(url: str, *, embedded: bool) -> Verdict:
    async def look(conn: Conn) -> Verdict:
        leader = await read_leadership(conn)
        last = f"; the last one was {leader.holder}, epoch {leader.epoch}" if leader.holder else ""
        if leader.held:
            since = f" since {leader.since:%Y-%m-%d %H:%M:%S} UTC" if leader.since else ""
            return well(f"{leader.holder or 'one'} leads{since}, epoch {leader.epoch}")
        tell = warning if embedded else problem
        return tell(
            f"no coordinator leads, so nothing moves{last}",
            "start 'codehub up' on this machine, or 'codehub serve coordinator'",
        )

    return await _read(url, look)


async def look_at_specs(url: str) -> Verdict:
    """Whether what was loaded last could be loaded."""

    async def look(conn: Conn) -> Verdict:
        failed, applied = await latest_failed(conn), await latest_applied(conn)
        if failed is not None:
            stays = f"revision {applied.id} stays in force" if applied else "none is in force"
            said = f"revision {failed.id} failed: {first_of(failed.problems)}; {stays}"
            return warning(said, amend(failed))
        if applied is None:
            return warning("no specs have been loaded yet", "'codehub apply' loads them")
        return well(f"revision {applied.id} is in force")

    return await _read(url, look)


async def look_at_workspaces(url: str) -> Verdict:
    async def look(conn: Conn) -> Verdict:
        rows = await fetch(conn, ERRORS, {"named": NAMED})
        broken = rows[0]["broken"] if rows else 0
        if not broken:
            return well(f"{rows[0]['count'] if rows else 0} there, none in ERROR")
        names = _names([row["name"] for row in rows if row["is_broken"]], broken)
        return warning(
            f"{broken} of {rows[0]['count']} in ERROR: {names}",
            f"'codehub explain {rows[0]['name']}' says why and what to do",
        )

    return await _read(url, look)


async def look_at_volumes(url: str, root: Path) -> Verdict:
    """Homes on this machine that belong to no workspace we know; they are left alone."""

    async def look(conn: Conn) -> Verdict:
        hub_id = await read_hub_id(conn)
        seen = () if hub_id is None else await in_thread(lambda: list_volumes(root, hub_id))
        return await _judge_volumes(conn, seen, where=f"in {root}", how="by hand")

    return await _read(url, look)


async def look_at_docker_volumes(url: str, ask: Ask, known: AskKnown) -> Verdict | None:
    """The same on the engine. Of one that does not answer another check speaks."""
    hub = await known()
    try:
        found = await ask()
    except CodeHubError:
        return None
    if hub is None:
        return None

    async def look(conn: Conn) -> Verdict:
        how = "with 'docker volume rm'"
        return await _judge_volumes(conn, found.volumes, where="on the engine", how=how)

    return await _read(url, look)


async def _judge_volumes(
    conn: Conn, seen: Sequence[VolumeSeen], *, where: str, how: str
) -> Verdict:
    if not seen:
        return well(f"none {where}")
    ids = list({each.workspace_id for each in seen})
    known = {row["id"]: row["given_up"] for row in await fetch(conn, KNOWN, {"ids": ids})}
    strange = [_title(each) for each in seen if each.workspace_id not in known]
    found = [_title(each) for each in seen if each.name in known.get(each.workspace_id, ())]
    if not strange and found:
        return warning(
            f"{len(found)} {where} with homes that were given up and are there again, left alone: "
            f"{_names(found, len(found))}",
            f"copy out what is needed, then remove them {how}",
        )
    if not strange:
        return well(f"{len(seen)} {where}, all of workspaces that are known")
    return warning(
        f"{len(strange)} {where} with homes of no workspace that is known, left alone: "
        f"{_names(strange, len(strange))}",
        f"was the database restored from a backup? Remove them {how} when nobody needs them",
    )


def _title(volume: VolumeSeen) -> str:
    """Its workspace as people call it, where that is known, and what they remove it by."""
    named = volume.workspace_name
    return f"{named} ({volume.name})" if named else volume.name


def list_volumes(root: Path, hub_id: UUID) -> tuple[VolumeSeen, ...]:
    """Looks at homes alone: a whole listing would also write down which processes have ended."""
    from codehub.adapters.process.root import DataRoot
    from codehub.adapters.process.translate import looking
    from codehub.adapters.process.volumes import Volumes

    if not root.exists():
        return ()
    place = DataRoot(root, str(hub_id))
    with looking(root):
        place.check()
        return Volumes(place).seen()


async def _read(url: str, look: Callable[[Conn], Awaitable[Verdict]]) -> Verdict:
    """A look into the tables. That they cannot be read is another check's finding."""
    try:
        conn = await connect(url)
    except Unreachable as error:
        return warning(f"not looked at: {error.message}")
    async with conn:
        try:
            await require_schema(conn)
        except DatabaseProblem as error:
            return warning(f"not looked at: {error.message}")
        with translated():
            return await look(conn)


def _names(names: list[str], count: int) -> str:
    more = count - len(names[:NAMED])
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
