"""Pages for people, each one self-contained file: no script, no outside file, nothing to load.

Here are the pages that stand in for a workspace which cannot answer: one that waits and goes on by
itself, and one that tells a problem and what to do. `GENERIC` are those that know no workspace, for
nginx or Caddy in front. The report has its own module and uses the same frame.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup, escape

from codehub.render import template
from codehub.render.words import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

_COMMAND: Final = re.compile(r"'(codehub [^']*)'")


@dataclass(frozen=True, slots=True)
class Waiting:
    """It will be there soon. `part` is how much is done; the page asks again after `refresh`."""

    title: str
    message: str
    details: tuple[str, ...] = ()
    part: float | None = None
    refresh: int | None = 2
    home: bool = True


@dataclass(frozen=True, slots=True)
class Trouble:
    """It will not be there by itself. `alarm` is for what is broken, not merely asleep."""

    title: str
    message: str
    advice: str = ""
    details: tuple[str, ...] = ()
    alarm: bool = False
    refresh: int | None = None
    home: bool = True


def page(notice: Waiting | Trouble) -> str:
    """The page, whole."""
    name = "waiting.html.j2" if isinstance(notice, Waiting) else "problem.html.j2"
    return render(name, notice=notice, refresh=notice.refresh)


GENERIC: Final[Mapping[str, Waiting | Trouble]] = {
    "starting.html": Waiting(
        "Starting", "This workspace is being started. It usually takes a few seconds."
    ),
    "stopped.html": Trouble(
        "Asleep",
        "This workspace is stopped. Its files are safe.",
        "open its address in a browser to wake it, or run 'codehub start NAME'",
    ),
    "archived.html": Trouble(
        "Archived",
        "Nobody used this workspace for a while, so its home was archived. Nothing is lost.",
        "bring it back with 'codehub restore NAME --start'",
    ),
    "error.html": Trouble(
        "Something is wrong",
        "This workspace needs a person before it can go on.",
        "'codehub explain NAME' tells what happened and what to do",
        alarm=True,
    ),
    "not-found.html": Trouble(
        "Not found", "There is no such workspace, or it is not yours.", "check the address"
    ),
    "unavailable.html": Trouble(
        "Unavailable",
        "The hub cannot answer at the moment. Workspaces and their files are not affected.",
        alarm=True,
        refresh=10,
    ),
}
"""Pages by the name of their file, without any workspace's name in them."""


def render(name: str, **values: Any) -> str:
    """A template of ours in the common frame."""
    return template.render(name, style="page.css", spoken=spoken, **values)


def spoken(text: str) -> Markup:
    """A sentence in which commands, which our messages put in quotes, are shown as code."""
    parts = _COMMAND.split(clean(text))
    # Every second part is a command: `split` keeps what the group matched.
    shown = (
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )
    sentence = Markup("").join(shown)
    first = parts[0][:1]
    return Markup("").join((escape(first.upper()), sentence[1:])) if first.isalpha() else sentence
