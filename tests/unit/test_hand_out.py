"""Who gets a free hand, and when the next in line has to wait for another look."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from codehub.coordinator.case import Case
from codehub.coordinator.hand_out import hand_out
from codehub.coordinator.seen import NOTHING
from codehub.model.conditions import Facts
from codehub.model.decision import Claim
from codehub.model.states import Operation, Phase
from tests.make import workspace

if TYPE_CHECKING:
    from codehub.coordinator.acts import Acts

pytestmark = pytest.mark.anyio

STARTING, ARCHIVING = Operation.STARTING, Operation.ARCHIVING


class Hands:
    """Some hands for each operation; what is under way ends one after the other, if `ending`."""

    def __init__(self, limit: int, *, ending: bool = True) -> None:
        self.limit = limit
        self.ending = ending
        self.begun: list[str] = []
        self.under_way: list[Operation] = []
        self.most = 0

    @property
    def busy(self) -> bool:
        return bool(self.under_way)

    def has_room(self, operation: Operation) -> bool:
        return self.under_way.count(operation) < self.limit

    async def turn(self, seconds: float) -> None:
        assert seconds > 0
        if self.ending:
            self.under_way.pop(0)

    async def begin(self, case: Case) -> None:
        self.begun.append(case.seen.name)
        self.under_way.append(case.decision_operation)
        self.most = max(self.most, len(self.under_way))

    async def hand_out(self, *claims: Case, seconds: float) -> list[str]:
        left = await hand_out(claims, cast("Acts", self), self.begin, seconds)
        return [each.seen.name for each in left]


def claim(name: str, operation: Operation = STARTING) -> Case:
    row = workspace(name)
    return Case(row, row, NOTHING, Facts(), Claim(operation, Phase.STANDBY, "wanted"))


async def test_an_act_that_ends_makes_room_for_the_next_in_line() -> None:
    hands = Hands(2)
    left = await hands.hand_out(*map(claim, "abcde"), seconds=60)
    assert left == []
    assert hands.begun == [*"abcde"]
    assert hands.most == 2


async def test_when_the_time_is_over_the_rest_waits_in_its_order() -> None:
    hands = Hands(2, ending=False)
    assert await hands.hand_out(*map(claim, "abcde"), seconds=0) == [*"cde"]
    assert await hands.hand_out(*map(claim, "cde"), seconds=0.01) == [*"cde"]
    assert hands.begun == [*"ab"]


async def test_who_finds_every_hand_free_waits_for_nothing() -> None:
    hands = Hands(8, ending=False)
    assert await hands.hand_out(claim("a"), claim("b"), seconds=60) == []


async def test_data_moves_stand_in_nobodys_way() -> None:
    hands = Hands(1, ending=False)
    archives = [claim("a", ARCHIVING), claim("b", ARCHIVING)]
    left = await hands.hand_out(*archives, claim("c"), claim("d"), seconds=0)
    assert sorted(hands.begun) == ["a", "c"]
    assert sorted(left) == ["b", "d"]


async def test_without_a_hand_at_all_nobody_is_waited_for() -> None:
    assert await Hands(0).hand_out(claim("a"), seconds=60) == ["a"]
