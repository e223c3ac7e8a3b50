"""A hub on S3 loses its database, and comes back: homes bit for bit, and nothing lost on the way.

Leaders, storage jobs, commands, database and S3 server are the real ones; containers are entries in
a table, and outlive the database as they would on an engine.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from codehub.adapters.s3.address import parse_address
from codehub.adapters.s3.store import S3Store
from codehub.config import Settings
from codehub.coordinator.gc import GcRunner
from codehub.coordinator.pace import Failures
from codehub.errors import Refused
from codehub.model.runtime import VolumeRef
from codehub.model.states import DesiredState, ErrorReason, Phase
from codehub.service.collecting import CONFIRM, KIND
from codehub.specs.load import load_directory
from codehub.store.connect import connect
from codehub.store.hubs import read_hub_id
from codehub.store.requests import ask
from tests.contract.s3_server import s3_environment, s3_server  # noqa: F401
from tests.coordination.direct_mover import DirectMover
from tests.coordination.fast_runtime import FastRuntime
from tests.coordination.hub import HubWorld
from tests.integration.command_line import run_codehub
from tests.integration.homes import describe, fill_home
from tests.integration.lost_hub import LostHub
from tests.integration.stored import apply
from tests.make import declaration

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping
    from pathlib import Path
    from uuid import UUID

    from codehub.model.workspace import Workspace
    from tests.contract.s3_server import S3Server
    from tests.coordination.hub import Term
    from tests.integration.command_line import Ran

pytestmark = pytest.mark.anyio

LONG_AGO = 1_700_000_000


class Place:
    """What outlives a database: the machine and the bucket."""

    def __init__(self, path: Path, server: S3Server) -> None:
        (path / "volumes").mkdir()
        self.path = path
        self.runtime = FastRuntime(path / "volumes")
        bucket = server.make_bucket()
        self.root = server.root / bucket
        self.store = S3Store(parse_address(server.address(bucket)))
        self.settings = {
            "ARCHIVE_STORE_URL": f"s3://{bucket}",
            "S3_ENDPOINT_URL": server.url,
            "S3_ADDRESSING": "path",
            "RUNTIME_ENABLED": "process",
        }

    @property
    def specs(self) -> Path:
        return self.path / "recovered"

    @asynccontextmanager
    async def hub(self, url: str) -> AsyncIterator[HubWorld]:
        async with await connect(url) as conn:
            yield HubWorld(url, self.runtime, self.store, conn, DirectMover(self.store))

    def run(self, url: str, *words: str) -> Ran:
        return run_codehub(*words, cwd=self.path, env={**self.settings, "DATABASE_URL": url})

    def home(self, workspace: Workspace) -> Path:
        return self.runtime.path(VolumeRef(workspace.id, workspace.status.home_generation))

    def volumes(self) -> list[str]:
        return sorted(path.name for path in self.runtime.root.iterdir())

    def age(self) -> None:
        """Stores keep whole seconds, in which much happens here: what there is becomes older."""
        for each in list(self.store.list("")):
            os.utime(self.root / each.key, (LONG_AGO, LONG_AGO))
            self.store.head(each.key)  # a server looks at its disk again when it is asked

    def complete(self, name: str) -> None:
        """As a person does who knows how it was run."""
        spec = self.specs / "workspaces" / f"{name}.yaml"
        lines = spec.read_text().replace("fill-in-the-command", "serve").splitlines()
        kept = [line for line in lines if not line.startswith("  suspend:")]
        assert len(kept) == len(lines) - 1
        spec.write_text("\n".join(kept) + "\n")


@pytest.fixture
def place(
    tmp_path: Path,
    s3_server: S3Server,  # noqa: F811
    s3_environment: Mapping[str, str],  # noqa: F811
) -> Iterator[Place]:
    made = Place(tmp_path, s3_server)
    yield made
    made.store.close()


async def moved(hub: HubWorld, term: Term, name: str, state: DesiredState) -> Workspace:
    await hub.want(name, state)
    await term.settle()
    return await hub.look(name)


async def before_the_loss(hub: HubWorld, place: Place) -> tuple[UUID, dict[str, object]]:
    """`api` was archived twice and rests there; `web` was archived once, and somebody works in it.

    Gives the id of the hub and what the home of `api` holds.
    """
    await hub.declare(declaration("api"), declaration("web"))
    async with hub.term() as term:
        for name in ("api", "web"):
            standing = await moved(hub, term, name, DesiredState.STANDBY)
            (place.home(standing) / "first").write_text(name)
            await moved(hub, term, name, DesiredState.ARCHIVED)
        place.age()
        api = await moved(hub, term, "api", DesiredState.STANDBY)
        fill_home(place.home(api))
        held: dict[str, object] = dict(describe(place.home(api)))
        await moved(hub, term, "api", DesiredState.ARCHIVED)
        web = await moved(hub, term, "web", DesiredState.RUNNING)
        (place.home(web) / "unsaved").write_text("since the archive")
        assert place.volumes() == [f"ws-{web.id}-home-g2"]
    hub_id = await read_hub_id(hub.conn)
    assert hub_id is not None
    return hub_id, held


async def collect(term: Term) -> None:
    """With no patience at all."""
    settings = Settings(gc_orphan_seconds=0, retention_seconds=0)
    await GcRunner(term.lead, term.store, settings, Failures()).tick()


async def test_a_hub_comes_back_after_its_database_was_lost(
    place: Place, make_database_url: Callable[[], str]
) -> None:
    async with place.hub(make_database_url()) as hub:
        hub_id, held = await before_the_loss(hub, place)
    lost = LostHub(place.store, hub_id)
    archives = [key for key in lost.objects() if key.endswith(".meta")]
    assert len(archives) == 3
    url = make_database_url()

    ran = place.run(url, "import", "--from-bucket", "recovered")
    assert ran.code == 0, ran
    assert "2 workspaces imported, 3 specs written below recovered" in ran.out
    planned = place.run(url, "plan", "recovered")
    assert "0 to delete" in planned.out, planned
    applied = place.run(url, "apply", "recovered", "--yes")
    assert applied.code == 0, applied

    async with place.hub(url) as hub:
        assert await read_hub_id(hub.conn) == hub_id
        async with hub.term() as term:
            await nothing_is_touched(hub, term, place, lost)
            await the_home_is_the_same(hub, term, place, held)
            await what_is_newer_is_kept(hub, term, place)
            await old_archives_wait_for_a_person(hub, term, lost)


async def nothing_is_touched(hub: HubWorld, term: Term, place: Place, lost: LostHub) -> None:
    """Neither what runs, nor volumes, nor archives: everything is where it should be."""
    before, running = lost.objects(), dict(place.runtime.containers)
    await term.settle()
    for name in ("api", "web"):
        row = await hub.look(name)
        assert (row.status.phase, row.status.error_reason) == (Phase.ARCHIVED, None)
    with pytest.raises(Refused, match="restored from a backup"):
        await collect(term)
    assert lost.objects() == before
    assert place.runtime.containers == running
    assert len(place.volumes()) == 1


async def the_home_is_the_same(
    hub: HubWorld, term: Term, place: Place, held: dict[str, object]
) -> None:
    """The spec is completed, and somebody starts it."""
    place.complete("api")
    await apply(hub.conn, load_directory(place.specs))
    await term.settle()
    assert (await hub.look("api")).status.phase is Phase.ARCHIVED
    api = await moved(hub, term, "api", DesiredState.RUNNING)
    assert api.status.phase is Phase.RUNNING, api.status
    assert api.status.home_generation == 3
    assert describe(place.home(api)) == held


async def what_is_newer_is_kept(hub: HubWorld, term: Term, place: Place) -> None:
    """The home in which somebody worked since is no stray, and nothing is restored beside it."""
    place.complete("web")
    await apply(hub.conn, load_directory(place.specs))
    web = await moved(hub, term, "web", DesiredState.RUNNING)
    assert web.status.phase is Phase.ERROR
    assert web.status.error_reason is ErrorReason.RETRY_EXCEEDED
    newer = f"ws-{web.id}-home-g2"
    assert f"the volume {newer} is newer than this database" in (web.status.error_message or "")
    assert (place.runtime.root / newer / "unsaved").read_text() == "since the archive"


async def old_archives_wait_for_a_person(hub: HubWorld, term: Term, lost: LostHub) -> None:
    """Until somebody vouches for the database; and what is in use stays after that, too."""
    api = await hub.look("api")
    for _ in range(3):
        with pytest.raises(Refused, match="restored from a backup"):
            await collect(term)
    older = [key for key in lost.objects() if str(api.id) in key and key.endswith(".meta")]
    assert len(older) == 2
    await ask(hub.conn, KIND, {CONFIRM: True}, "root")
    for _ in range(3):
        await collect(term)
    left = [key for key in lost.objects() if key.endswith(".meta")]
    assert len(left) == 2
    assert f"{api.status.archive_key}.meta" in left


async def test_an_engine_that_was_lost_too_is_made_anew(
    place: Place, make_database_url: Callable[[], str]
) -> None:
    """Nothing but the bucket is left: what was archived last is what there is."""
    async with place.hub(make_database_url()) as hub:
        hub_id, _ = await before_the_loss(hub, place)
    place.runtime = FastRuntime(place.path / "new")
    place.runtime.root.mkdir()
    url = make_database_url()
    async with place.hub(url) as hub:
        lost = LostHub(place.store, hub_id)
        await lost.imported(hub.conn, place.specs)
        place.complete("web")
        await apply(hub.conn, load_directory(place.specs))
        async with hub.term() as term:
            web = await moved(hub, term, "web", DesiredState.RUNNING)
        assert web.status.phase is Phase.RUNNING, web.status
        assert sorted(path.name for path in place.home(web).iterdir()) == ["first"]
