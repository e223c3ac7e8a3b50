"""The buttons of pages that stand in for a workspace: what whoever sees them can do with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codehub.core.recover import found_again
from codehub.model.states import ErrorReason, RecoverMode
from codehub.render.pages import Button, Choice, Link

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from codehub.model.workspace import Workspace

DO: Final = "/_codehub/do/"
DASHBOARD: Final = "/workspaces/"
"""Where the dashboard has a page for each of them: on the hub's host alone."""
_EMPTY: Final = "All that was in its home is given up for good. This cannot be taken back."
_LOST: Final = frozenset({ErrorReason.DATA_LOST})
_LOSSES: Final = _LOST | {ErrorReason.ARCHIVE_CORRUPTED}


def act(name: str, verb: str, label: str, **more: str) -> Button:
    """A button that does something with a workspace, at once."""
    return Button(label, DO + name, (("action", verb), *more.items()))


def logs(name: str) -> Link:
    """Where whoever may see a workspace reads what it writes."""
    return Link("See its logs", f"{DASHBOARD}{name}/logs")


def in_the_way(name: str, running: Iterable[str], stoppable: Container[str]) -> tuple[Choice, ...]:
    """Those that take the places; to stop one that can be leads back to the one that was wanted."""
    return tuple(
        Choice(each, button=act(each, "stop", "Stop", then=name) if each in stoppable else None)
        for each in running
    )


def recoveries(workspace: Workspace) -> Iterable[Button]:
    """The ways out of ERROR that the rules leave; what gives data up is asked twice."""
    name, status = workspace.name, workspace.status
    is_back = found_again(workspace)
    if is_back or status.error_reason not in _LOST:
        yield act(name, "recover", "Try again")
    elif status.archive_key is not None:
        label = "Take the last archive"
        yield act(name, "recover", label, mode=RecoverMode.FROM_ARCHIVE.value)
    if status.error_reason in _LOSSES and not is_back:
        mode = RecoverMode.ACCEPT_EMPTY.value
        empty = act(name, "recover", "Start with an empty home", mode=mode)
        yield replace(empty, confirm=_EMPTY, danger=True)
