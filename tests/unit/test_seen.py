"""What a listing means for one workspace: its home, its strays, and what is nobody's to judge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from codehub.coordinator.seen import (
    NOTHING,
    Seen,
    Things,
    facts_of,
    index,
    is_stray,
    stray_volumes,
)
from codehub.model.conditions import ContainerFact, Facts, Presence
from codehub.model.runtime import ContainerSeen, Listing, VolumeRef, VolumeSeen
from codehub.model.states import Operation
from codehub.model.workspace import HomeContext, Runtime, Status, Workspace
from tests.make import workspace

ME, OTHER = UUID(int=1), UUID(int=2)


def volume(generation: int, owner: UUID = ME) -> VolumeSeen:
    return VolumeSeen(owner, VolumeRef(owner, generation).name, generation)


def container(generation: int | None = 2, *, running: bool = True) -> ContainerSeen:
    mounted = None if generation is None else VolumeRef(ME, generation).name
    return ContainerSeen(ME, running=running, volume=mounted)


def housed(generation: int = 2, **fields: Any) -> Workspace:
    """Its home is this generation."""
    fields.setdefault("home_store_key", VolumeRef(ME, generation).name)
    return workspace(status=Status(home_generation=generation, **fields))


def facts(row: Workspace, things: Things) -> Facts:
    return facts_of(row, things, Presence.ABSENT, port_answered=False)


def test_a_listing_is_sorted_by_workspace() -> None:
    listing = Listing((container(),), (volume(1), volume(2), volume(7, OTHER)))
    assert index(listing) == {
        ME: Things(container(), (volume(1), volume(2))),
        OTHER: Things(None, (volume(7, OTHER),)),
    }


def test_what_a_runtime_did_not_list_is_not_there() -> None:
    seen = Seen({Runtime.PROCESS: {OTHER: Things(None, (volume(7, OTHER),))}})
    assert seen.of(housed()) is NOTHING


def test_what_a_silent_runtime_holds_is_unknown_and_says_why() -> None:
    seen = Seen({Runtime.DOCKER: {}}, {Runtime.PROCESS: "no answer"})
    assert seen.of(housed()) == Things(unknown="no answer")
    assert seen.of(workspace(runtime=Runtime.DOCKER)) is NOTHING


def test_a_runtime_that_this_coordinator_lacks_is_unknown() -> None:
    found = Seen({Runtime.PROCESS: {}}).of(workspace(runtime=Runtime.KUBERNETES))
    assert found.unknown == "this coordinator has no kubernetes runtime"


def test_things_are_found_whichever_runtime_lists_them() -> None:
    mine = Things(None, (volume(2),))
    both = Seen({Runtime.DOCKER: {}, Runtime.PROCESS: {ME: mine}})
    assert both.things_of(ME) is mine
    assert both.things_of(OTHER) is NOTHING


def test_with_a_silent_runtime_nothing_is_called_absent() -> None:
    seen = Seen({Runtime.DOCKER: {}}, {Runtime.PROCESS: "no answer"})
    assert seen.things_of(ME).unknown is not None


def test_volumes_of_the_past_are_strays_and_the_home_is_not() -> None:
    things = Things(None, (volume(1), volume(2)))
    assert stray_volumes(housed(2), things) == (volume(1),)


@pytest.mark.parametrize("home", [VolumeRef(ME, 2).name, None])
def test_a_generation_newer_than_the_database_is_never_a_stray(home: str | None) -> None:
    """The database may come from a backup: then it is all that holds the newest work."""
    row = housed(2, home_store_key=home)
    assert volume(3) not in stray_volumes(row, Things(None, (volume(2), volume(3))))
    assert facts(row, Things(None, (volume(3),))).strays is Presence.ABSENT


def test_a_home_that_was_retired_is_a_stray() -> None:
    row = housed(2, home_store_key=None, home_ctx=HomeContext(retired=(VolumeRef(ME, 2).name,)))
    assert stray_volumes(row, Things(None, (volume(2),))) == (volume(2),)


def test_a_container_on_another_volume_is_a_stray_and_not_ours_that_runs() -> None:
    late = Things(container(1), (volume(2),))
    assert is_stray(housed(2), late.container)
    seen = facts(housed(2), late)
    assert (seen.container, seen.strays) == (ContainerFact.ABSENT, Presence.PRESENT)


def test_a_container_on_the_home_is_none() -> None:
    assert not is_stray(housed(2), container(2))
    assert not is_stray(housed(2), None)


def test_a_container_that_names_no_volume_cannot_be_called_a_stray() -> None:
    """What it mounts is not known, so it is judged, and by its invariant."""
    assert not is_stray(housed(2), container(None))
    assert facts(housed(2), Things(container(None), (volume(2),))).container is (
        ContainerFact.RUNNING
    )


@pytest.mark.parametrize(
    ("found", "fact"),
    [
        (None, ContainerFact.ABSENT),
        (container(running=False), ContainerFact.EXITED),
        (container(), ContainerFact.RUNNING),
    ],
)
def test_what_the_engine_says_of_the_container(
    found: ContainerSeen | None, fact: ContainerFact
) -> None:
    assert facts(housed(2), Things(found, (volume(2),))).container is fact


def test_how_a_container_ended_is_known_where_its_engine_says_so() -> None:
    ended = replace(container(running=False), exit_code=3)
    assert facts(housed(2), Things(ended, (volume(2),))).exit_code == 3
    assert facts(housed(2), Things(container(), (volume(2),))).exit_code is None
    assert facts(housed(2), Things(None, (volume(2),))).exit_code is None


def test_a_home_counts_by_its_exact_name() -> None:
    assert facts(housed(2), Things(None, (volume(2),))).volume is Presence.PRESENT
    assert facts(housed(2), Things(None, (volume(1), volume(3)))).volume is Presence.ABSENT
    assert facts(workspace(), Things(None, (volume(1),))).volume is Presence.ABSENT


def test_what_cannot_be_listed_is_unknown_altogether() -> None:
    seen = facts_of(housed(2), Things(unknown="no answer"), Presence.PRESENT, port_answered=True)
    assert seen == Facts(archive=Presence.PRESENT, strays=Presence.UNKNOWN, reasons=("no answer",))
    assert (seen.container, seen.volume) == (ContainerFact.UNKNOWN, Presence.UNKNOWN)


@pytest.mark.parametrize(
    ("operation", "marker", "complete"),
    [
        (Operation.NONE, None, True),
        (Operation.STARTING, "an old one", True),
        (Operation.RESTORING, None, False),
        (Operation.RESTORING, "an old one", False),
        (Operation.RESTORING, "this one", True),
    ],
)
def test_a_volume_being_restored_is_complete_when_this_archive_was_committed(
    operation: Operation, marker: str | None, complete: bool
) -> None:
    row = housed(
        2,
        operation=operation,
        archive_key="this one",
        home_ctx=HomeContext(restore_marker=marker),
    )
    assert facts(row, Things(None, (volume(2),))).volume_complete is complete


def test_why_nothing_is_known_of_the_archive_is_told_where_that_is_so() -> None:
    def reasons(things: Things, archive: Presence) -> tuple[str, ...]:
        found = facts_of(housed(2), things, archive, port_answered=False, doubt="the store is away")
        return found.reasons

    assert reasons(NOTHING, Presence.UNKNOWN) == ("the store is away",)
    assert reasons(NOTHING, Presence.PRESENT) == ()
    silent = Things(unknown="no answer")
    assert reasons(silent, Presence.UNKNOWN) == ("no answer", "the store is away")
    assert reasons(silent, Presence.ABSENT) == ("no answer",)


def test_a_home_that_was_given_up_is_no_stray() -> None:
    row = housed(3, home_ctx=HomeContext(given_up=(volume(1).name,)))
    things = Things(None, (volume(1), volume(2), volume(3)))
    assert stray_volumes(row, things) == (volume(2),)
    assert facts(row, Things(None, (volume(1), volume(3)))).strays is Presence.ABSENT
