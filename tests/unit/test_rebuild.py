"""What a lost hub's archives are made into: the rules alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.core.decide import decide
from codehub.core.judge import judge
from codehub.core.keys import build_key
from codehub.core.rebuild import (
    NO_IMAGE,
    find_forsaken,
    likely_runtime,
    rebuild,
    workspace_of,
)
from codehub.core.record import record
from codehub.errors import Refused, UsageError
from codehub.model.archive import ArchiveKey, ArchiveMeta
from codehub.model.conditions import ContainerFact, Facts, Presence
from codehub.model.decision import Nothing, Rules
from codehub.model.runtime import VolumeRef, VolumeSeen
from codehub.model.salvage import (
    Committed,
    Flawed,
    Home,
    Known,
    LeftBehind,
    Rebuild,
    Salvage,
    Undeclared,
)
from codehub.model.states import DesiredState, Operation, Phase
from codehub.model.workspace import Runtime, Source
from tests.make import NOW

HUB = UUID(int=9)
HOUR = timedelta(hours=1)
PLACE = Source("recovered/workspaces/api.yaml", 4)


def key(workspace: int, op: int) -> str:
    return build_key(ArchiveKey(HUB, UUID(int=workspace), UUID(int=op), "1"))


def archive(
    workspace: int = 1, op: int = 10, hours: float = 0, name: str = "api", **fields: Any
) -> Committed:
    at = NOW - hours * HOUR
    meta = ArchiveMeta(
        key=key(workspace, op),
        sha256="s" * 64,
        bytes=4096,
        unpacked_bytes=10240,
        entries=3,
        skipped=0,
        hub=HUB,
        workspace_id=UUID(int=workspace),
        workspace_name=name,
        owner=fields.pop("owner", "alice"),
        generation=fields.pop("generation", 1),
        created_at=at,
    )
    return Committed(replace(meta, **fields), at + timedelta(minutes=1))


def flawed(workspace: int = 1, op: int = 90, hours: float = 0) -> Flawed:
    return Flawed(key(workspace, op), UUID(int=workspace), NOW - hours * HOUR, "it is not JSON")


def made(
    *committed: Committed,
    flaws: tuple[Flawed, ...] = (),
    known: Known | None = None,
    names: dict[int, str] | None = None,
) -> Rebuild:
    renames = {UUID(int=number): name for number, name in (names or {}).items()}
    return rebuild(Salvage(HUB, committed, flaws), known or Known(), Runtime.DOCKER, renames)


def only(plan: Rebuild) -> Home:
    (home,) = plan.homes
    return home


def test_the_newest_archive_is_the_home_and_the_highest_generation_counts() -> None:
    """Also where they are not of one archive: a database that was restored from a backup once."""
    home = only(
        made(
            archive(op=10, hours=9, generation=1),
            archive(op=11, hours=2, generation=5),
            archive(op=12, hours=1, generation=3),
        )
    )
    assert home.archive.key == key(1, 12)
    assert (home.generation, home.older) == (5, 2)
    assert home.created_at == NOW - 9 * HOUR
    assert not home.outdated


def test_the_last_name_and_owner_are_those_that_count() -> None:
    home = only(made(archive(hours=9, name="old", owner="bob"), archive(op=11, name="new")))
    assert (home.name, home.owner) == ("new", "alice")


def test_a_damaged_archive_is_noticed_where_it_was_the_newest() -> None:
    assert only(made(archive(hours=5), flaws=(flawed(hours=1),))).outdated
    assert only(made(archive(hours=1), flaws=(flawed(hours=59 / 60),))).outdated
    assert not only(made(archive(hours=5), flaws=(flawed(hours=9),))).outdated
    assert not made(archive(hours=5), flaws=(flawed(hours=1),)).complete


def test_a_workspace_without_any_good_archive_is_left_out() -> None:
    plan = made(archive(), flaws=(flawed(2),))
    assert [each.id for each in plan.left_out] == [UUID(int=2)]
    assert not plan.complete
    assert made(archive(), flaws=(flawed(2),), known=_known(2)).complete


# Names


def test_of_namesakes_the_one_archived_last_has_the_name() -> None:
    plan = made(archive(1, hours=9), archive(2, hours=1), archive(3, hours=5), archive(4, name="b"))
    assert [(each.name, each.id) for each in plan.homes] == [
        ("api", UUID(int=2)),
        ("b", UUID(int=4)),
    ]
    assert [each.id for each in plan.left_out] == [UUID(int=1), UUID(int=3)]
    assert all(f"--as {each.id}=" in each.advice for each in plan.left_out)


def test_a_person_can_name_them_apart() -> None:
    plan = made(archive(1, hours=9), archive(2, hours=1), names={1: "api-old"})
    assert {each.name: each.id.int for each in plan.homes} == {"api": 2, "api-old": 1}
    assert plan.complete
    swapped = made(archive(1, hours=9), archive(2, hours=1), names={1: "api"})
    assert only(swapped).id == UUID(int=1)


def test_a_name_in_the_hub_is_not_taken_from_its_workspace() -> None:
    plan = made(archive(1), known=_known(7, name="api"))
    assert plan.homes == ()
    assert [each.id for each in plan.left_out] == [UUID(int=1)]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({8: "api"}, "no usable archive"),
        ({1: "Not a name"}, "cannot be the name"),
        ({1: "x" * 41}, "cannot be the name"),
        ({1: "taken"}, "already"),
        ({1: "same", 2: "same"}, "same name"),
    ],
)
def test_a_name_that_cannot_be_given_is_refused(names: dict[int, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        made(archive(1), archive(2, name="b"), known=_known(7, name="taken"), names=names)


def test_naming_what_is_there_already_is_no_mistake_the_second_time() -> None:
    plan = made(archive(1), known=_known(1, name="api-old"), names={1: "api-old"})
    assert (plan.homes, plan.present) == ((), 1)


@pytest.mark.parametrize("fields", [{"name": "Ä"}, {"name": ""}, {"owner": "x y"}])
def test_what_no_spec_could_name_is_left_out(fields: dict[str, Any]) -> None:
    plan = made(archive(1, **fields), archive(2, name="fine"))
    assert only(plan).name == "fine"
    assert [each.id for each in plan.left_out] == [UUID(int=1)]


# The database


def _known(number: int, *, name: str = "x", hub: UUID = HUB, undeclared: bool = False) -> Known:
    one = UUID(int=number)
    rows = {one: Undeclared(name, Runtime.PROCESS)} if undeclared else {}
    return Known(hub, frozenset({one}), {name: one}, rows)


@pytest.mark.parametrize(
    "known",
    [
        _known(7, hub=UUID(int=8)),
        replace(_known(7), hub_id=None),
        Known(hub_id=UUID(int=8), loaded=True),
    ],
    ids=["workspaces of another hub", "workspaces of no hub", "specs of another hub"],
)
def test_a_database_that_is_in_use_is_refused(known: Known) -> None:
    with pytest.raises(Refused, match="in use"):
        made(archive(), known=known)


@pytest.mark.parametrize("known", [Known(), Known(hub_id=UUID(int=8)), Known(hub_id=HUB)])
def test_a_database_that_nobody_has_used_is_fine(known: Known) -> None:
    """A coordinator that was started on it gave it an id, which nothing carries yet."""
    assert only(made(archive(), known=known)).name == "api"


def test_what_the_database_knows_is_left_as_it_is() -> None:
    plan = made(archive(1), archive(2, name="b"), known=_known(1, name="renamed"))
    assert only(plan).name == "b"
    assert (plan.present, plan.undeclared) == (1, ())


def test_what_an_import_made_still_needs_its_spec() -> None:
    plan = made(archive(1), known=_known(1, name="renamed", undeclared=True))
    (home,) = plan.undeclared
    assert (plan.homes, home.name, home.runtime) == ((), "renamed", Runtime.PROCESS)


# The row


def test_the_row_rests_in_the_archive_whatever_the_runtime_holds() -> None:
    """Suspended, so that nothing which outlived the database is taken for a stray."""
    home = only(made(archive(generation=4)))
    row = workspace_of(home, PLACE, "root", NOW)
    assert (row.status.phase, row.intent.desired) == (Phase.ARCHIVED, DesiredState.ARCHIVED)
    assert (row.declaration.image, row.declaration.suspend) == (NO_IMAGE, True)
    for volume in (Presence.PRESENT, Presence.ABSENT, Presence.UNKNOWN):
        facts = Facts(
            ContainerFact.ABSENT, volume=volume, archive=Presence.PRESENT, strays=Presence.PRESENT
        )
        assert isinstance(decide(row, facts, NOW, Rules()), Nothing)
        assert judge(row, facts, NOW).phase is Phase.ARCHIVED


def test_the_next_home_is_above_every_generation_of_an_archive() -> None:
    home = only(made(archive(op=10, hours=5, generation=7), archive(op=11, generation=2)))
    row = workspace_of(home, PLACE, "root", NOW)
    wanted = replace(
        row,
        intent=replace(row.intent, desired=DesiredState.RUNNING),
        declaration=replace(row.declaration, suspend=False),
    )
    facts = Facts(
        ContainerFact.ABSENT,
        volume=Presence.ABSENT,
        archive=Presence.PRESENT,
        strays=Presence.ABSENT,
    )
    decision = decide(wanted, facts, NOW, Rules())
    status = record(wanted, judge(wanted, facts, NOW), decision, now=NOW, op_id=UUID(int=3))
    assert status.operation is Operation.RESTORING
    assert status.home_generation == 8
    assert status.archive_key == key(1, 11)


ARCHIVES = st.lists(
    st.builds(
        archive,
        st.integers(1, 4),
        st.integers(10, 14),
        st.integers(0, 5),
        st.sampled_from(["a", "b", "No"]),
        generation=st.integers(0, 9),
    ),
    max_size=8,
    unique_by=lambda each: each.meta.key,
)


@settings(max_examples=300)
@given(ARCHIVES, st.lists(st.builds(flawed, st.integers(1, 4)), max_size=3))
def test_every_workspace_is_brought_back_or_told(
    committed: list[Committed], flaws: list[Flawed]
) -> None:
    """And importing again, after that, changes nothing and loses nobody."""
    plan = made(*committed, flaws=tuple(flaws))
    ids = {each.meta.workspace_id for each in committed} | {each.workspace_id for each in flaws}
    kept, told = [each.id for each in plan.homes], [each.id for each in plan.left_out]
    assert sorted(kept + told) == sorted(ids)
    names = {each.name: each.id for each in plan.homes}
    assert len(names) == len(plan.homes)
    again = made(*committed, flaws=tuple(flaws), known=Known(HUB, frozenset(kept), names))
    assert again.homes == ()
    assert [each.id for each in again.left_out] == told


# What runtimes still hold


def volume(workspace: int, generation: int = 1, name: str = "") -> VolumeSeen:
    ref = VolumeRef(UUID(int=workspace), generation)
    return VolumeSeen(ref.workspace_id, ref.name, generation, name)


def test_a_home_is_forsaken_unless_the_hub_knows_its_workspace() -> None:
    known = Known(HUB, frozenset({UUID(int=2)}), {"web": UUID(int=2)})
    salvage = Salvage(HUB, (archive(1), archive(3, name="api", hours=9)))
    plan = rebuild(salvage, known, Runtime.DOCKER, {})
    held = (volume(1, 5), volume(2), volume(3), volume(4, name="sketches"), volume(5, name="A b"))
    found = find_forsaken(LeftBehind({Runtime.DOCKER: held}), plan)
    assert [(each.volume.workspace_id.int, each.workspace) for each in found] == [
        (5, ""),
        (3, "api"),
        (4, "sketches"),
    ]


@pytest.mark.parametrize(
    ("usual", "marked", "homes", "likely"),
    [
        (Runtime.PROCESS, (), (), Runtime.PROCESS),
        (Runtime.PROCESS, (Runtime.PROCESS,), (), Runtime.PROCESS),
        (Runtime.PROCESS, (Runtime.DOCKER,), (), Runtime.DOCKER),
        (Runtime.PROCESS, (Runtime.DOCKER, Runtime.PROCESS), (), Runtime.DOCKER),
        (Runtime.PROCESS, (Runtime.DOCKER, Runtime.PROCESS), (volume(1),), Runtime.PROCESS),
        (Runtime.DOCKER, (), (volume(1),), Runtime.DOCKER),
    ],
)
def test_the_mark_on_the_engine_tells_where_workspaces_ran(
    usual: Runtime, marked: tuple[Runtime, ...], homes: tuple[VolumeSeen, ...], likely: Runtime
) -> None:
    left = LeftBehind({Runtime.PROCESS: homes}, frozenset(marked))
    assert likely_runtime(usual, left) is likely
