"""A way out of the coordinator that no fault can strike at must not come to be unnoticed."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

import codehub.coordinator
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
HARMLESS = {(ports.ObjectReader, "__enter__"), (ports.ObjectReader, "__exit__")}
"""Opening and closing what is only read changes nothing that anybody could see."""

SOURCES = sorted(Path(codehub.coordinator.__file__).parent.glob("*.py"))
LANGUAGE = {
    "__future__",
    "asyncio",
    "collections",
    "concurrent.futures",
    "contextlib",
    "dataclasses",
    "datetime",
    "enum",
    "functools",
    "json",
    "logging",
    "random",
    "secrets",
    "typing",
    "uuid",
}
"""What of Python the coordinator uses: nothing of it reaches the outside."""
OURS = (
    *("cancelling", "config", "coordinator", "core", "errors", "jobs", "model", "ports", "store"),
    *("telemetry.instruments", "telemetry.logs"),
)
"""The ports, the store (through the connection) and the job code are struck at. Counting and naming
what goes on stays in memory; showing it (`telemetry.exposition`) is none of the coordinator's."""
EXCEPTIONS = {
    # Who this process is, for the audit of elections.
    ("coordinator.py", "os"),
    ("coordinator.py", "socket"),
    # Shared with commands: the store through its port, limits and secrets by reading alone.
    ("coordinator.py", "codehub.service.rules"),
    ("gc.py", "codehub.service.collecting"),
    ("marker.py", "codehub.service.collecting"),
    ("hear.py", "codehub.service.secrets"),
    ("steps.py", "codehub.service.secrets"),
    ("webhooks.py", "codehub.service.secrets"),
    # Threads that nobody waits for at the end; what runs in them is a call of the port.
    ("shelf.py", "codehub.service.threads"),
    # What came through the port, cut short.
    ("hear.py", "codehub.adapters.words"),
    # What is asked of the leader, answered through the connection alone.
    ("webhooks.py", "codehub.service.notifying"),
    # Pages are written anew after every change; specs are read and loaded all or nothing.
    ("pages.py", "codehub.service.reporting"),
    ("watch.py", "codehub.service.loading"),
    ("watch.py", "codehub.service.planning"),
    ("watch.py", "codehub.specs.watch"),
}
WAYS_OUT = {"open", "exec", "eval", "__import__", "import_module"}
WRITES = {
    "write_text",
    "write_bytes",
    "mkdir",
    "rmdir",
    "unlink",
    "rename",
    "touch",
    "symlink_to",
    "create_subprocess_exec",
    "create_subprocess_shell",
    "open_connection",
    "start_server",
}


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


@pytest.mark.parametrize("source", SOURCES, ids=lambda each: each.name)
def test_the_coordinator_reaches_the_outside_through_its_seams_alone(source: Path) -> None:
    tree = ast.parse(source.read_text())
    imported = set(_imports(tree))
    foreign = {
        (source.name, name)
        for name in imported
        if name not in LANGUAGE and not name.startswith(tuple(f"codehub.{each}" for each in OURS))
    }
    assert foreign <= EXCEPTIONS, "a new way out: give it a seam in tests/chaos, or say why not"
    called = {_called(each) for each in ast.walk(tree) if isinstance(each, ast.Call)}
    assert not called & (WAYS_OUT | WRITES), source.name


def test_no_exception_is_left_over() -> None:
    there = {
        (source.name, name)
        for source in SOURCES
        for name in _imports(ast.parse(source.read_text()))
    }
    assert there >= EXCEPTIONS


def _imports(tree: ast.AST) -> Iterator[str]:
    """The modules that are really imported; what is for the type checker alone is not."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and _called(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        yield from _imports(node)


def _called(node: ast.AST) -> str:
    """The last part of a name: what `a.b.c(…)` calls is `c`."""
    target = node.func if isinstance(node, ast.Call) else node
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(target, ast.Name) else ""


@pytest.mark.anyio
async def test_the_calls_of_each_scenario(theatre: Theatre, snapshot: SnapshotAssertion) -> None:
    lines = []
    async with theatre.stage() as stage:
        for scenario in SCENARIOS:
            calls = await theatre.calls(stage, scenario)
            assert "runtime.list" in calls
            lines += [f"{scenario.name}:", *(f"    {each}" for each in sorted(set(calls)))]
    assert "\n".join(lines) + "\n" == snapshot(extension_class=TextFile)
