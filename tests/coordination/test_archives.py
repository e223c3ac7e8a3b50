"""Which archives are there: known by a listing, asked for by name, never called absent in doubt."""

from __future__ import annotations

import json
import threading
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from codehub.adapters.localstore import LocalStore
from codehub.coordinator import archives as module
from codehub.coordinator import shelf as shelving
from codehub.coordinator.archives import AGAIN, CLOSER_LOOKS, Archives
from codehub.coordinator.marker import create_marker
from codehub.coordinator.shelf import Shelf
from codehub.core.keys import marker_key, meta_key
from codehub.errors import Unreachable
from codehub.model.conditions import Presence
from codehub.model.states import DesiredState, Operation, Phase
from codehub.model.workspace import Status
from tests.contract.runtime_world import eventually
from tests.contract.store_contract import put
from tests.coordination.fast_runtime import FastRuntime
from tests.coordination.hub import HubWorld, hub_world
from tests.make import declaration, workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from codehub.model.runtime import ObjectInfo
    from codehub.model.workspace import Workspace

pytestmark = pytest.mark.anyio

HUB = UUID(int=9)
HOUR = 3600.0


class WatchedStore(LocalStore):
    """Counts what it is asked; can be made to hang, or to stumble over its own feet."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.listings = 0
        self.heads: list[str] = []
        self.hangs_listing = False
        self.hangs_heads = False
        self.stumbles_at: str | None = None
        self.released = threading.Event()

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        if not prefix.endswith("epochs/"):
            self.listings += 1
            self._hang(self.hangs_listing)
            self._stumble("listing")
        return super().list(prefix)

    def head(self, key: str) -> ObjectInfo | None:
        self.heads.append(key)
        self._hang(self.hangs_heads)
        self._stumble(key)
        return super().head(key)

    def _stumble(self, at: str) -> None:
        if at == self.stumbles_at:
            raise KeyError("ContentLength")

    def _hang(self, hangs: bool) -> None:
        if hangs:
            assert self.released.wait(60), "the test never let it go"


class Hub:
    """A store with this hub's mark, and what its leader knows of it; the clock is the test's."""

    def __init__(self, path: Path) -> None:
        self.root = path / "store"
        self.store = WatchedStore(self.root)
        self.store.claim()
        self.shelf = Shelf(self.store, HUB)
        self.now = 1000.0
        self.told = 0
        self.archives = Archives(
            self.shelf, interval=HOUR, clock=lambda: self.now, on_listed=self._listed
        )

    def _listed(self) -> None:
        self.told += 1

    def add(self, number: int = 1, *, meta: bool = True, size: int = 10) -> Workspace:
        """A workspace whose recorded archive of 10 bytes lies in the store, or does not quite."""
        key = f"{HUB}/{UUID(int=number)}/{uuid4()}/1/home.tar.zst"
        put(self.store, key, b"x" * size)
        if meta:
            put(self.store, meta_key(key), b"meta")
        return archived(key, number)

    async def look(self, *workspaces: Workspace) -> list[Presence | None]:
        found = await self.archives.look(workspaces)
        return [found.get(each.id) for each in workspaces]

    async def listed_again(self, version: int) -> None:
        """Until a listing beside the passes has ended."""

        async def listed() -> bool:
            return self.archives.version != version

        await eventually(listed, "a listing ends")


def archived(key: str | None, number: int = 1, **status: Any) -> Workspace:
    fields = {"archive_key": key, "archive_bytes": 10, **status}
    return workspace(f"w{number}", number=number, status=Status(Phase.ARCHIVED, **fields))


def in_flight(each: Workspace, operation: Operation = Operation.RESTORING) -> Workspace:
    return replace(each, status=replace(each.status, operation=operation))


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    made = Hub(tmp_path)
    await create_marker(made.store, HUB)
    try:
        yield made
    finally:
        made.store.released.set()
        await made.archives.close()
        made.shelf.close()


# The listing


async def test_one_listing_answers_for_all(hub: Hub) -> None:
    rows = [hub.add(number) for number in range(1, 30)]
    assert await hub.look(*rows) == [Presence.PRESENT] * 29
    assert await hub.look(*rows) == [Presence.PRESENT] * 29
    assert (hub.store.listings, hub.store.heads) == (1, [])
    assert hub.told == 1


async def test_a_hub_without_archives_asks_nothing(hub: Hub) -> None:
    assert await hub.look(archived(None)) == [None]
    assert hub.store.listings == 0


async def test_the_listing_is_renewed_after_its_interval_and_beside_the_passes(hub: Hub) -> None:
    row = hub.add()
    await hub.look(row)
    hub.now += HOUR - 1
    await hub.look(row)
    assert hub.store.listings == 1
    hub.now += 1
    version = hub.archives.version
    hub.store.hangs_listing = True
    assert await hub.look(row) == [Presence.PRESENT], "by the one before; nobody waits for it"
    hub.store.released.set()
    await hub.listed_again(version)
    assert (hub.store.listings, hub.told) == (2, 2)


async def test_what_went_since_is_noticed_by_the_next_listing(hub: Hub) -> None:
    row = hub.add()
    await hub.look(row)
    assert row.status.archive_key is not None
    hub.store.delete(row.status.archive_key)
    assert await hub.look(row) == [Presence.PRESENT]
    hub.now += HOUR
    version = hub.archives.version
    await hub.look(row)
    await hub.listed_again(version)
    assert await hub.look(row) == [Presence.ABSENT]


# A closer look


async def test_what_the_listing_lacks_is_asked_for_by_name(hub: Hub) -> None:
    await hub.look(hub.add(1))
    later = hub.add(2)
    assert await hub.look(later) == [Presence.PRESENT]
    key = later.status.archive_key
    assert key is not None
    assert hub.store.heads == [key, meta_key(key)]
    assert await hub.look(later) == [Presence.PRESENT]
    assert len(hub.store.heads) == 2, "and remembered"


@pytest.mark.parametrize(
    "operation",
    [
        Operation.ARCHIVING,
        Operation.RESTORING,
        Operation.CREATE_EMPTY_ARCHIVE,
        Operation.DELETING,
    ],
)
async def test_where_data_moves_a_listing_is_not_enough(hub: Hub, operation: Operation) -> None:
    row = hub.add()
    await hub.look(row)
    assert row.status.archive_key is not None
    hub.store.delete(row.status.archive_key)
    assert await hub.look(in_flight(row, operation)) == [Presence.ABSENT]
    assert await hub.look(row) == [Presence.ABSENT], "and it is known from then on"


async def test_one_that_starts_needs_no_closer_look(hub: Hub) -> None:
    row = hub.add()
    await hub.look(in_flight(row, Operation.STARTING))
    assert hub.store.heads == []


@pytest.mark.parametrize("size", [9, 10])
async def test_an_archive_without_its_marker_does_not_exist(hub: Hub, size: int) -> None:
    assert await hub.look(hub.add(meta=False, size=size)) == [Presence.ABSENT]


@pytest.mark.parametrize("size", [0, 9, 11])
async def test_an_archive_of_another_size_is_damaged_and_not_gone(hub: Hub, size: int) -> None:
    row = hub.add(size=size)
    for _ in range(2):
        assert await hub.look(row) == [Presence.DAMAGED]
        assert hub.archives.doubts == {row.id: f"{size} bytes are there, 10 were stored"}
    assert await hub.look(in_flight(row)) == [Presence.DAMAGED]


async def test_in_a_store_that_is_not_ours_nothing_is_damaged(hub: Hub) -> None:
    row = hub.add(size=9)
    await hub.look(row)
    hub.store.delete(marker_key(HUB))
    assert await hub.look(row) == [Presence.UNKNOWN]


async def test_where_no_size_was_recorded_any_will_do(hub: Hub) -> None:
    row = hub.add(size=11)
    row = replace(row, status=replace(row.status, archive_bytes=None))
    assert await hub.look(row) == [Presence.PRESENT]


async def test_closer_looks_are_bounded_and_the_others_wait(hub: Hub) -> None:
    await hub.look(hub.add(1))
    rows = [hub.add(number) for number in range(2, CLOSER_LOOKS + 12)]
    first = await hub.look(*rows)
    assert first == [Presence.PRESENT] * CLOSER_LOOKS + [None] * 10
    assert await hub.look(*rows) == [Presence.PRESENT] * (CLOSER_LOOKS + 10)


async def test_many_that_are_lost_do_not_keep_away_one_that_moves(hub: Hub) -> None:
    await hub.look(hub.add(1))
    lost = [archived(f"{HUB}/{UUID(int=number)}/gone", number) for number in range(2, 100)]
    moving = in_flight(hub.add(1000))
    for _ in range(2):
        assert (await hub.look(*lost, moving))[-1] is Presence.PRESENT


async def test_a_fault_in_looking_for_one_is_not_everybodys(hub: Hub) -> None:
    fine, strange = hub.add(1), hub.add(2)
    await hub.look(fine, strange)
    hub.store.stumbles_at = strange.status.archive_key
    assert await hub.look(in_flight(fine), in_flight(strange)) == [
        Presence.PRESENT,
        Presence.UNKNOWN,
    ]
    assert hub.archives.doubts[strange.id].endswith("unexpected KeyError")


async def test_a_fault_in_listing_is_tried_again_soon(hub: Hub) -> None:
    row = hub.add()
    hub.store.stumbles_at = "listing"
    assert await hub.look(row) == [Presence.UNKNOWN]
    hub.store.stumbles_at = None
    hub.now += AGAIN
    version = hub.archives.version
    await hub.look(row)
    await hub.listed_again(version)
    assert await hub.look(row) == [Presence.PRESENT]


# A store that cannot be trusted


@pytest.mark.parametrize("fault", ["no mark", "another hub's mark", "garbage", "away"])
async def test_a_store_that_is_not_surely_ours_says_nothing(hub: Hub, fault: str) -> None:
    row = hub.add()
    gone = archived(f"{HUB}/{UUID(int=2)}/{uuid4()}/1/home.tar.zst", 2)
    spoil(hub, fault)
    assert await hub.look(row, gone) == [Presence.UNKNOWN, Presence.UNKNOWN]
    assert hub.told == 0
    assert set(hub.archives.doubts) == {row.id, gone.id}, "and it is known why"
    assert "store" in hub.archives.doubts[row.id]


@pytest.mark.parametrize("fault", ["no mark", "another hub's mark", "garbage", "away"])
async def test_a_store_that_was_swapped_calls_nothing_absent(hub: Hub, fault: str) -> None:
    """It was listed while it was ours."""
    row, gone = hub.add(1), hub.add(2)
    await hub.look(row, gone)
    assert gone.status.archive_key is not None
    hub.store.delete(gone.status.archive_key)
    spoil(hub, fault)
    assert await hub.look(row, in_flight(gone)) == [Presence.PRESENT, Presence.UNKNOWN]
    assert set(hub.archives.doubts) == {gone.id}


def spoil(hub: Hub, fault: str) -> None:
    path = hub.root / marker_key(HUB)
    match fault:
        case "no mark":
            path.unlink()
        case "another hub's mark":
            path.write_text(json.dumps({"hub": str(UUID(int=8))}))
        case "garbage":
            path.write_bytes(b"\xff{")
        case "away":
            hub.root.rename(hub.root.with_name("elsewhere"))


async def test_a_listing_that_failed_is_tried_again_soon(hub: Hub) -> None:
    row = hub.add()
    hub.root.rename(hub.root.with_name("elsewhere"))
    assert await hub.look(row) == [Presence.UNKNOWN]
    hub.root.with_name("elsewhere").rename(hub.root)
    assert await hub.look(row) == [Presence.UNKNOWN], "not at once"
    hub.now += AGAIN
    version = hub.archives.version
    await hub.look(row)
    await hub.listed_again(version)
    assert await hub.look(row) == [Presence.PRESENT]


# A store that hangs


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_LISTING", 0.05)
    monkeypatch.setattr(module, "CLOSER_SECONDS", 0.05)
    monkeypatch.setattr(module, "BRIEFLY", 0.02)


@pytest.mark.usefixtures("hasty")
async def test_a_listing_that_hangs_leaves_open_what_is_there(hub: Hub) -> None:
    row = hub.add()
    hub.store.hangs_listing = True
    assert await hub.look(row) == [None]
    version = hub.archives.version
    hub.store.released.set()
    await hub.listed_again(version)
    assert hub.told == 1, "the controller looks again at once"
    assert await hub.look(row) == [Presence.PRESENT]
    assert hub.store.listings == 1


@pytest.mark.usefixtures("hasty")
async def test_a_closer_look_that_hangs_is_unknown(hub: Hub) -> None:
    row = hub.add()
    await hub.look(row)
    hub.store.hangs_heads = True
    assert await hub.look(in_flight(row)) == [Presence.UNKNOWN]
    assert hub.archives.doubts == {row.id: "the archive store does not answer"}
    hub.store.released.set()

    async def answers() -> bool:
        return await hub.look(in_flight(row)) == [Presence.PRESENT]

    await eventually(answers, "the store answers")
    assert hub.archives.doubts == {}


@pytest.mark.usefixtures("hasty")
async def test_a_store_that_hangs_is_waited_for_once_and_not_in_every_pass(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = hub.add()
    await hub.look(row)
    hub.store.hangs_heads = True
    await hub.look(in_flight(row))
    monkeypatch.setattr(module, "CLOSER_SECONDS", HOUR)
    for _ in range(3):
        assert await hub.look(in_flight(row)) == [Presence.UNKNOWN]


async def test_a_call_that_takes_too_long_is_given_up(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelving, "PATIENCE", 0.05)
    hub.store.hangs_heads = True
    with pytest.raises(Unreachable, match="the archive store did not answer within"):
        await hub.shelf.heads("any/key")


@asynccontextmanager
async def watched_world(url: str, path: Path) -> AsyncIterator[HubWorld]:
    async with hub_world(url, path) as world:
        store = WatchedStore(path / "archives")
        try:
            yield replace(world, store=store)
        finally:
            store.released.set()


@pytest.mark.usefixtures("hasty")
async def test_while_the_store_hangs_all_others_go_on(database_url: str, tmp_path: Path) -> None:
    async with watched_world(database_url, tmp_path) as world:
        assert isinstance(world.runtime, FastRuntime)
        assert isinstance(world.store, WatchedStore)
        async with world.term() as term:
            await term.settle()
            await world.want("api", DesiredState.ARCHIVED)
            await term.settle()
        await world.declare(declaration("api"), declaration("other"))
        await world.want("api", DesiredState.RUNNING)
        world.store.hangs_listing = world.store.hangs_heads = True
        async with world.term() as term:

            async def runs(name: str) -> bool:
                await term.controller.tick()
                return (await world.look(name)).status.phase is Phase.RUNNING

            await eventually(lambda: runs("other"), "the other one runs")
            assert (await world.look("api")).status.phase is Phase.ARCHIVED
            world.store.hangs_listing = world.store.hangs_heads = False
            world.store.released.set()
            await eventually(lambda: runs("api"), "it runs again")
        assert term.failures.counts == {}
