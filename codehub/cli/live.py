"""Showing workspaces as they move: drawn again and again on a terminal, line by line elsewhere.

Used by `--wait` and `status --watch`. rich is imported for terminals alone.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AbstractContextManager, ExitStack, aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

import typer

from codehub.errors import CodeHubError, Interrupted
from codehub.model.outcome import Failed
from codehub.render.progress_text import (
    NOBODY_LEADS,
    block_lines,
    change_data,
    change_json,
    change_line,
    settled_text,
    unfinished_text,
)
from codehub.render.words import clean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from rich.text import Text

    from codehub.model.outcome import Snapshot
    from codehub.service.settling import Customs
    from codehub.wiring import HubChoice

COLOURS: Final = {
    r"\bRUNNING\b": "green",
    r"\b(ERROR|DELETED)\b": "red",
    r"\b[A-Z_]+ING\b(?<!RUNNING)(?<!PENDING)": "cyan",
}
GOES_ON: Final = "nothing is undone, the hub goes on; 'codehub status --watch' follows it"
START_ONE: Final = (
    "no coordinator is running, and what was asked for is kept until one does: "
    "start 'codehub up' or 'codehub serve coordinator'"
)


class View(Protocol):
    """Shows what is followed, as often as there is something new."""

    def show(self, snapshot: Snapshot) -> None: ...


async def wait_until_settled(choice: HubChoice, names: Sequence[str], seconds: int) -> bool:
    """Show them until nothing moves or the time is over; False if any failed or is not done.

    While nobody leads, what is stored may be old: that nothing moves then says nothing.
    """
    from codehub.service.settling import follow
    from codehub.wiring import open_hub

    last: Snapshot | None = None
    try:
        with ExitStack() as stack:
            view = _view(stack, told=True)
            found = follow(
                lambda: open_hub(choice),
                names,
                customs=_customs(),
                patience=float(seconds),
                endless=True,
            )
            async with aclosing(found) as snapshots:
                async for last in snapshots:
                    view.show(last)
                    if last.over and last.led:
                        break
    except asyncio.CancelledError:
        raise Interrupted(
            "interrupted: nothing is undone; the hub goes on", hint="see 'codehub status --watch'"
        ) from None
    return last is not None and _conclude(last, seconds)


async def watch(choice: HubChoice, names: Sequence[str] | None, *, json: bool) -> None:
    """Show them until somebody ends it."""
    from codehub.service.settling import follow
    from codehub.wiring import open_hub

    with ExitStack() as stack:
        view = JsonLines() if json else _view(stack, told=False)
        found = follow(lambda: open_hub(choice), names, customs=_customs(), endless=True)
        async with aclosing(found) as snapshots:
            async for snapshot in snapshots:
                view.show(snapshot)


def _view(stack: ExitStack, *, told: bool) -> View:
    """`told` says that the lack of a coordinator was told already."""
    if sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb"):
        return stack.enter_context(Block())
    return Lines(told=told)


class Lines:
    """One line for each change, with the time of day."""

    def __init__(self, *, told: bool) -> None:
        self._said: dict[UUID, str] = {}
        self._trouble = NOBODY_LEADS if told else ""

    def show(self, snapshot: Snapshot) -> None:
        at = f"{snapshot.at.astimezone():%H:%M:%S}"
        trouble = _trouble(snapshot)
        if trouble not in ("", self._trouble):
            typer.echo(f"{at} {trouble}")
        self._trouble = trouble
        for each in snapshot.followed:
            line = change_line(each)
            if self._said.get(each.workspace.id) != line:
                self._said[each.workspace.id] = line
                typer.echo(f"{at} {line}")


class JsonLines:
    """One JSON object for each change; what is said of the hub itself goes to stderr."""

    def __init__(self) -> None:
        self._said: dict[UUID, dict[str, object]] = {}
        self._trouble = ""

    def show(self, snapshot: Snapshot) -> None:
        trouble = _trouble(snapshot)
        if trouble not in ("", self._trouble):
            typer.echo(trouble, err=True)
        self._trouble = trouble
        for each in snapshot.followed:
            data = {**change_data(each, snapshot.at), "at": None}
            if self._said.get(each.workspace.id) != data:
                self._said[each.workspace.id] = data
                typer.echo(change_json(each, snapshot.at))


class Block(AbstractContextManager["Block"]):
    """All of them on a terminal, drawn again in place; the last drawing stays."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(highlight=False, markup=False)
        self._live = Live(console=self._console, auto_refresh=False, redirect_stderr=False)

    def __enter__(self) -> Block:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, snapshot: Snapshot) -> None:
        size = self._console.size
        here = replace(snapshot, at=snapshot.at.astimezone())
        # One line stays free: a full screen would scroll at every drawing.
        lines = block_lines(here, width=size.width, height=size.height - 1)
        self._live.update(_coloured(lines), refresh=True)


def _coloured(lines: Sequence[str]) -> Text:
    from rich.text import Text

    text = Text("\n".join(lines), no_wrap=True, overflow="crop")
    for pattern, style in COLOURS.items():
        text.highlight_regex(pattern, style)
    return text


def _conclude(last: Snapshot, seconds: int) -> bool:
    from codehub.cli.moving import complain
    from codehub.core.express import seconds as duration

    typer.echo(settled_text(last), nl=False)
    for each in last.failed:
        if isinstance(each.outcome, Failed):
            failed = each.outcome
            said = f"{each.workspace.name} is in ERROR: {failed.reason}: {failed.message}"
            complain(CodeHubError(said, hint=failed.advice))
    done = last.over and last.led
    if not done:
        complain(
            CodeHubError(
                unfinished_text(last, duration(seconds)), hint=GOES_ON if last.led else START_ONE
            )
        )
    return done and not last.failed


def _trouble(snapshot: Snapshot) -> str:
    if snapshot.lost:
        return f"trying again: {clean(snapshot.lost)}"
    return "" if snapshot.led else NOBODY_LEADS


def _customs() -> Customs:
    from codehub.config import load_settings
    from codehub.service.rules import drain_of, limits_of
    from codehub.service.settling import Customs

    settings = load_settings()
    return Customs(drain_of(settings), limits_of(settings))
