"""When an operation is done, and which facts it cannot do without."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from codehub.core.complete import archived_by_this, is_complete, unknown_facts
from codehub.model.conditions import ContainerFact, Facts, Presence
from codehub.model.states import Operation
from codehub.model.workspace import HomeContext, Status, Workspace
from tests.make import workspace

OP = UUID(int=7)
OWN = f"hub/ws/{OP}/2/home.tar.zst"


def row(operation: Operation, **status: Any) -> Workspace:
    return workspace(status=Status(operation=operation, op_id=OP, **status))


def facts(**seen: Any) -> Facts:
    known = {"container": ContainerFact.ABSENT, "volume": Presence.ABSENT}
    return Facts(**{"archive": Presence.ABSENT, **known, **seen})


def test_an_archive_must_be_of_this_operation() -> None:
    done = facts(archive=Presence.PRESENT)
    assert is_complete(row(Operation.ARCHIVING, archive_key=OWN), done)
    earlier = f"hub/ws/{UUID(int=6)}/2/home.tar.zst"
    assert not is_complete(row(Operation.ARCHIVING, archive_key=earlier), done)


@pytest.mark.parametrize(
    "key",
    [None, str(OP), f"hub/{OP}/x/1/home.tar.zst", f"hub/ws/x{OP}/1/home.tar.zst", f"hub/ws/{OP}"],
)
def test_the_op_id_counts_in_its_own_place_only(key: str | None) -> None:
    assert not archived_by_this(Status(op_id=OP, archive_key=key))
    assert not archived_by_this(Status(op_id=None, archive_key=OWN))


def test_archiving_is_not_done_while_a_volume_is_left() -> None:
    archived = row(Operation.ARCHIVING, archive_key=OWN)
    left = facts(archive=Presence.PRESENT, strays=Presence.PRESENT)
    assert not is_complete(archived, left)
    assert not is_complete(archived, facts(archive=Presence.ABSENT))


def test_restoring_needs_the_marker_of_this_archive() -> None:
    there = facts(volume=Presence.PRESENT)
    marked = HomeContext(restore_marker=OWN)
    keys = {"archive_key": OWN, "home_store_key": "home-g2"}
    assert is_complete(row(Operation.RESTORING, home_ctx=marked, **keys), there)
    assert not is_complete(row(Operation.RESTORING, **keys), there)
    assert not is_complete(row(Operation.RESTORING, home_store_key="home-g2"), there)


def test_stopping_ends_only_when_the_exited_container_is_gone_too() -> None:
    stopping = row(Operation.STOPPING, home_store_key="home-g1")
    assert is_complete(stopping, facts())
    assert not is_complete(stopping, facts(container=ContainerFact.EXITED))


def test_starting_needs_the_port() -> None:
    starting = row(Operation.STARTING, home_store_key="home-g1")
    runs = {"container": ContainerFact.RUNNING, "volume": Presence.PRESENT}
    assert is_complete(starting, facts(port_answered=True, **runs))
    assert not is_complete(starting, facts(**runs))


def test_nothing_in_flight_is_never_complete() -> None:
    assert not is_complete(row(Operation.NONE), facts())


def test_unknown_blocks_only_what_needs_it() -> None:
    homed = row(Operation.NONE, home_store_key="home-g1", archive_key=OWN)
    seen = facts(volume=Presence.PRESENT, archive=Presence.UNKNOWN)
    assert unknown_facts(homed, seen, Operation.STARTING) == ()
    assert unknown_facts(homed, seen, Operation.ARCHIVING) == ("archive",)
    assert unknown_facts(row(Operation.NONE, archive_key=OWN), seen, Operation.NONE) == ("archive",)


def test_what_no_key_names_is_known() -> None:
    nothing = facts(volume=Presence.UNKNOWN, archive=Presence.UNKNOWN)
    assert unknown_facts(row(Operation.NONE), nothing, Operation.PROVISIONING) == ()
    assert unknown_facts(row(Operation.NONE), Facts(), Operation.NONE) == ("container",)
