"""The check-up of `codehub doctor`: which checks there are, and running them side by side.

Each check stands alone: one that fails, hangs or breaks hides no other. Nothing is changed but a
probe in the archive store and one in Redis, and both are removed again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from codehub.errors import CodeHubError
from codehub.model.checkup import Finding, problem, warning
from codehub.service import check_database, check_machine, check_services, check_settings
from codehub.service.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from codehub.model.checkup import Verdict

    Look = Callable[[], Awaitable[Verdict]]

SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Place:
    """What is checked: a hub and this machine.

    `url` is the database's address, None where there is no hub yet or where `trouble` keeps its
    embedded server from starting. `root` is where the process runtime keeps its workspaces, None
    where that runtime is not enabled. `archives_are_new` says that nobody has used the default
    archive store so far. `sources` says where each setting comes from that is not a default.
    """

    data: Path
    embedded: bool
    url: str | None = None
    trouble: CodeHubError | None = None
    redis_url: str | None = None
    archive_url: str | None = None
    archives_are_new: bool = False
    root: Path | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    settings_trouble: CodeHubError | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One thing to look at, within a time limit."""

    name: str
    look: Look
    seconds: float = SECONDS


async def examine(place: Place) -> tuple[Finding, ...]:
    """All findings, in the order in which a person should read them."""
    return await run_checks([*_machine(place), *_database(place), *_services(place)])


async def run_checks(checks: Sequence[Check]) -> tuple[Finding, ...]:
    """Run them at once; every check gives its finding, whatever becomes of it."""
    return tuple(await asyncio.gather(*(_run(check) for check in checks)))


async def _run(check: Check) -> Finding:
    try:
        async with asyncio.timeout(check.seconds):
            verdict = await check.look()
    except TimeoutError:
        verdict = problem(
            f"no answer within {check.seconds:g} seconds",
            "see whether what it asks is overloaded or cut off",
        )
    except CodeHubError as error:
        verdict = problem(error.message, error.hint or "")
    except Exception as error:
        verdict = problem(f"the check itself failed: {type(error).__name__}: {error}")
    return Finding(check.name, verdict)


def _machine(place: Place) -> list[Check]:
    programs = check_machine.look_for_programs
    checks = [
        Check("settings", partial(check_settings.look, place.sources, place.settings_trouble)),
        _threaded("data directory", partial(check_machine.look_at_data, place.data)),
        _threaded("PostgreSQL program", partial(programs, "PostgreSQL", needed=place.embedded)),
        _threaded("Redis program", partial(programs, "Redis", needed=_own_redis(place))),
        _threaded("tar", check_machine.look_for_tar),
        _threaded("zstd", check_machine.look_for_zstd),
    ]
    if place.root is not None:
        checks.append(_threaded("process runtime", check_machine.look_at_processes))
    return checks


def _database(place: Place) -> list[Check]:
    if place.url is None:
        return [Check("hub", partial(_no_database, place))]
    url, checks = place.url, check_database
    found = [
        Check("database", partial(checks.look_at_server, url)),
        Check("schema", partial(checks.look_at_schema, url)),
        Check("session", partial(checks.look_at_session, url)),
        Check("clock", partial(checks.look_at_clock, url)),
        Check("coordinator", partial(checks.look_for_leader, url, embedded=place.embedded)),
        Check("specs", partial(checks.look_at_specs, url)),
        Check("workspaces", partial(checks.look_at_workspaces, url)),
    ]
    if place.root is not None:
        found.append(Check("volumes", partial(checks.look_at_volumes, url, place.root)))
    return found


def _services(place: Place) -> list[Check]:
    archive = partial(
        check_services.look_at_archive_store,
        place.url,
        place.archive_url,
        are_new=place.archives_are_new,
    )
    redis = partial(
        check_services.look_at_redis, place.redis_url, place.data, embedded=place.embedded
    )
    return [Check("Redis", redis), Check("archive store", archive)]


def _own_redis(place: Place) -> bool:
    return place.embedded and place.redis_url is None


async def _no_database(place: Place) -> Verdict:
    if place.trouble is not None:
        return problem(place.trouble.message, place.trouble.hint or "")
    return warning(
        f"there is no hub yet (no --hub, no DATABASE_URL, nothing in {place.data})",
        "'codehub up' or 'codehub apply' makes one; name yours with --hub or DATABASE_URL",
    )


def _threaded(name: str, work: Callable[[], Verdict]) -> Check:
    return Check(name, partial(in_thread, work))
