"""Which archives are kept, which wait and which go: the rules alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.core.collect import (
    choose,
    expire,
    find_obstacle,
    is_mark,
    purgeable,
    sort_objects,
    weigh,
)
from codehub.core.keys import build_key, epoch_key, epoch_of, marker_key, meta_key
from codehub.model.archive import ArchiveKey
from codehub.model.collection import (
    Fate,
    Holder,
    Inventory,
    Ledger,
    Marker,
    StoredArchive,
    Verdict,
    Why,
)
from codehub.model.runtime import ObjectInfo
from tests.make import NOW

HUB, WORKSPACE = UUID(int=1), UUID(int=2)
PATIENCE = timedelta(hours=2)
RETENTION = timedelta(days=7)
HOUR = timedelta(hours=1)


def key(op: int, *, workspace: UUID = WORKSPACE, attempt: str = "1", hub: UUID = HUB) -> str:
    return build_key(ArchiveKey(hub, workspace, UUID(int=op), attempt))


def objects(op: int, hours: float, *, meta: bool = True, **more: Any) -> list[ObjectInfo]:
    """An archive that was written so many hours ago, and its commit marker a minute later."""
    at = NOW - timedelta(hours=hours)
    name = key(op, **more)
    archive = ObjectInfo(name, 1000, at)
    return [archive, ObjectInfo(meta_key(name), 10, at + timedelta(minutes=1))][: 1 + meta]


def stock(*groups: list[ObjectInfo]) -> Inventory:
    return sort_objects(HUB, [one for group in groups for one in group])


def holder(**fields: Any) -> Holder:
    return Holder(**{"id": WORKSPACE, "name": "api", **fields})


def ledger(*holders: Holder, **fields: Any) -> Ledger:
    fields.setdefault("candidates", {})
    return Ledger(NOW, {each.id: each for each in holders}, **fields)


def reasons(inventory: Inventory, known: Ledger) -> dict[str, Why]:
    return {each.archive.key: each.why for each in weigh(inventory, known, PATIENCE)}


def test_an_archive_and_its_commit_marker_are_one_and_the_marker_is_first() -> None:
    archive, meta = objects(5, 1)
    for listing in ([archive, meta], [meta, archive]):
        (one,) = sort_objects(HUB, listing).archives
        assert one.objects == (meta, archive)
        assert (one.workspace_id, one.op_id, one.bytes) == (WORKSPACE, UUID(int=5), 1010)
        assert (one.begun_at, one.ended_at) == (archive.modified_at, meta.modified_at)


def test_what_is_no_archive_and_what_is_another_hubs_has_no_fate() -> None:
    strange = [f"{HUB}/notes.txt", f"{HUB}/{WORKSPACE}/x/home.tar.zst", marker_key(HUB)]
    inventory = stock(
        [ObjectInfo(name, 1, NOW) for name in strange], objects(5, 1, hub=UUID(int=9))
    )
    assert inventory == Inventory((), tuple(strange))


def test_the_hubs_own_marks_are_told_from_strange_things() -> None:
    assert is_mark(HUB, marker_key(HUB))
    assert is_mark(HUB, epoch_key(HUB, 12))
    assert not is_mark(HUB, f"{HUB}/epochs/012")
    assert not is_mark(HUB, key(5))


@settings(max_examples=50)
@given(st.integers(1, 10**18 - 1))
def test_every_count_comes_back_from_its_key(epoch: int) -> None:
    assert epoch_of(epoch_key(HUB, epoch)) == epoch


@pytest.mark.parametrize("text", ["x", "0", "-1", "1.0", "1/2", "٣"])
def test_what_is_no_count_is_not_read_as_one(text: str) -> None:
    assert epoch_of(f"{HUB}/epochs/{text}") is None


def test_the_archive_in_use_is_kept_and_an_older_one_is_not() -> None:
    inventory = stock(objects(5, 9), objects(6, 4))
    found = reasons(inventory, ledger(holder(archive_key=key(6))))
    assert found == {key(5): Why.OLDER, key(6): Why.CURRENT}


def test_what_is_newer_than_the_archive_in_use_is_kept() -> None:
    """A database from a backup names an older archive than the newest there is."""
    inventory = stock(objects(5, 9), objects(6, 4))
    found = reasons(inventory, ledger(holder(archive_key=key(5))))
    assert found == {key(5): Why.CURRENT, key(6): Why.NEWER}


def test_of_the_same_second_is_not_older() -> None:
    same = [replace(each, modified_at=NOW - 4 * HOUR) for each in objects(5, 4) + objects(6, 4)]
    found = reasons(stock(same), ledger(holder(archive_key=key(6))))
    assert found[key(5)] is Why.NEWER


@pytest.mark.parametrize("archive_key", [None, key(7)])
def test_where_there_is_no_archive_in_use_everything_is_kept(archive_key: str | None) -> None:
    inventory = stock(objects(5, 9), objects(6, 4, meta=False))
    found = reasons(inventory, ledger(holder(archive_key=archive_key)))
    assert set(found.values()) == {Why.NEWER}


def test_an_archive_in_use_without_its_commit_marker_makes_nothing_older() -> None:
    inventory = stock(objects(5, 9), objects(6, 4, meta=False))
    found = reasons(inventory, ledger(holder(archive_key=key(6))))
    assert found == {key(5): Why.NEWER, key(6): Why.CURRENT}


def test_all_attempts_of_an_operation_are_kept() -> None:
    inventory = stock(objects(5, 9), objects(5, 8, attempt="2"), objects(6, 1))
    found = reasons(inventory, ledger(holder(archive_key=key(6), op_id=UUID(int=5))))
    assert list(found.values()) == [Why.OPERATION, Why.OPERATION, Why.CURRENT]


def test_a_workspace_in_error_keeps_everything() -> None:
    inventory = stock(objects(5, 9), objects(6, 4))
    found = reasons(inventory, ledger(holder(archive_key=key(6), in_error=True)))
    assert found == {key(5): Why.IN_ERROR, key(6): Why.CURRENT}


def test_a_purged_workspace_keeps_nothing() -> None:
    gone = holder(archive_key=key(6), op_id=UUID(int=5), in_error=True, purged=True)
    found = reasons(stock(objects(5, 9), objects(6, 4)), ledger(gone))
    assert set(found.values()) == {Why.PURGED}


def test_an_unknown_workspace_keeps_everything_until_somebody_vouches_for_the_database() -> None:
    inventory = stock(objects(5, 9), objects(6, 4))
    assert set(reasons(inventory, ledger()).values()) == {Why.UNKNOWN_WORKSPACE}
    vouched = reasons(inventory, ledger(confirmed_at=NOW - 6 * HOUR))
    assert vouched == {key(5): Why.GIVEN_UP, key(6): Why.UNKNOWN_WORKSPACE}


SINCE = NOW - 20 * HOUR
"""Operations are noted from then on."""


def noted(*ops: int) -> frozenset[str]:
    return frozenset(str(UUID(int=op)) for op in ops)


def test_a_committed_archive_of_an_operation_without_a_record_is_kept() -> None:
    """Made after the backup that this database comes from, and before the archive in use."""
    inventory = stock(objects(5, 9), objects(6, 6), objects(7, 4))
    restored = holder(archive_key=key(7), noted=noted(5, 7))
    assert reasons(inventory, ledger(restored, noted_since=SINCE)) == {
        key(5): Why.OLDER,
        key(6): Why.UNRECORDED,
        key(7): Why.CURRENT,
    }


@pytest.mark.parametrize("fields", [{"purged": True}, {"archive_key": key(5)}])
def test_without_a_record_it_is_kept_whatever_else_the_database_says(fields: Any) -> None:
    known = holder(**{"archive_key": key(7), "noted": noted(5, 7), **fields})
    inventory = stock(objects(5, 9), objects(6, 6), objects(7, 4))
    assert reasons(inventory, ledger(known, noted_since=SINCE))[key(6)] is Why.UNRECORDED


def test_somebody_who_vouches_for_the_database_gives_up_what_has_no_record() -> None:
    inventory = stock(objects(5, 9), objects(6, 6), objects(7, 4))
    known = holder(archive_key=key(7), noted=noted(7))
    vouched = ledger(known, noted_since=SINCE, confirmed_at=NOW - 7 * HOUR)
    found = reasons(inventory, vouched)
    assert (found[key(5)], found[key(6)]) == (Why.OLDER, Why.UNRECORDED)
    newer = reasons(inventory, replace(vouched, confirmed_at=NOW))
    assert newer[key(6)] is Why.OLDER


def test_what_a_job_left_that_outlived_its_leader_has_a_record_and_goes() -> None:
    inventory = stock(objects(6, 6), objects(6, 6, attempt="2"), objects(7, 4))
    known = holder(archive_key=key(7), noted=noted(6, 7))
    found = reasons(inventory, ledger(known, noted_since=SINCE))
    assert [*found.values()] == [Why.OLDER, Why.OLDER, Why.CURRENT]


@pytest.mark.parametrize(("since", "meta"), [(NOW - 5 * HOUR, True), (None, True), (SINCE, False)])
def test_what_was_made_before_there_were_records_or_never_committed_needs_none(
    since: Any, meta: bool
) -> None:
    inventory = stock(objects(6, 6, meta=meta), objects(7, 4))
    known = holder(archive_key=key(7), noted=noted(7))
    assert reasons(inventory, ledger(known, noted_since=since))[key(6)] is Why.OLDER


@pytest.mark.parametrize(
    ("seen", "fate"),
    [
        (None, Fate.WAITING),
        (NOW, Fate.WAITING),
        (NOW - PATIENCE + timedelta(seconds=1), Fate.WAITING),
        (NOW - PATIENCE, Fate.DUE),
        (NOW - 9 * PATIENCE, Fate.DUE),
    ],
)
def test_an_orphan_goes_only_long_after_it_was_seen_first(seen: Any, fate: Fate) -> None:
    known = ledger(
        holder(archive_key=key(6)), candidates={key(5): seen} if seen is not None else {}
    )
    verdict = weigh(stock(objects(5, 9), objects(6, 4)), known, PATIENCE)[0]
    assert (verdict.fate, verdict.why, verdict.workspace) == (fate, Why.OLDER, "api")
    assert verdict.due_at == (seen or NOW) + PATIENCE


def test_without_any_patience_the_first_look_still_deletes_nothing() -> None:
    inventory, known = stock(objects(5, 9), objects(6, 4)), holder(archive_key=key(6))
    first = weigh(inventory, ledger(known), timedelta(0))[0]
    second = weigh(inventory, ledger(known, candidates={key(5): NOW}), timedelta(0))[0]
    assert (first.fate, second.fate) == (Fate.WAITING, Fate.DUE)


def test_what_is_protected_again_is_kept_however_long_it_was_an_orphan() -> None:
    known = ledger(holder(in_error=True), candidates={key(5): NOW - 99 * HOUR})
    assert weigh(stock(objects(5, 9)), known, PATIENCE)[0].fate is Fate.KEPT


def test_retention_ends_for_deleted_workspaces_that_nobody_wants_back() -> None:
    long_ago = NOW - RETENTION
    cases = {
        "over": holder(id=UUID(int=1), name="over", deleted_at=long_ago, wanted=False),
        "young": holder(
            id=UUID(int=2), name="young", deleted_at=long_ago + HOUR / 60, wanted=False
        ),
        "wanted": holder(id=UUID(int=3), name="wanted", deleted_at=long_ago, wanted=True),
        "live": holder(id=UUID(int=4), name="live", wanted=False),
        "purged": holder(
            id=UUID(int=5), name="purged", deleted_at=long_ago, wanted=False, purged=True
        ),
    }
    known = ledger(*cases.values())
    assert [each.name for each in purgeable(known, RETENTION)] == ["over"]
    ahead = expire(known, RETENTION)
    assert {each.name for each in ahead.holders.values() if each.purged} == {"over", "purged"}
    assert not known.holders[UUID(int=1)].purged


def sound(marker: Marker | None, known: Ledger, inventory: Inventory) -> bool:
    return find_obstacle(marker, known, weigh(inventory, known, PATIENCE)) is None


def test_a_database_behind_the_store_is_an_obstacle() -> None:
    known, inventory = ledger(holder(archive_key=key(6)), epoch=7), stock(objects(6, 4))
    assert sound(Marker(HUB, 6), known, inventory)
    assert sound(Marker(HUB, 7), known, inventory)
    assert not sound(Marker(HUB, 8), known, inventory)


def test_a_store_without_our_mark_is_an_obstacle_once_there_are_archives() -> None:
    assert sound(None, ledger(holder()), Inventory())
    assert not sound(None, ledger(holder(archive_key=key(6))), stock(objects(6, 4)))


def test_a_store_without_any_archive_we_know_is_an_obstacle() -> None:
    other = UUID(int=3)
    known = ledger(holder(archive_key=key(6)), holder(id=other, archive_key=key(8)))
    assert not sound(Marker(HUB), known, stock(objects(5, 9)))
    assert not sound(Marker(HUB), known, Inventory())
    assert sound(Marker(HUB), known, stock(objects(6, 4)))
    purged = ledger(holder(archive_key=key(6), purged=True))
    assert sound(Marker(HUB), purged, stock(objects(6, 4)))


def test_a_workspace_in_error_proves_the_store_as_well() -> None:
    known = ledger(holder(archive_key=key(6), in_error=True))
    assert sound(Marker(HUB), known, stock(objects(6, 4)))


def due(op: int, hours: float, fate: Fate = Fate.DUE) -> Verdict:
    (archive,) = stock(objects(op, 9)).archives
    return Verdict(archive, "api", fate, Why.OLDER, NOW - timedelta(hours=hours))


def test_the_longest_known_go_first_and_no_more_objects_than_allowed() -> None:
    verdicts = [due(5, 3), due(6, 9), due(7, 5), due(8, 99, Fate.WAITING)]
    chosen = choose(verdicts, 99)
    assert [each.archive.op_id.int for each in chosen] == [6, 7, 5]
    first, second = choose(verdicts, 3)
    assert first.archive.objects == verdicts[1].archive.objects
    assert [each.key for each in second.archive.objects] == [meta_key(key(7))]
    assert choose(verdicts, 0) == ()


ANY_HOLDER = st.builds(
    holder,
    archive_key=st.sampled_from([None, *(key(op) for op in range(5, 9))]),
    op_id=st.sampled_from([None, *(UUID(int=op) for op in range(5, 9))]),
    in_error=st.booleans(),
    wanted=st.booleans(),
)
ANY_STOCK = st.lists(
    st.tuples(st.integers(5, 8), st.integers(0, 9), st.booleans()), unique_by=lambda each: each[0]
)


@settings(max_examples=300)
@given(ANY_HOLDER, ANY_STOCK, st.dictionaries(st.integers(5, 8), st.integers(0, 99)))
def test_whatever_the_database_says_the_newest_archive_is_never_due(
    known: Holder, written: list[tuple[int, int, bool]], seen: dict[int, int]
) -> None:
    """As long as a workspace is not purged, its archive in use and its newest one stay."""
    inventory = stock(*(objects(op, hours, meta=meta) for op, hours, meta in written))
    candidates = {key(op): NOW - timedelta(hours=hours) for op, hours in seen.items()}
    verdicts = weigh(inventory, ledger(known, candidates=candidates), PATIENCE)
    due_now = {each.archive.key for each in verdicts if each.fate is Fate.DUE}
    assert known.archive_key not in due_now
    assert due_now <= candidates.keys()

    def newest(one: StoredArchive) -> Any:
        return one.ended_at

    if inventory.archives:
        assert max(inventory.archives, key=newest).key not in due_now
