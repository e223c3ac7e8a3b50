"""A reminder before a TTL lowers a workspace: once for each idle time, told to those who listen."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from codehub.model.events import EventKind
from codehub.model.states import DesiredState
from codehub.model.workspace import NEVER, Ttl
from codehub.store.events import events
from tests.integration.stored import number
from tests.integration.ttl_world import asleep, awake, ttl_world

if TYPE_CHECKING:
    from codehub.model.events import Event
    from tests.integration.ttl_world import TtlWorld

pytestmark = pytest.mark.anyio

MINUTE = timedelta(minutes=1)


async def reminders(world: TtlWorld, name: str = "api") -> list[Event]:
    return [each for each in await events(world.conn, name) if each.kind is EventKind.EXPIRING]


async def test_five_minutes_before_it_falls_its_people_are_told_once(database_url: str) -> None:
    async with ttl_world(database_url, awake(ttl=Ttl(3600, busy_cpu=0, policy="hourly"))) as world:
        await world.tick()
        await world.watch(54 * MINUTE)
        assert await reminders(world) == []
        await world.watch(3 * MINUTE)
        (told,) = await reminders(world)
        assert (told.old, told.new, told.source, told.by) == ("RUNNING", "STANDBY", "ttl", "ttl")
        idle, limit, falls = told.reason.split(", ")
        assert re.fullmatch(r"idle 5\dm\d*s?", idle)
        assert limit == "ttl hourly.standby=1h"
        assert re.fullmatch(r"STANDBY in \dm\d*s?", falls)
        await world.watch(2 * MINUTE)
        assert len(await reminders(world)) == 1
        assert await world.desired() == "RUNNING"
        await world.watch(4 * MINUTE)
        assert len(await reminders(world)) == 1
        assert await world.desired() == "STANDBY"


async def test_another_idle_time_has_its_own_reminder(database_url: str) -> None:
    """Even if the activity was still under way when the first one went out."""
    async with ttl_world(database_url, awake(ttl=Ttl(1200, busy_cpu=0))) as world:
        await world.tick()
        await world.watch(17 * MINUTE)
        assert len(await reminders(world)) == 1
        await world.signals.record_activity({(number(1), "input"): timedelta(seconds=90)})
        await world.watch(12 * MINUTE)
        assert len(await reminders(world)) == 1
        await world.watch(6 * MINUTE)
        assert len(await reminders(world)) == 2
        assert await world.desired() == "RUNNING"


async def test_before_it_is_archived_too(database_url: str) -> None:
    async with ttl_world(database_url, asleep(desired=DesiredState.STANDBY)) as world:
        await world.tick()
        await world.watch(29 * MINUTE)
        (told,) = await reminders(world)
        assert (told.old, told.new) == ("STANDBY", "ARCHIVED")
        assert "ttl archive=30m (the hub's setting), ARCHIVED in " in told.reason


async def test_a_short_ttl_reminds_at_its_half(database_url: str) -> None:
    """Otherwise everybody who looks away for a moment would be told."""
    async with ttl_world(database_url, awake(ttl=Ttl(480, busy_cpu=0))) as world:
        await world.tick()
        await world.watch(3 * MINUTE)
        assert await reminders(world) == []
        await world.watch(2 * MINUTE)
        assert len(await reminders(world)) == 1
        await world.watch(MINUTE)
        assert len(await reminders(world)) == 1


async def test_those_that_stay_are_not_reminded(database_url: str) -> None:
    rows = (
        awake("pinned", 1, pinned=True),
        awake("never", 2, ttl=Ttl(NEVER, NEVER, busy_cpu=0)),
        awake("suspended", 3, suspend=True),
        awake("capped", 4, declared_state=DesiredState.STANDBY),
    )
    async with ttl_world(database_url, *rows) as world:
        await world.tick()
        await world.watch(10 * MINUTE)
        assert [await reminders(world, each.name) for each in rows] == [[], [], [], []]


async def test_no_reminder_where_none_is_wanted(database_url: str) -> None:
    async with ttl_world(database_url, awake(), ttl_reminder_seconds=0) as world:
        await world.tick()
        await world.watch(9 * MINUTE)
        assert await reminders(world) == []


async def test_those_who_listen_are_told_whose_it_is(database_url: str) -> None:
    async with ttl_world(database_url, awake(), awake("other", 2, pinned=True)) as world:
        await world.tick()
        await world.watch(4 * MINUTE)
        owner = str((await world.row())["owner_user_id"])
        with psycopg.connect(database_url, autocommit=True) as listener:
            listener.execute("LISTEN ws_expiring")
            await world.watch(2 * MINUTE)
            await world.conn.execute("SELECT pg_notify('ws_expiring', 'end')")
            heard = []
            for notice in listener.notifies(timeout=60):
                if notice.payload == "end":
                    break
                heard.append(json.loads(notice.payload))
        assert heard == [{"id": str(number(1)), "user_id": owner}]
