"""Answers kept for a second: one question at a time, the last answer while there is no other."""

from __future__ import annotations

import asyncio

import pytest

from codehub.errors import Unreachable
from codehub.proxy import routes
from codehub.proxy.routes import Remembered

pytestmark = pytest.mark.anyio


class World:
    """Somebody to ask, and the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked = 0
        self.heard = asyncio.Event()
        self.answer: str | None = "here"
        self.fails = False
        self.held: asyncio.Event | None = None
        self.remembered = Remembered(self.ask, clock=lambda: self.now)

    async def ask(self, key: str) -> str | None:
        self.asked += 1
        self.heard.set()
        if self.held is not None:
            await self.held.wait()
        if self.fails:
            raise Unreachable("nobody answers")
        return self.answer and f"{key} {self.answer}"


async def test_an_answer_is_good_for_a_second() -> None:
    world = World()
    assert await world.remembered.get("a") == "a here"
    world.answer = "there"
    world.now = 0.9
    assert await world.remembered.get("a") == "a here"
    world.now = 1.0
    assert await world.remembered.get("a") == "a there"
    assert world.asked == 2


async def test_nothing_is_an_answer_too() -> None:
    world = World()
    world.answer = None
    assert await world.remembered.get("a") is None
    assert await world.remembered.get("a") is None
    assert world.asked == 1


async def test_many_who_want_to_know_ask_once() -> None:
    world = World()
    world.held = asyncio.Event()
    waiting = [asyncio.create_task(world.remembered.get("a")) for _ in range(20)]
    await world.heard.wait()
    world.held.set()
    assert set(await asyncio.gather(*waiting)) == {"a here"}
    assert world.asked == 1


async def test_what_was_known_holds_while_nobody_answers() -> None:
    world = World()
    await world.remembered.get("a")
    world.fails, world.now = True, 5.0
    assert await world.remembered.get("a") == "a here"
    assert await world.remembered.get("a") == "a here"
    assert world.asked == 2
    world.fails, world.answer, world.now = False, "back", 6.5
    assert await world.remembered.get("a") == "a back"


async def test_what_nobody_ever_knew_is_an_error_and_is_asked_again() -> None:
    world = World()
    world.fails = True
    for _ in range(2):
        with pytest.raises(Unreachable):
            await world.remembered.get("a")
    assert world.asked == 2


async def test_a_slow_answer_is_not_waited_for_when_one_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routes, "PATIENCE_SECONDS", 0.01)
    world = World()
    await world.remembered.get("a")
    world.held, world.now = asyncio.Event(), 5.0
    assert await world.remembered.get("a") == "a here"
    await world.remembered.close()


async def test_what_turned_out_wrong_is_asked_again_at_once() -> None:
    world = World()
    await world.remembered.get("a")
    world.answer = "moved"
    world.remembered.age("a")
    world.remembered.age("never asked for")
    assert await world.remembered.get("a") == "a moved"


async def test_names_that_nobody_has_do_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routes, "MOST", 3)
    world = World()
    for number in range(10):
        await world.remembered.get(f"n{number}")
    assert await world.remembered.get("n9") == "n9 here"
    assert world.asked == 10
    await world.remembered.get("n0")
    assert world.asked == 11


async def test_a_caller_that_leaves_does_not_end_the_question_of_others() -> None:
    world = World()
    world.held = asyncio.Event()
    leaving = asyncio.create_task(world.remembered.get("a"))
    staying = asyncio.create_task(world.remembered.get("a"))
    await world.heard.wait()
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    world.held.set()
    assert await staying == "a here"
