"""What goes wrong with homes: gone, out of sight, in use, or in the way of a deletion."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from codehub.adapters.process import ProcessRuntime
from codehub.adapters.process.root import MARKER
from codehub.config import Settings
from codehub.coordinator.shelf import Shelf
from codehub.core.advise import advise
from codehub.core.keys import marker_key
from codehub.errors import Refused, Unreachable
from codehub.model.conditions import ConditionName, ConditionStatus
from codehub.model.runtime import ContainerSeen, Listing, VolumeRef
from codehub.model.states import (
    DesiredState,
    ErrorReason,
    IntentSource,
    Operation,
    Phase,
    RecoverMode,
)
from codehub.model.workspace import HomeContext, Runtime
from codehub.service.intent import request_discard, request_recover
from codehub.store.workspaces import read_workspaces
from codehub.wiring import WORKSPACES, HubChoice, RuntimeOpener
from tests.coordination.fast_runtime import FastRuntime
from tests.coordination.held import HeldMover
from tests.coordination.hub import HubWorld, hub_world
from tests.coordination.machine import Machine, declared, machine, swapped, volume

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from codehub.model.workspace import Workspace
    from tests.coordination.hub import Term


pytestmark = pytest.mark.anyio

ARCHIVED, STANDBY, RUNNING = DesiredState.ARCHIVED, DesiredState.STANDBY, DesiredState.RUNNING


@pytest.fixture
async def hub(database_url: str, tmp_path: Path) -> AsyncIterator[Machine]:
    async with machine(database_url, tmp_path) as made:
        yield made


# A home whose name is taken


async def test_what_has_the_name_of_a_home_stays_and_a_person_is_told_what_to_do(
    hub: Machine,
) -> None:
    await hub.world.declare(declared())
    foreign = hub.data / "volumes" / volume(await hub.look(), 1)
    foreign.mkdir()
    async with hub.world.term() as term:
        await term.settle()
        api = await hub.look()
        assert (api.status.phase, api.status.error_reason) == (
            Phase.ERROR,
            ErrorReason.RETRY_EXCEEDED,
        )
        assert (api.status.error_message or "").endswith(
            "is not this hub's volume, so it was not touched: move it away"
        )
        foreign.rename(hub.path / "elsewhere")
        assert (await hub.recovered(term)).status.phase is Phase.RUNNING


# A home that is gone


async def test_a_home_that_was_removed_by_hand_is_never_replaced_silently(hub: Machine) -> None:
    async with hub.world.term() as term:
        api = await hub.housed(term)
        shutil.rmtree(hub.home(api))
        await hub.world.want("api", RUNNING)
        await term.settle()
        lost = await hub.look()
        assert (lost.status.phase, lost.status.error_reason) == (
            Phase.ERROR,
            ErrorReason.DATA_LOST,
        )
        assert lost.status.error_message == f"the volume {volume(api, 1)} is gone"
        assert advise(lost) == (
            "look for the missing volume first; then choose 'codehub recover api --accept-empty'"
        )
        assert hub.homes() == []
        with pytest.raises(Refused, match="a plain recovery cannot bring it back"):
            await hub.recover()
        with pytest.raises(Refused, match="has no archive to recover from"):
            await hub.recover(RecoverMode.FROM_ARCHIVE)
        empty = await hub.recovered(term, RecoverMode.ACCEPT_EMPTY)
        assert empty.status.phase is Phase.RUNNING
        assert empty.status.home_store_key == volume(api, 2)
        assert list(hub.home(empty).iterdir()) == []


async def test_a_lost_home_comes_back_from_the_archive_when_a_person_says_so(
    hub: Machine,
) -> None:
    async with hub.world.term() as term:
        await hub.packed(term, b"as it was")
        api = await hub.wanted(term, STANDBY)
        (hub.home(api) / "notes.txt").write_text("newer than the archive")
        shutil.rmtree(hub.home(api))
        await term.settle()
        lost = await hub.look()
        assert lost.status.error_reason is ErrorReason.DATA_LOST
        assert advise(lost) == (
            "look for the missing volume first; then choose 'codehub recover api "
            "--from-archive' or 'codehub recover api --accept-empty'"
        )
        back = await hub.recovered(term, RecoverMode.FROM_ARCHIVE)
        assert back.status.phase is Phase.STANDBY
        assert hub.notes(back) == b"as it was"


async def test_a_home_that_was_found_again_is_taken_whatever_was_asked_for(hub: Machine) -> None:
    async with hub.world.term() as term:
        api = await hub.housed(term)
        hub.home(api).rename(hub.path / "hidden")
        await term.settle()
        lost = await hub.look()
        assert lost.status.error_reason is ErrorReason.DATA_LOST
        (hub.path / "hidden").rename(hub.home(lost))
        found = await hub.recovered(term, RecoverMode.ACCEPT_EMPTY)
        assert found.status.phase is Phase.STANDBY
        assert hub.notes(found) == b"mine"


async def test_a_home_that_was_found_again_needs_no_choice(hub: Machine) -> None:
    async with hub.world.term() as term:
        api = await hub.housed(term)
        hub.home(api).rename(hub.path / "hidden")
        await term.settle()
        lost = await hub.look()
        (hub.path / "hidden").rename(hub.home(lost))
        await term.settle()
        there = await hub.look()
        assert there.status.error_reason is ErrorReason.DATA_LOST, "a person has the last word"
        assert advise(there) == "its home is there again: 'codehub recover api' takes it"
        found = await hub.recovered(term)
        assert (found.status.phase, hub.notes(found)) == (Phase.STANDBY, b"mine")
        assert found.status.home_ctx == HomeContext()


# A home that comes back too late


async def told_of_homes(hub: Machine) -> list[tuple[str, str]]:
    query = (
        "SELECT old, new FROM workspace_events"
        " WHERE kind = 'recover' AND source = 'controller' ORDER BY id"
    )
    rows = await (await hub.world.conn.execute(query)).fetchall()
    return [(row["old"], row["new"]) for row in rows]


async def given_up(hub: Machine, term: Term, mode: RecoverMode) -> tuple[Workspace, Path]:
    """Its home was lost and given up; and where that home would be, were it there."""
    await hub.packed(term, b"as it was")
    api = await hub.wanted(term, STANDBY)
    (hub.home(api) / "notes.txt").write_text("newer than the archive")
    hub.home(api).rename(hub.path / "hidden")
    await term.settle()
    assert (await hub.look()).status.error_reason is ErrorReason.DATA_LOST
    return await hub.recovered(term, mode), hub.home(api)


@pytest.mark.parametrize("mode", [RecoverMode.ACCEPT_EMPTY, RecoverMode.FROM_ARCHIVE])
async def test_a_home_that_comes_back_after_it_was_given_up_is_kept_and_not_used(
    hub: Machine, mode: RecoverMode
) -> None:
    async with hub.world.term() as term:
        api, old = await given_up(hub, term, mode)
        assert api.status.phase is Phase.STANDBY
        (hub.path / "hidden").rename(old)
        await term.settle()
        assert (old / "notes.txt").read_text() == "newer than the archive"
        there = await hub.look()
        assert there.status.home_ctx.found == (old.name,)
        assert await told_of_homes(hub) == [(old.name, "given up"), ("", old.name)]
        for state in (RUNNING, ARCHIVED, STANDBY):
            moved = await hub.wanted(term, state)
            assert moved.status.phase.value == state.value
            assert moved.status.home_store_key != old.name
        assert moved.status.home_ctx.found == (old.name,), "what else became of its homes"
        gone = await deleted(hub, term, moved)
        assert gone.status.phase is Phase.DELETED, "it is in the way of nothing"
        assert (old / "notes.txt").read_text() == "newer than the archive"
        old.rename(hub.path / "taken away")
        await term.settle()
        (after,) = [each for each in await read_workspaces(hub.world.conn) if each.id == api.id]
        assert after.status.home_ctx.found == ()
        assert after.status.home_ctx.given_up == (old.name,), "it may come back once more"


async def test_a_lost_home_that_was_discarded_is_kept_when_it_comes_back(hub: Machine) -> None:
    async with hub.world.term() as term:
        api = await hub.housed(term)
        hub.home(api).rename(hub.path / "hidden")
        await term.settle()
        await request_discard_of_api(hub)
        await term.settle()
        (gone,) = await read_workspaces(hub.world.conn)
        assert (gone.status.phase, gone.status.home_store_key) == (Phase.DELETED, None)
        (hub.path / "hidden").rename(hub.home(api))
        await term.settle()
        assert hub.notes(api) == b"mine"


async def request_discard_of_api(hub: Machine) -> None:
    """No spec declares it any more, and an admin gives its home up."""
    await hub.world.conn.execute("UPDATE workspaces SET orphaned = true")
    await request_discard(hub.world.conn, "api", by="root", source=IntentSource.CLI, admin=True)


async def test_what_still_runs_on_a_home_that_was_given_up_is_no_error(hub: Machine) -> None:
    """Whoever waits for the recovery would be told that it failed."""
    await hub.world.declare(declared())
    async with hub.world.term() as term:
        await term.settle()
        shutil.rmtree(hub.home(await hub.look()))
        await term.settle()
        await hub.recover(RecoverMode.ACCEPT_EMPTY)
        await term.controller.tick()
        api = await hub.look()
        assert (api.status.phase, api.intent.recover_requested) == (Phase.PENDING, None)
        assert api.status.conditions[ConditionName.HEALTHY].status is ConditionStatus.TRUE


async def test_a_home_that_goes_under_a_running_workspace(hub: Machine) -> None:
    await hub.world.declare(declared())
    async with hub.world.term() as term:
        await term.settle()
        api = await hub.look()
        shutil.rmtree(hub.home(api))
        await term.settle()
        lost = await hub.look()
        assert lost.status.error_reason is ErrorReason.DATA_LOST
        assert hub.pid(lost) is not None, "what still runs may hold the last of it"
        empty = await hub.recovered(term, RecoverMode.ACCEPT_EMPTY)
        await term.settle()
        assert empty.status.phase is Phase.RUNNING
        assert hub.homes() == [volume(api, 2)]


# The data root


@contextmanager
def root_away(hub: Machine, how: str) -> Iterator[None]:
    if how == "unmounted":
        with swapped(hub.data):
            hub.data.mkdir()
            yield
    else:
        with swapped(hub.data / "codehub-root.json"):
            (hub.data / "codehub-root.json").write_text('{"hub": "another"}')
            yield


@pytest.mark.parametrize(
    ("how", "why"),
    [("unmounted", "it carries no marker"), ("swapped", "belongs to another hub")],
)
async def test_a_data_root_that_is_away_loses_nobody(hub: Machine, how: str, why: str) -> None:
    await hub.world.declare(declared("api"), declared("other"))
    await hub.world.want("other", STANDBY)
    async with hub.world.term() as term:
        await term.settle()
        before = await hub.look()
        pid = hub.pid(before)
        with root_away(hub, how):
            await hub.world.want("other", ARCHIVED)
            for _ in range(4):
                await term.controller.tick()
                await term.acts.quiet()
            blind, asleep = await hub.look(), await hub.look("other")
            assert (blind.status.phase, blind.status.operation) == (Phase.RUNNING, Operation.NONE)
            assert (asleep.status.phase, asleep.status.operation) == (
                Phase.STANDBY,
                Operation.NONE,
            )
            assert (blind.status.error_reason, blind.status.error_count) == (None, 0)
            for name in (ConditionName.CONTAINER_READY, ConditionName.VOLUME_READY):
                condition = blind.status.conditions[name]
                assert condition.status is ConditionStatus.UNKNOWN
                assert why in condition.message
        await term.settle()
        after = await hub.look()
        assert (after.status.phase, hub.pid(after)) == (Phase.RUNNING, pid), "not restarted"
        assert (await hub.look("other")).status.phase is Phase.ARCHIVED
        assert term.failures.counts == {}


async def test_a_new_leader_on_an_unmounted_data_root_touches_nothing(hub: Machine) -> None:
    await hub.world.declare(declared())
    async with hub.world.term() as term:
        await term.settle()
        pid = hub.pid(await hub.look())
    with root_away(hub, "unmounted"):
        async with hub.world.term() as term:
            for _ in range(3):
                await term.controller.tick()
        assert list(hub.data.iterdir()) == []
    async with hub.world.term() as term:
        await term.settle()
    after = await hub.look()
    assert (after.status.phase, hub.pid(after)) == (Phase.RUNNING, pid)


@pytest.mark.parametrize("how", ["unmounted", "swapped"])
async def test_a_new_term_takes_a_root_that_is_away_for_what_it_is(
    hub: Machine, database_url: str, how: str, tmp_path: Path
) -> None:
    choice = HubChoice(tmp_path / "serving", database_url)
    opener = RuntimeOpener(choice, Settings(), frozenset({Runtime.PROCESS}), database_url)
    root = choice.data / WORKSPACES
    async with hub.world.term() as term:
        hub_id = term.lead.hub_id
        first = (await opener.open(hub_id, lambda *_: None))[Runtime.PROCESS]
        assert await first.list() == Listing()
        await hub.housed(term)
    with swapped(root if how == "unmounted" else root / MARKER):
        root.mkdir(exist_ok=True)
        if how == "swapped":
            (root / MARKER).write_text('{"hub": "another"}')
        before = sorted(root.iterdir())
        again = (await opener.open(hub_id, lambda *_: None))[Runtime.PROCESS]
        with pytest.raises(Unreachable):
            await again.list()
        assert sorted(root.iterdir()) == before
    assert await again.list() == Listing(), "there again"


async def test_a_root_can_be_said_to_be_empty_on_purpose(tmp_path: Path) -> None:
    runtime = ProcessRuntime(tmp_path / "root", "hub-a")
    (tmp_path / "root").mkdir()
    with pytest.raises(Unreachable) as caught:
        await runtime.claim(expects_data=True)
    said = (caught.value.hint or "").partition("say so: ")[2]
    await asyncio.to_thread(subprocess.run, ["sh", "-c", said], check=True)
    await runtime.claim(expects_data=True)
    assert await runtime.list() == Listing()


# Deletion


async def deleted(hub: Machine, term: Term, workspace: Workspace) -> Workspace:
    """The workspace after its spec was taken away."""
    await hub.world.declare(declared("other"))
    await term.settle()
    found = await read_workspaces(hub.world.conn)
    return next(each for each in found if each.id == workspace.id)


@pytest.mark.parametrize("comes_back", [True, False])
async def test_a_home_that_was_away_while_its_workspace_was_deleted(
    hub: Machine, comes_back: bool
) -> None:
    async with hub.world.term() as term:
        api = await hub.housed(term)
        hub.home(api).rename(hub.path / "hidden")
        await term.settle()
        gone = await deleted(hub, term, api)
        assert gone.status.phase is Phase.DELETED
        if comes_back:
            (hub.path / "hidden").rename(hub.home(api))
            await term.settle()
            assert hub.notes(api) == b"mine", "nobody gave it up"
        await hub.world.declare(declared(declared_state=STANDBY), declared("other"))
        await term.settle()
        back = await hub.look()
        assert back.id == api.id
        if comes_back:
            assert (back.status.phase, hub.notes(back)) == (Phase.STANDBY, b"mine")
        else:
            assert back.status.error_reason is ErrorReason.DATA_LOST, "no empty home instead"


async def test_a_broken_workspace_is_deleted_with_an_archive_of_its_home(hub: Machine) -> None:
    await hub.world.declare(declared(command=("nothing-like-that",)))
    async with hub.world.term() as term:
        await term.settle()
        api = await hub.look()
        (hub.home(api) / "notes.txt").write_text("mine")
        await hub.world.declare(declared("other"))
        await term.settle()
        gone = next(each for each in await read_workspaces(hub.world.conn) if each.id == api.id)
        assert gone.status.phase is Phase.DELETED
        assert hub.stored(gone).is_file()


async def failed_deletion(hub: Machine, term: Term) -> tuple[Workspace, Path]:
    """In ERROR, then removed from the specs, while the store does not take its archive."""
    await hub.world.declare(declared(command=("nothing-like-that",)))
    await term.settle()
    api = await hub.look()
    (hub.home(api) / "notes.txt").write_text("mine")
    obstacle = hub.archives / marker_key(term.lead.hub_id).rpartition("/")[0] / str(api.id)
    obstacle.write_text("something else lies here")
    await hub.world.declare(declared("other"))
    await term.settle()
    return await hub.look(), obstacle


async def test_a_home_that_cannot_be_archived_survives_its_deletion(hub: Machine) -> None:
    async with hub.world.term() as term:
        stuck, obstacle = await failed_deletion(hub, term)
        assert (stuck.status.phase, stuck.status.error_reason) == (
            Phase.ERROR,
            ErrorReason.RETRY_EXCEEDED,
        )
        assert hub.notes(stuck) == b"mine"
        assert advise(stuck) == (
            "its home could not be archived; 'codehub recover api' tries again, and an admin may "
            "give it up with 'codehub delete api --discard-data'"
        )
        await term.settle()
        assert await hub.look() == stuck, "it is left in peace"
        obstacle.unlink()
        await hub.recover()
        await term.settle()
        rows = {each.id: each for each in await read_workspaces(hub.world.conn)}
        assert rows[stuck.id].status.phase is Phase.DELETED
        assert hub.stored(rows[stuck.id]).is_file()


async def test_only_an_admin_gives_a_home_up(hub: Machine) -> None:
    async with hub.world.term() as term:
        stuck, _ = await failed_deletion(hub, term)
        with pytest.raises(Refused, match="only an admin"):
            await request_discard(
                hub.world.conn, "api", by="alice", source=IntentSource.CLI, admin=False
            )
        await request_discard(hub.world.conn, "api", by="root", source=IntentSource.CLI, admin=True)
        await term.settle()
        rows = {each.id: each for each in await read_workspaces(hub.world.conn)}
        gone = rows[stuck.id]
        assert (gone.status.phase, gone.status.archive_key) == (Phase.DELETED, None)
        assert gone.intent.recover_requested is None
        assert volume(stuck, 1) not in hub.homes()


# A home in use


class Workshop:
    """A hub with one workspace asleep, whose data moves can be held."""

    def __init__(self, made: HubWorld) -> None:
        self.mover = HeldMover(made.store)
        self.world: HubWorld = replace(made, mover=self.mover)
        assert isinstance(made.runtime, FastRuntime)
        self.runtime = made.runtime

    async def housed(self, term: Term) -> VolumeRef:
        await term.settle()
        await self.world.want("api", STANDBY)
        await term.settle()
        home = VolumeRef(await self.world.id_of(), 1)
        (self.runtime.path(home) / "early.txt").write_text("written before")
        return home

    async def archiving(self, term: Term) -> None:
        """A job has begun, and is held there."""
        self.mover.gate.shut()
        await self.world.want("api", ARCHIVED)
        while not self.mover.gate.inside:
            await term.controller.tick()
            await asyncio.sleep(0.005)

    async def comes_back(self, term: Term) -> set[str]:
        """What is in the home after it was archived and restored."""
        await self.world.want("api", ARCHIVED)
        await term.settle()
        assert (await self.world.look()).status.phase is Phase.ARCHIVED
        await self.world.want("api", STANDBY)
        await term.settle()
        name = (await self.world.look()).status.home_store_key
        assert name is not None
        return {path.name for path in (self.runtime.root / name).iterdir()}

    async def recover(self, term: Term) -> None:
        await request_recover(
            self.world.conn, "api", RecoverMode.PLAIN, by="alice", source=IntentSource.CLI
        )
        await term.settle()

    def committed(self) -> list[str]:
        return [each.key for each in self.world.store.list("") if each.key.endswith(".meta")]


@pytest.fixture
async def workshop(database_url: str, tmp_path: Path) -> AsyncIterator[Workshop]:
    async with hub_world(database_url, tmp_path) as made:
        yield Workshop(made)


async def test_a_home_that_is_used_while_it_is_archived_is_archived_again(
    workshop: Workshop,
) -> None:
    """A late start of a dead leader: what it writes would be missing in the archive."""
    world, runtime = workshop.world, workshop.runtime
    async with world.term() as term:
        home = await workshop.housed(term)
        await workshop.archiving(term)
        api = home.workspace_id
        runtime.containers[api] = ContainerSeen(api, running=True, volume=home.name)
        (runtime.path(home) / "late.txt").write_text("written meanwhile")
        workshop.mover.gate.open()
        await term.acts.quiet()
        await term.controller.tick()
        failed = await world.look()
        assert failed.status.error_message == (
            f"the volume {home.name} is in use by the container ws-{api}"
        )
        assert (failed.status.home_store_key, failed.status.archive_key) == (home.name, None)
        await term.settle()
        assert await workshop.comes_back(term) == {"early.txt", "late.txt"}


async def test_an_archive_that_could_not_be_taken_back_is_not_used_later(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is away in the very moment in which the archive turns out to be incomplete."""
    withdraw, away = Shelf.withdraw, [True]

    async def withdraw_later(shelf: Shelf, key: str) -> None:
        if away and away.pop():
            raise Unreachable("the store gives no answer")
        await withdraw(shelf, key)

    monkeypatch.setattr(Shelf, "withdraw", withdraw_later)
    async with workshop.world.term() as term:
        home = await workshop.housed(term)
        await workshop.archiving(term)
        api = home.workspace_id
        workshop.runtime.containers[api] = ContainerSeen(api, running=True, volume=home.name)
        workshop.mover.gate.open()
        await term.acts.quiet()
        assert not away
        (workshop.runtime.path(home) / "late.txt").write_text("written after the archive")
        await term.settle()
        assert await workshop.comes_back(term) == {"early.txt", "late.txt"}


