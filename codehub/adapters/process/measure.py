"""CPU and memory of a workspace, from one look at its processes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from codehub.model.runtime import Stats

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from codehub.adapters.process.find import Process


def measure(members: Sequence[Process], at: datetime) -> Stats:
    """What these processes have used.

    CPU includes ended children that were waited for, so a build of many short processes counts.
    Memory is what is resident; pages that processes share count for each of them.
    """
    ticks = sum(each.cpu_ticks for each in members)
    pages = sum(each.resident_pages for each in members)
    return Stats(
        cpu_seconds=ticks / os.sysconf("SC_CLK_TCK"),
        memory_bytes=pages * os.sysconf("SC_PAGE_SIZE"),
        at=at,
    )
