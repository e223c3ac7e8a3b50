"""How activity is kept in Redis: a sorted set of `{workspace_id}:{source}`, by milliseconds.

The time of each is Redis's own minus an age, so the clocks of those who report do not matter. Times
only ever move forward, and what was read is removed only if nothing newer came for it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final
from uuid import UUID

from codehub.model.signals import Sighting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND: Final = timedelta(milliseconds=1)
CHUNK: Final = 5_000
"""Members for one script: others who use the same Redis wait while it runs."""

RECORD: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 1, #ARGV, 2 do
  local at = math.max(0, now - ARGV[i + 1])
  redis.call('ZADD', KEYS[1], 'GT', string.format('%.0f', at), ARGV[i])
end
"""
"""ARGV: member, age in milliseconds, member, age, …"""

FORGET: Final = """
for i = 1, #ARGV, 2 do
  if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[i])) == tonumber(ARGV[i + 1]) then
    redis.call('ZREM', KEYS[1], ARGV[i])
  end
end
"""
"""ARGV: member, the score that was seen, member, score, …"""


def record_arguments(ages: Mapping[tuple[UUID, str], timedelta]) -> Iterator[list[str | int]]:
    """Arguments for RECORD, a chunk at a time. Nothing is active in the future."""
    return _chunks(
        (f"{workspace_id}:{source}", max(0, age // MILLISECOND))
        for (workspace_id, source), age in ages.items()
    )


def forget_arguments(seen: Iterable[Sighting]) -> Iterator[list[str | int]]:
    """Arguments for FORGET, a chunk at a time."""
    return _chunks((_member(each), (each.at - EPOCH) // MILLISECOND) for each in seen)


def sightings(members: Iterable[tuple[bytes, float]]) -> Iterator[Sighting]:
    """What members and scores say; those that are not ours are passed over."""
    for member, score in members:
        found = _sighting(member, score)
        if found:
            yield found


def moment(time: Sequence[int]) -> datetime:
    """What TIME answered: seconds and microseconds."""
    return EPOCH + timedelta(seconds=time[0], microseconds=time[1])


def _sighting(member: bytes, score: float) -> Sighting | None:
    """None for what would not become the same member again: it could never be forgotten."""
    try:
        number, _, source = member.decode().partition(":")
        found = Sighting(UUID(number), source, EPOCH + int(score) * MILLISECOND)
    except (ValueError, OverflowError):
        return None
    same = _member(found).encode() == member and int(score) == score >= 0
    return found if same else None


def _member(sighting: Sighting) -> str:
    return f"{sighting.workspace_id}:{sighting.source}"


def _chunks(pairs: Iterable[tuple[str, int]]) -> Iterator[list[str | int]]:
    flat = [each for pair in pairs for each in pair]
    for start in range(0, len(flat), 2 * CHUNK):
        yield flat[start : start + 2 * CHUNK]
