"""Durations, sizes and percentages as people write them."""

from __future__ import annotations

import pytest

from codehub.model.scalars import parse_busy_cpu, parse_duration, parse_memory, parse_ttl
from codehub.model.workspace import NEVER


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("3h", 10_800), ("7d", 604_800), (45, 45), ("45", 45)],
)
def test_a_duration_is_read(text: object, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "value", ["3 hours", "3H", "1h30m", "", "h", "1.5h", 1.5, True, None, [], "9" * 5000 + "s"]
)
def test_anything_else_is_no_duration(value: object) -> None:
    with pytest.raises(ValueError, match="must be a duration"):
        parse_duration(value)


@pytest.mark.parametrize("value", [0, -1, "0", "0s", "-5m"])
def test_a_duration_of_nothing_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="must be longer than zero"):
        parse_duration(value)


@pytest.mark.parametrize("value", ["3651d", 10**12])
def test_a_duration_has_an_end(value: object) -> None:
    with pytest.raises(ValueError, match="ten years"):
        parse_duration(value)


def test_a_ttl_may_be_off() -> None:
    assert parse_ttl("never") == NEVER
    with pytest.raises(ValueError, match="'never' switches it off"):
        parse_ttl(0)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512Mi", 512 * 2**20),
        ("4Gi", 4 * 2**30),
        ("1.5Gi", 3 * 2**29),
        ("500M", 500 * 10**6),
        ("8000k", 8_000_000),
        ("2G", 2 * 10**9),
        ("16777216", 2**24),
        (2**24, 2**24),
    ],
)
def test_a_size_is_read(text: object, size: int) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize("value", ["4GB", "four", "", "-4Gi", "4 Gi", True, 1.5, None, 10**30])
def test_anything_else_is_no_size(value: object) -> None:
    with pytest.raises(ValueError, match="must be a size"):
        parse_memory(value)


@pytest.mark.parametrize("value", [4, "0", "1Mi", "65Ti"])
def test_a_size_that_cannot_be_meant_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="from 6Mi to 64Ti"):
        parse_memory(value)


def test_busy_is_a_percentage_or_off() -> None:
    assert parse_busy_cpu("25%") == 25
    assert parse_busy_cpu("off") == 0
    for value in ("25", 25, "0%", "%", True, "on"):
        with pytest.raises(ValueError, match="must be a percentage"):
            parse_busy_cpu(value)
