"""What must hold after every step of every fault test (design, part 7)."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import zstandard

from codehub.core.judge import MAKES_VOLUME
from codehub.core.keys import meta_key
from codehub.model.states import ErrorReason
from tests.chaos.picture import versions
from tests.chaos.stage import ARCHIVES, FILE, VOLUMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from tests.chaos.picture import Picture
    from tests.chaos.stage import Stage


async def check(stage: Stage) -> Picture:
    """I1 to I5 and I7 to I9; that no stale epoch writes (I6) is checked where there are two."""
    seen = await stage.take_picture()
    check_data(seen, stage.work)
    check_always(seen)
    return seen


def check_always(seen: Picture) -> None:
    """What must hold whatever people did to homes and archives."""
    check_mounts(seen)
    check_keys(seen)
    check_error(seen)
    check_operations(seen)


def check_data(seen: Picture, work: str | None) -> None:
    """I1, I5, I7: where the row leads there is all that was typed, and nothing empty instead."""
    row = seen.row
    gone = row["operation"] in MAKES_VOLUME or row["error_reason"] == ErrorReason.DATA_LOST
    home = None if gone else row["home_store_key"]
    if home is not None:
        assert in_home(seen, home) == work, f"I1, I7: not in the home: {told(row)}"
    if row["archive_key"] is not None:
        packed = find_archive(seen, row["archive_key"])
        assert packed is not None, f"I5: the archive that is recorded is not there: {told(row)}"
        assert home or unpacked(packed) == work, f"I1, I7: not in the archive: {told(row)}"
    elif home is None:
        assert work is None, f"I1: nothing leads to what was typed: {told(row)}"


def in_home(seen: Picture, home: str) -> str | None:
    """What a volume holds; None when it is empty or not there."""
    found = seen.files.get(f"{VOLUMES}/{home}/{FILE}")
    return None if found is None else found.decode()


def find_archive(seen: Picture, key: str) -> bytes | None:
    """An archive as it lies in the store; None unless it is what its commit marker says."""
    packed = seen.files.get(f"{ARCHIVES}/{key}")
    meta = seen.files.get(f"{ARCHIVES}/{meta_key(key)}")
    if packed is None or meta is None:
        return None
    return packed if hashlib.sha256(packed).hexdigest() == json.loads(meta)["sha256"] else None


@lru_cache(maxsize=256)
def unpacked(packed: bytes) -> str | None:
    """What was typed, out of an archive; None when the home was empty."""
    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed)) as stream:
        data = stream.read()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        member = next((each for each in tar if each.name.endswith(FILE)), None)
        file = None if member is None else tar.extractfile(member)
        return None if file is None else file.read().decode()


def check_mounts(seen: Picture) -> None:
    """I2 and I3: one container at most, and never on a volume that was retired.

    Every home is of a later generation than those before it, so no launch is on an earlier one.
    """
    row = seen.row
    given_out = {f"ws-{row['id']}-home-g{each + 1}" for each in range(row["home_generation"])}
    assert given_out >= set(seen.mounts), "a volume was mounted that nobody gave out"
    users = Counter(each.volume for each in seen.crowd if each.volume)
    assert not users or max(users.values()) == 1, f"I2: one volume, two containers: {seen.crowd}"
    retired = row["home_ctx"].get("retired", ())
    for each in seen.crowd:
        assert not each.running or each.volume not in retired, "I3: a retired volume is mounted"
    order = [int(name.rpartition("-g")[2]) for name in seen.mounts]
    assert order == sorted(order), f"I3: an earlier volume is mounted again: {order}"


def check_keys(seen: Picture) -> None:
    """I4: whatever is written is written once."""
    assert len(seen.written) == len(set(seen.written)), "I4: a key was written twice"


async def check_epoch(conn: AsyncConnection[DictRow], before: object) -> None:
    """I6: nobody has written since, in any table that a leader writes."""
    assert await versions(conn) == before, "I6: a stale epoch wrote"


def check_error(seen: Picture) -> None:
    """I8: nothing is under way in ERROR, and whoever looks at it is told why."""
    if seen.row["phase"] == "ERROR":
        assert seen.row["operation"] == "NONE", "I8: ERROR with an operation"
        assert seen.row["error_reason"], f"ERROR without a reason: {told(seen.row)}"


def check_operations(seen: Picture) -> None:
    """I9: by the audit, each operation begins when none is under way."""
    following = zip(seen.operations, seen.operations[1:], strict=False)
    chained = all(before == after for (_, before), (after, _) in following)
    assert chained, f"I9: they do not follow each other: {seen.operations}"
    assert all("NONE" in each for each in seen.operations), f"I9: replaced: {seen.operations}"


def is_tidy(stage: Stage, row: Mapping[str, Any]) -> bool:
    """At rest all is known and nothing left over: no stray, no container but that of the home.

    What was deleted without its home, which was missing, still knows that home's name. What was
    given up and came back stays beside it.
    """
    home = {row["home_store_key"]} - {None}
    kept = set(row["home_ctx"].get("given_up", ()))
    there = {path.name for path in stage.runtime.root.iterdir()} - kept
    containers = (*stage.runtime.containers.values(), *stage.runtime.beside)
    return (
        row["operation"] == "NONE"
        and all(each["status"] != "Unknown" for each in row["conditions"].values())
        and not row["home_ctx"].get("retired")
        and (there == home or (row["deleted_at"] is not None and there < home))
        and [each.running for each in containers] == [True] * (row["phase"] == "RUNNING")
    )


def told(row: Mapping[str, Any]) -> str:
    """The columns that matter, for messages."""
    names = ("phase", "operation", "op_id", "home_store_key", "home_ctx", "archive_key")
    shown = (
        "conditions",
        "error_reason",
        "error_message",
        "error_count",
        "desired_state",
        "retry_at",
    )
    return ", ".join(f"{name}={row[name]}" for name in (*names, *shown))
