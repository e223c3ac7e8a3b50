"""Each invariant can fail: whatever breaks it in the picture of a sound world is reported."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from codehub.core.keys import meta_key
from tests.chaos import picture
from tests.chaos.invariants import check_always, check_data, check_epoch
from tests.chaos.scenarios import BY_NAME
from tests.chaos.stage import ARCHIVES, FILE, VOLUMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.picture import Picture
    from tests.chaos.stage import Stage
    from tests.chaos.theatre import Theatre

    Plant = Callable[[Picture], Picture]

pytestmark = pytest.mark.anyio


async def sound(theatre: Theatre, stage: Stage, scenario: str) -> tuple[Picture, str | None]:
    """The world as a scenario begins, in which nothing is wrong."""
    await theatre.set_up(stage, BY_NAME[scenario])
    seen = await stage.take_picture()
    check_data(seen, stage.work)
    check_always(seen)
    return seen, stage.work


def with_row(seen: Picture, **columns: Any) -> Picture:
    return replace(seen, rows={**seen.rows, "workspaces": [{**seen.row, **columns}]})


def with_file(seen: Picture, path: str, content: bytes | None) -> Picture:
    """Without it where there is no content."""
    files = {name: text for name, text in seen.files.items() if name != path}
    return replace(seen, files=files if content is None else {**files, path: content})


# Where what was typed is


def home_without_it(seen: Picture) -> Picture:
    return with_file(seen, f"{VOLUMES}/{seen.row['home_store_key']}/{FILE}", None)


def home_with_less(seen: Picture) -> Picture:
    return with_file(seen, f"{VOLUMES}/{seen.row['home_store_key']}/{FILE}", b"older")


def forgotten_home(seen: Picture) -> Picture:
    return with_row(seen, home_store_key=None)


def archive_path(seen: Picture) -> str:
    return f"{ARCHIVES}/{seen.row['archive_key']}"


def archive_gone(seen: Picture) -> Picture:
    return with_file(seen, archive_path(seen), None)


def archive_without_marker(seen: Picture) -> Picture:
    return with_file(seen, f"{ARCHIVES}/{meta_key(seen.row['archive_key'])}", None)


def archive_with_a_wrong_bit(seen: Picture) -> Picture:
    packed = bytearray(seen.files[archive_path(seen)] or b"")
    packed[-1] ^= 1
    return with_file(seen, archive_path(seen), bytes(packed))


def forgotten_archive(seen: Picture) -> Picture:
    return with_row(seen, archive_key=None)


@pytest.mark.parametrize(
    ("scenario", "plant", "complaint"),
    [
        ("start", home_without_it, "I1, I7: not in the home"),
        ("start", home_with_less, "I1, I7: not in the home"),
        ("start", forgotten_home, "I1: nothing leads to what was typed"),
        ("restore", forgotten_archive, "I1: nothing leads to what was typed"),
        ("restore", archive_gone, "I5: "),
        ("restore", archive_without_marker, "I5: "),
        ("restore", archive_with_a_wrong_bit, "I5: "),
        ("archive again", archive_gone, "I5: "),
    ],
)
async def test_what_was_typed_is_missed(
    theatre: Theatre, stage: Stage, scenario: str, plant: Plant, complaint: str
) -> None:
    seen, work = await sound(theatre, stage, scenario)
    with pytest.raises(AssertionError, match=complaint):
        check_data(plant(seen), work)


async def test_an_archive_of_nothing_is_no_archive_of_what_was_typed(
    theatre: Theatre, stage: Stage
) -> None:
    """I7: whole, committed, recorded, and empty."""
    await theatre.set_up(stage, BY_NAME["archive nothing"])
    await stage.settle()
    seen = await stage.take_picture()
    check_data(seen, None)
    with pytest.raises(AssertionError, match="I1, I7: not in the archive"):
        check_data(seen, "what somebody typed")


# Containers, keys and rows


def second_container(seen: Picture) -> Picture:
    (first,) = seen.containers.values()
    return replace(seen, beside=(first,))


def retired_home(seen: Picture) -> Picture:
    return with_row(seen, home_ctx={"retired": [seen.row["home_store_key"]]})


def mounted_again(seen: Picture) -> Picture:
    earlier, later = (f"ws-{seen.row['id']}-home-g{each}" for each in (1, 2))
    return replace(with_row(seen, home_generation=2), mounts=(earlier, later, earlier))


def mounted_unasked(seen: Picture) -> Picture:
    return replace(seen, mounts=(f"ws-{seen.row['id']}-home-g9",))


def written_twice(seen: Picture) -> Picture:
    return replace(seen, written=("a/key", "another/key", "a/key"))


def error_at_work(seen: Picture) -> Picture:
    return with_row(seen, phase="ERROR", operation="STOPPING", error_reason="Timeout")


def error_without_reason(seen: Picture) -> Picture:
    return with_row(seen, phase="ERROR", operation="NONE", error_reason=None)


def operation_replaced(seen: Picture) -> Picture:
    return replace(seen, operations=(("NONE", "STOPPING"), ("STOPPING", "STARTING")))


def operation_unfinished(seen: Picture) -> Picture:
    return replace(seen, operations=(("NONE", "STOPPING"), ("NONE", "STARTING")))


@pytest.mark.parametrize(
    ("plant", "complaint"),
    [
        (second_container, "I2: "),
        (retired_home, "I3: a retired volume"),
        (mounted_again, "I3: an earlier volume"),
        (mounted_unasked, "nobody gave out"),
        (written_twice, "I4: "),
        (error_at_work, "I8: "),
        (error_without_reason, "ERROR without a reason"),
        (operation_replaced, "I9: replaced"),
        (operation_unfinished, "I9: they do not follow"),
    ],
)
async def test_a_broken_rule_is_noticed(
    theatre: Theatre, stage: Stage, plant: Plant, complaint: str
) -> None:
    seen, _ = await sound(theatre, stage, "stop")
    with pytest.raises(AssertionError, match=complaint):
        check_always(plant(seen))


STALE_WRITES = (
    "UPDATE workspaces SET observed_at = observed_at",
    "INSERT INTO archive_operations (workspace_id, op_id) SELECT id, 'late' FROM workspaces",
    "INSERT INTO gc_candidates (object_key, bytes, reason) VALUES ('a/key', 1, 'older')",
    "INSERT INTO activity_sync (sentinel) VALUES ('mark')",
    "INSERT INTO leader_requests (kind) VALUES ('gc')",
    "UPDATE system_locks SET holder_id = 'late' WHERE lock_name = 'coordinator'",
    "INSERT INTO workspace_events (workspace_id, kind) SELECT id, 'phase' FROM workspaces",
)


@pytest.mark.parametrize("write", STALE_WRITES, ids=lambda each: " ".join(each.split()[:3]))
async def test_a_stale_write_to_any_table_is_noticed(
    theatre: Theatre, stage: Stage, write: str
) -> None:
    """I6, whichever table it is, even where nothing changes by it."""
    await theatre.set_up(stage, BY_NAME["stop"])
    before = await picture.versions(stage.conn)
    await check_epoch(stage.conn, before)
    assert (await stage.conn.execute(write)).rowcount == 1
    with pytest.raises(AssertionError, match="I6: "):
        await check_epoch(stage.conn, before)
