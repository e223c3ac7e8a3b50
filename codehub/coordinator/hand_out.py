"""Giving free hands to those that wait to begin, for a while after the look that found them.

A look costs as much as the hub is large. An act that ends soon makes room for the next in line
without one: were hands given out once a look, a long line would take the square of its length.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from codehub.coordinator.acts import DATA_MOVES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from codehub.coordinator.acts import Acts
    from codehub.coordinator.case import Case


async def hand_out(
    claims: Iterable[Case], acts: Acts, begin: Callable[[Case], Awaitable[object]], seconds: float
) -> list[Case]:
    """Begin one after the other as hands are free or become so in time; gives what is left.

    Data moves have hands of their own, so they stand in a line of their own.
    """
    lines: dict[bool, deque[Case]] = {False: deque(), True: deque()}
    for each in claims:
        lines[each.decision_operation in DATA_MOVES].append(each)
    clock = asyncio.get_running_loop().time
    until = clock() + seconds
    while True:
        for line in lines.values():
            while line and acts.has_room(line[0].decision_operation):
                await begin(line.popleft())
        left = until - clock()
        if not any(lines.values()) or not acts.busy or left <= 0:
            return [each for line in lines.values() for each in line]
        await acts.turn(left)
