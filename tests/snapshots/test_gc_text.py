"""What `codehub gc` prints: each archive's fate for people and scripts, and what was done."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from codehub.core.collect import NO_MARK, expire, sort_objects, weigh
from codehub.core.keys import build_key, epoch_key, marker_key, meta_key
from codehub.model.archive import ArchiveKey
from codehub.model.collection import Collected, Holder, Ledger, Survey
from codehub.model.runtime import ObjectInfo
from codehub.render.gc_text import (
    collected_json,
    collected_text,
    readable,
    survey_json,
    survey_text,
)
from tests.make import NOW

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

HUB = UUID(int=1)
API, SAD, OLD, LOST, MOVED, NEWER = (UUID(int=number) for number in range(2, 8))
DAY = timedelta(days=1)


def key(workspace: UUID, op: int) -> str:
    return build_key(ArchiveKey(HUB, workspace, UUID(int=op), "1"))


def stored(workspace: UUID, op: int, hours: float, *, size: int = 3_400_000) -> list[ObjectInfo]:
    at = NOW - timedelta(hours=hours)
    name = key(workspace, op)
    return [ObjectInfo(name, size, at), ObjectInfo(meta_key(name), 500, at)]


OBJECTS = (
    ObjectInfo(marker_key(HUB), 40, NOW),
    ObjectInfo(epoch_key(HUB, 4), 40, NOW),
    ObjectInfo(f"{HUB}/notes.txt", 40, NOW),
    *stored(API, 10, 50),
    *stored(API, 11, 40, size=2_000),
    *stored(API, 12, 30)[:1],
    *stored(API, 13, 20, size=5_000_000_000),
    *stored(API, 14, 10),
    *stored(API, 15, 1)[:1],
    *stored(SAD, 10, 50),
    *stored(SAD, 11, 40),
    *stored(OLD, 10, 900),
    *stored(NEWER, 10, 30),
    *stored(NEWER, 11, 20),
    *stored(LOST, 10, 2),
    *stored(MOVED, 10, 900),
)
HOLDERS = (
    Holder(
        API,
        "api",
        key(API, 13),
        op_id=UUID(int=15),
        noted=frozenset(str(UUID(int=op)) for op in (13, 14)),
    ),
    Holder(SAD, "sad\x1b[31m", key(SAD, 11), in_error=True),
    Holder(OLD, "old", key(OLD, 10), wanted=False, deleted_at=NOW - 8 * DAY),
    Holder(NEWER, "restored", key(NEWER, 11), noted=frozenset({str(UUID(int=11))})),
)
LEDGER = Ledger(
    NOW,
    {each.id: each for each in HOLDERS},
    {key(API, 10): NOW - timedelta(hours=4), key(API, 11): NOW - timedelta(minutes=30)},
    confirmed_at=NOW - 2 * DAY,
    noted_since=NOW - timedelta(hours=35),
)
DONE = Collected(
    kept=7,
    waiting=2,
    deleted=3,
    objects=6,
    bytes=1_234_567,
    postponed=4,
    aborted_uploads=1,
    purged=("old", "older\n"),
    confirmed=True,
)


def survey(**fields: Any) -> Survey:
    inventory = sort_objects(HUB, OBJECTS)
    verdicts = weigh(inventory, expire(LEDGER, 7 * DAY), timedelta(hours=2))
    return Survey(HUB, NOW, verdicts, inventory.others, ("old",), **fields)


def test_each_archives_fate(text_snapshot: SnapshotAssertion) -> None:
    text = survey_text(survey())
    assert "\x1b" not in text
    assert "marker.json" not in text
    assert text == text_snapshot


def test_why_nothing_is_collected(text_snapshot: SnapshotAssertion) -> None:
    text = survey_text(Survey(HUB, NOW, (), obstacle=NO_MARK))
    assert "--confirm-restored" in text
    assert text == text_snapshot


def test_each_archives_fate_for_scripts() -> None:
    data = json.loads(survey_json(survey()))
    fates = [each["fate"] for each in data["archives"]]
    assert fates.count("due") == 1
    assert data["obstacle"] is None
    assert data["retentionOver"] == ["old"]
    assert None in [each["workspace"] for each in data["archives"]]
    assert len(data["archives"][0]["objects"]) == 2
    assert json.loads(survey_json(survey(obstacle=NO_MARK)))["obstacle"]["hint"]


def test_what_was_done(text_snapshot: SnapshotAssertion) -> None:
    text = collected_text(DONE)
    assert "Deleted 3 archives" in text
    assert text == text_snapshot


def test_what_was_done_for_scripts() -> None:
    data = json.loads(collected_json(DONE))
    assert (data["deleted"], data["abortedUploads"], data["confirmed"]) == (3, 1, True)


def test_nothing_to_do_is_one_line() -> None:
    assert collected_text(Collected(kept=2)) == "Deleted 0 archives (0 B); 2 kept, 0 waiting.\n"


def test_sizes_are_readable() -> None:
    sizes = [readable(count) for count in (0, 1023, 1024, 1 << 20, 5_000_000_000)]
    assert sizes == ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "4.7 GiB"]
