"""The check-up of `codehub doctor`: which checks there are, and running them side by side.

Each check stands alone: one that fails, hangs or breaks hides no other. Only where a check's answer
lies in that of another, as the space of an engine that does not answer, it stays silent. Nothing is
changed but a probe in the archive store and one in Redis, and both are removed again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from codehub.errors import CodeHubError
from codehub.model.checkup import Finding, problem, warning
from codehub.service import (
    check_database,
    check_docker,
    check_machine,
    check_redis,
    check_settings,
    check_webhooks,
)
from codehub.service.check_archives import Bucket, open_archives
from codehub.service.check_identity import read_known
from codehub.service.threads import in_thread
from codehub.store.session import forget

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
    from pathlib import Path

    from codehub.model.checkup import Verdict
    from codehub.service.check_archives import Directory
    from codehub.service.check_identity import Known

    Look = Callable[[], Awaitable[Verdict | None]]
    AskKnown = Callable[[], Awaitable[Known | None]]

Answer = TypeVar("Answer")

SECONDS: Final = 20.0
LONGER: Final = 40.0
"""For checks that ask the database first, and then something else several things."""


@dataclass(frozen=True, slots=True)
class Place:
    """What is checked: a hub and this machine.

    `url` is the database's address, None where there is no hub yet or where `trouble` keeps its
    embedded server from starting. `root` is where the process runtime keeps its workspaces, None
    where that runtime is not enabled. `docker` says that the Docker runtime is enabled, and
    `docker_asked_for` that it is more than a possibility of this machine. `archives_are_new` says
    that there is no hub which could have used the default archive store. `secrets` is where the
    hub's secrets are as this machine's settings have it. `sources` says where each setting comes
    from that is not a default.
    """

    data: Path
    embedded: bool
    archive_url: str
    url: str | None = None
    trouble: CodeHubError | None = None
    redis_url: str | None = None
    archives_are_new: bool = False
    root: Path | None = None
    docker: bool = False
    docker_asked_for: bool = False
    docker_host: str | None = None
    secrets: Path | None = None
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
    known = shared(partial(read_known, place.url))
    archives = open_archives(place.archive_url, known, are_new=place.archives_are_new)
    try:
        return await run_checks(
            [
                *_machine(place),
                *_docker(place, known),
                *_database(place),
                *_redis(place),
                *_archives(archives),
            ]
        )
    finally:
        archives.close()


async def run_checks(checks: Sequence[Check]) -> tuple[Finding, ...]:
    """Run them at once; whatever becomes of one, it gives its finding if it has one.

    Interrupted, all of them are waited for: one may have something to take back.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_run(check)) for check in checks]
    return tuple(found for task in tasks if (found := task.result()) is not None)


def shared(ask: Callable[[], Coroutine[Any, Any, Answer]]) -> Callable[[], Awaitable[Answer]]:
    """Asks once, for all who want to know; one who gives up takes nothing from the others."""
    asked: list[asyncio.Task[Answer]] = []

    async def answer() -> Answer:
        if not asked:
            asked.append(asyncio.create_task(ask()))
            forget(asked[0])
        return await asyncio.shield(asked[0])

    return answer


async def _run(check: Check) -> Finding | None:
    verdict: Verdict | None
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
    return Finding(check.name, verdict) if verdict else None


def _machine(place: Place) -> list[Check]:
    programs = check_machine.look_for_programs
    checks = [
        Check("settings", partial(check_settings.look, place.sources, place.settings_trouble)),
        _threaded("data directory", partial(check_machine.look_at_data, place.data)),
        _threaded("forgotten data", check_machine.look_for_forgotten),
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
        Check("webhooks", partial(check_webhooks.look_at_webhooks, url, place.secrets)),
    ]
    if place.root is not None:
        found.append(Check("volumes", partial(checks.look_at_volumes, url, place.root)))
    return found


def _docker(place: Place, known: AskKnown) -> list[Check]:
    if not place.docker:
        return []
    checks = check_docker
    ask = shared(partial(checks.survey, place.docker_host, known))
    engine = partial(checks.look_at_engine, ask, known, asked_for=place.docker_asked_for)
    found = [
        Check("Docker engine", engine, LONGER),
        Check("Docker space", partial(checks.look_at_space, ask), LONGER),
        Check("Docker mark", partial(checks.look_at_mark, ask, known), LONGER),
        Check("Docker homes", partial(checks.look_at_homes, ask), LONGER),
    ]
    if place.url is not None:
        volumes = partial(check_database.look_at_docker_volumes, place.url, ask, known)
        found.append(Check("Docker volumes", volumes, LONGER))
    return found


def _redis(place: Place) -> list[Check]:
    look = check_redis.look_at_redis
    redis = partial(look, place.redis_url, place.data, embedded=place.embedded)
    return [Check("Redis", redis)]


def _archives(archives: Bucket | Directory) -> list[Check]:
    checks = [Check("archive store", archives.look_at_store, LONGER)]
    if isinstance(archives, Bucket):
        checks.append(Check("archive clock", archives.look_at_clock))
    else:
        checks.append(Check("archive space", archives.look_at_space))
    return [*checks, Check("archive mark", archives.look_at_mark, LONGER)]


def _own_redis(place: Place) -> bool:
    return place.embedded and place.redis_url is None


async def _no_database(place: Place) -> Verdict:
    if place.trouble is not None:
        return problem(place.trouble.message, place.trouble.hint or "")
    return warning(
        f"there is no hub yet (no --hub, no DATABASE_URL, nothing in {place.data})",
        "'codehub up' or 'codehub apply' makes one; name yours with --hub or DATABASE_URL",
    )


def _threaded(name: str, work: Callable[[], Verdict | None]) -> Check:
    return Check(name, partial(in_thread, work))
