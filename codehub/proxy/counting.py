"""Counting what is open, for as many as have something open: nothing is kept of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Hashable

Key = TypeVar("Key", bound="Hashable")


def count_down(counted: Counter[Key], key: Key) -> None:
    """One less; whoever has none is forgotten."""
    counted[key] -= 1
    if not counted[key]:
        del counted[key]
