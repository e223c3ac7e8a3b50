"""Workspaces on their way, in words: a line for each change, or a block that is drawn again.

Lines are for logs and pipes, the block is for terminals; scripts get JSON lines. All of it reads
well without colour. Names and messages come from elsewhere and are made safe to look at.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Final

from codehub.core.express import short
from codehub.core.gauge import amount, unanswered
from codehub.model.outcome import Failed, Held, Moving, Settled
from codehub.model.states import Operation
from codehub.render.status_text import several, workspace_data
from codehub.render.words import clean, counted, shorten

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from codehub.model.outcome import Followed, Progress, Snapshot
    from codehub.model.workspace import Status

FORMAT_VERSION: Final = 1
NOBODY_LEADS: Final = "no coordinator is running: nothing moves until one does (codehub up)"
_WIDE: Final = 100
"""Columns from which on a terminal has room for long bars."""


def change_line(each: Followed) -> str:
    """One workspace as a line of a log; percents in tens, so that a log stays short."""
    name, phase, outcome = clean(each.workspace.name), each.workspace.status.phase, each.outcome
    match outcome:
        case Settled():
            return f"{name} {phase}"
        case Held():
            return f"{name} {phase}, {_held(outcome)}"
        case Failed():
            return f"{name} {phase} {outcome.reason}: {clean(outcome.message)}"
        case Moving(operation=Operation.NONE):
            upcoming = f"next {outcome.steps[0]}" if outcome.steps else ""
            return f"{name} {phase}" + _joined(upcoming, clean(outcome.note))
        case Moving():
            percent = outcome.progress.percent
            far = "" if percent is None else f" {percent - percent % 10}%"
            stage = _stage(outcome.progress)
            return f"{name} {outcome.operation}{stage}{far}{_joined(clean(outcome.note))}"


def change_data(each: Followed, at: datetime) -> dict[str, object]:
    """The same for scripts: the workspace as `status --format json` has it, and how far it is."""
    outcome = each.outcome
    moving = outcome if isinstance(outcome, Moving) else Moving()
    progress = moving.progress
    return {
        "formatVersion": FORMAT_VERSION,
        "at": at.isoformat(),
        "outcome": type(outcome).__name__.lower(),
        "note": _note(each),
        "steps": list(moving.steps),
        "stage": progress.stage or None,
        "bytes": progress.done,
        "totalBytes": progress.total,
        "percent": progress.percent,
        **workspace_data(each.workspace),
    }


def change_json(each: Followed, at: datetime) -> str:
    """One JSON object on one line."""
    return json.dumps(change_data(each, at))


def block_lines(snapshot: Snapshot, *, width: int, height: int) -> list[str]:
    """One line for each workspace; if not all fit, what rests where it should be is left out."""
    footer = [shorten(line, width) for line in _footer(snapshot)]
    room = max(1, height - len(footer))
    shown = list(snapshot.followed)
    if len(shown) > room:
        shown.sort(key=lambda each: isinstance(each.outcome, Settled))
        shown = shown[: room - 1]
    rest = len(snapshot.followed) - len(shown)
    more = [f"… and {rest} more"] if rest else []
    return [*_rows(shown, snapshot.at, width), *more, *footer]


def settled_text(snapshot: Snapshot) -> str:
    """The end of a wait: how many came to rest, and what holds those that did not get there.

    Where nobody leads, nobody knows that any did.
    """
    held = [each for each in snapshot.followed if isinstance(each.outcome, Held)]
    parts = [
        f"{clean(each.workspace.name)}: stays {each.workspace.status.phase}, {_note(each)}\n"
        for each in held
    ]
    rests = [each for each in snapshot.followed if isinstance(each.outcome, Settled)]
    settled = len(rests) if snapshot.led else 0
    also = f", {len(held)} held" if held else ""
    return "".join(parts) + f"{counted(settled, 'workspace')} settled{also}.\n"


def unfinished_text(snapshot: Snapshot, limit: str) -> str:
    """What a wait that ran out of time names: everything that is not done."""
    failed = snapshot.failed
    unseen = tuple(each for each in snapshot.followed if each not in failed)
    missing = snapshot.moving if snapshot.led else unseen
    names = ", ".join(f"{clean(each.workspace.name)} ({_state(each)})" for each in missing)
    lost = f"; {clean(snapshot.lost)}" if snapshot.lost else ""
    return f"not done after {limit}: {names}{_notes(missing)}{lost}"


def _notes(missing: Sequence[Followed]) -> str:
    """What is in their way, each cause once: it mostly is one for all of them."""
    affected: dict[str, list[str]] = {}
    for each in missing:
        if note := _note(each) or _silence(each):
            affected.setdefault(note, []).append(clean(each.workspace.name))
    return "".join(
        f"; {note if len(names) == len(missing) else f'{several(names)}: {note}'}"
        for note, names in affected.items()
    )


def asked_text(
    name: str, status: Status, state: str, *, changed: bool, followed: bool = False
) -> str:
    """What asking for a state leads to now; `followed` says that the command goes on to show it."""
    hint = "" if followed else "; 'codehub status --watch' follows it"
    where = status.phase.value
    if where == state:
        if status.operation is Operation.NONE:
            return f"{name}: already {state}" if not changed else f"{name}: stays {state}"
        # It is on its way from there, or there is something left to do.
        where = status.operation.value
    if not changed:
        return f"{name}: {state} was asked for already, and it is {where}{hint}"
    return f"{name}: {where} → {state} asked for{hint}"


def _silence(each: Followed) -> str:
    return "its port has not answered" if unanswered(each.workspace.status) else ""


def _rows(shown: Sequence[Followed], at: datetime, width: int) -> list[str]:
    """Name, phase, operation, how long, and what else there is to say, in columns."""
    cells = [_cells(each, at, width) for each in shown]
    widths = [max((len(row[column]) for row in cells), default=0) for column in range(4)]
    widths[0] = min(widths[0], max(8, width // 3))
    return [shorten(_line(row, widths), width) for row in cells]


def _cells(each: Followed, at: datetime, width: int) -> tuple[str, ...]:
    status = each.workspace.status
    busy = status.operation is not Operation.NONE
    since = status.op_started_at if busy else status.phase_changed_at
    return (
        clean(each.workspace.name),
        status.phase.value,
        status.operation.value if busy else "",
        short(at - since) if since else "",
        _detail(each, 20 if width >= _WIDE else 10),
    )


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    *columns, last = row
    padded = (
        shorten(cell, size).ljust(size) for cell, size in zip(columns, widths, strict=True) if size
    )
    return "  ".join([*padded, last]).rstrip()


def _state(each: Followed) -> str:
    operation = each.workspace.status.operation
    return each.workspace.status.phase.value if operation is Operation.NONE else operation.value


def _detail(each: Followed, bar: int) -> str:
    outcome = each.outcome
    if not isinstance(outcome, Moving):
        return _note(each)
    waiting = outcome.operation is Operation.NONE and outcome.steps
    upcoming = f"next {outcome.steps[0]}" if waiting else ""
    parts = [_bar(outcome.progress, bar), upcoming, clean(outcome.note)]
    return "  ".join(part for part in parts if part)


def _bar(progress: Progress, width: int) -> str:
    """`[####------]  40% unpack of 3.0 GiB`, or what is done where the whole is not known."""
    percent = progress.percent
    stage = f"{clean(progress.stage)} " if progress.stage else ""
    if percent is None:
        return stage + amount(progress.done) if progress.done else stage.rstrip()
    filled = width * percent // 100
    bar = "#" * filled + "-" * (width - filled)
    return f"[{bar}] {percent:3d}% {stage}of {amount(progress.total or 0)}"


def _footer(snapshot: Snapshot) -> list[str]:
    words = Counter(_state(each) for each in snapshot.followed)
    count = ", ".join(f"{number} {word}" for word, number in sorted(words.items()))
    lines = [f"{snapshot.at:%H:%M:%S}  {count or 'no workspaces'}"]
    if snapshot.lost:
        lines.append(f"as last seen; trying again: {clean(snapshot.lost)}")
    elif not snapshot.led:
        lines.append(NOBODY_LEADS)
    return lines


def _note(each: Followed) -> str:
    match each.outcome:
        case Held() as held:
            return _held(held)
        case Failed() as failed:
            return f"{failed.reason}: {clean(failed.message)}"
        case Moving() as moving:
            return clean(moving.note)
        case _:
            return ""


def _held(held: Held) -> str:
    latest = f", at the latest at {held.until:%H:%M %Z}" if held.until else ""
    return f"{clean(held.why)}{latest}"


def _stage(progress: Progress) -> str:
    return f" {clean(progress.stage)}" if progress.stage else ""


def _joined(*parts: str) -> str:
    return "".join(f", {part}" for part in parts if part)