@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_a_home_that_a_stranger_has_is_neither_archived_nor_retired(
    workshop: Workshop, when: str
) -> None:
    """A container that was renamed, or an admin's: what it writes later would be lost."""
    world, runtime = workshop.world, workshop.runtime
    async with world.term() as term:
        home = await workshop.housed(term)
        if when == "before":
            runtime.strangers[home.name] = "admins-own"
            await world.want("api", ARCHIVED)
        else:
            await workshop.archiving(term)
            runtime.strangers[home.name] = "admins-own"
            workshop.mover.gate.open()
        await term.settle()
        stuck = await world.look()
        assert (stuck.status.phase, stuck.status.error_reason) == (
            Phase.ERROR,
            ErrorReason.RETRY_EXCEEDED,
        )
        assert "in use by the container admins-own" in (stuck.status.error_message or "")
        assert (stuck.status.home_store_key, stuck.status.archive_key) == (home.name, None)
        assert workshop.mover.gate.passed == (when == "meanwhile"), "no job begins in vain"
        assert workshop.committed() == [], "an archive that may lack something is none"
        (runtime.path(home) / "late.txt").write_text("written by the stranger")
        del runtime.strangers[home.name]
        await workshop.recover(term)
        assert await workshop.comes_back(term) == {"early.txt", "late.txt"}
