"""A call of a port that no fault can strike at must not come to be unnoticed.

What reaches the outside beside the ports is looked for in `test_ways_out.py`.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from codehub import ports
from tests.chaos import seams
from tests.chaos.scenarios import SCENARIOS
from tests.chaos.script import Crash, Script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from syrupy.assertion import SnapshotAssertion

    from tests.chaos.theatre import Theatre


class _Nothing:
    """What no call may get to."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        def reached(*_: object, **__: object) -> None:
            raise AssertionError(f"{name} was reached")

        return reached


NOTHING: Any = _Nothing()
SEAMS: dict[type, Callable[[Script], object]] = {
    ports.Runtime: lambda script: seams.ScriptedRuntime(NOTHING, script),
    ports.ObjectStore: lambda script: seams.ScriptedStore(NOTHING, script, []),
    ports.ObjectWriter: lambda script: seams.ScriptedWriter(NOTHING, script, lambda: None),
    ports.ObjectReader: lambda script: seams.ScriptedReader(NOTHING, script),
    ports.Mover: lambda script: seams.ScriptedMover(NOTHING, script),
    ports.Signals: lambda script: seams.ScriptedSignals(NOTHING, script),
    ports.Notifier: lambda script: seams.ScriptedNotifier(NOTHING, script),
}
"""How the seam of each port is made, with nothing behind it."""
PREFIXES: dict[type, str] = {
    ports.Runtime: "runtime",
    ports.ObjectStore: "store",
    ports.ObjectWriter: "store",
    ports.ObjectReader: "store",
    ports.Mover: "mover",
    ports.Signals: "signals",
    ports.Notifier: "notifier",
}
"""What the calls of each port are called in a script."""
ELSEWHERE = {
    # Nobody in the coordinator makes these: the proxy and the web do.
    *("runtime.upstream", "signals.record_activity", "signals.subscribe", "signals.follow"),
    # Looks, of which nothing follows but a word or a sooner look.
    *("runtime.logs", "runtime.events"),
    # A hint for others; who misses it looks by themselves (`tests/integration/test_listen.py`).
    "signals.publish",
    # The end of the process.
    *("runtime.close", "signals.close"),
    # After a strike alone: so the second one of a pair meets it.
    "store.abort",
    # In a world of its own: `test_webhook_crashes.py`.
    "notifier.post",
}
"""Calls that no scenario makes while nothing strikes."""
HARMLESS = {(ports.ObjectReader, "__enter__"), (ports.ObjectReader, "__exit__")}
"""Opening and closing what is only read changes nothing that anybody could see."""


class TextFile(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "txt"


def _calls() -> Iterator[tuple[type, str]]:
    """Every method of every port, as its Protocol declares it."""
    for port in SEAMS:
        for name, value in vars(port).items():
            of_python = value.__module__ != ports.__name__ if inspect.isfunction(value) else True
            if not of_python and (port, name) not in HARMLESS:
                yield port, name


def _name(value: object) -> str:
    return value.__name__ if inspect.isclass(value) else str(value)


def test_every_port_has_its_seam() -> None:
    declared = {
        each
        for each in vars(ports).values()
        if inspect.isclass(each) and each is not Protocol and Protocol in each.__bases__
    }
    assert declared == set(SEAMS)
    assert len([*_calls()]) > 25


@pytest.mark.anyio
@pytest.mark.parametrize(("port", "name"), [*_calls()], ids=_name)
async def test_a_dead_leader_reaches_nothing_through_this_call(port: type, name: str) -> None:
    script = Script()
    script.kill()
    with pytest.raises(Crash):
        await _call(getattr(SEAMS[port](script), name))


async def _call(method: Callable[..., Any]) -> None:
    answer = method(**dict.fromkeys(inspect.signature(method).parameters, ()))
    if inspect.isasyncgen(answer):
        await anext(answer)
    elif inspect.isawaitable(answer):
        await answer


@pytest.mark.anyio
async def test_the_calls_of_each_scenario(theatre: Theatre, snapshot: SnapshotAssertion) -> None:
    lines = []
    async with theatre.stage() as stage:
        for scenario in SCENARIOS:
            calls = await theatre.calls(stage, scenario)
            assert "runtime.list" in calls
            lines += [f"{scenario.name}:", *(f"    {each}" for each in sorted(set(calls)))]
    assert "\n".join(lines) + "\n" == snapshot(extension_class=TextFile)


@pytest.mark.anyio
async def test_every_call_of_a_port_is_struck_at_in_some_scenario(theatre: Theatre) -> None:
    declared = {f"{PREFIXES[port]}.{name}" for port, name in _calls()}
    async with theatre.stage() as stage:
        made = {each for scenario in SCENARIOS for each in await theatre.calls(stage, scenario)}
    assert declared - made == ELSEWHERE
