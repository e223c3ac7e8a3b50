"""Pages for people that stand in for a workspace which cannot answer, and the hub's own.

One that waits goes on by itself; one that tells a problem says what to do, and has buttons for it.
A notice alone (`page`) is a self-contained file without script or forms: nginx or Caddy can show
it, and `GENERIC` are those that know no workspace. Served by the hub (`served`) it stands in a
`Frame`: there it follows what happens, and its buttons work.

The style is always in the page, allowed by its hash: a page must look right even when nothing else
of the hub answers. The script is a file of its own, and every page does without it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup, escape

from codehub.render import template
from codehub.render.words import capital, clean

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

STYLE: Final = "page.css"
SCRIPT: Final = "pages.js"
FORM_ACTION: Final = "'self'"
REFERRER: Final = "strict-origin"
"""With less, browsers do not say where a form comes from; with more, they say which page."""
_COMMAND: Final = re.compile(r"'(codehub [^']*)'")


class Sign(StrEnum):
    """The picture on a page; it says nothing that the words do not."""

    NONE = ""
    ASLEEP = "asleep"
    ARCHIVED = "archived"
    HELD = "held"
    MISSING = "missing"
    ALARM = "alarm"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Button:
    """Something to do from a page: a form with one button, posted to `path` with `fields`.

    `confirm` is what to agree to first; `danger` is for what cannot be taken back.
    """

    label: str
    path: str
    fields: tuple[tuple[str, str], ...] = ()
    confirm: str = ""
    danger: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """Somewhere else to go."""

    label: str
    href: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One line of a list: a workspace, and what can be done with it; the button is named for it."""

    name: str
    note: str = ""
    button: Button | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """It will be there soon. `part` is how much is done; the page asks again after `refresh`.

    `follow` is the address at which the hub tells how it goes on.
    """

    title: str
    message: str
    details: tuple[str, ...] = ()
    part: float | None = None
    refresh: int | None = 2
    home: bool = True
    follow: str = ""
    choices: tuple[Choice, ...] = ()
    buttons: tuple[Button, ...] = ()
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class Trouble:
    """It will not be there by itself. `alarm` is for what is broken, not merely asleep.

    `advice` is what to do with commands; `pressing` is the same in terms of the page's buttons, for
    whoever has them. `code` is what to search for.
    """

    title: str
    message: str
    advice: str = ""
    details: tuple[str, ...] = ()
    alarm: bool = False
    refresh: int | None = None
    home: bool = True
    sign: Sign = Sign.NONE
    choices: tuple[Choice, ...] = ()
    buttons: tuple[Button, ...] = ()
    links: tuple[Link, ...] = ()
    pressing: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a notice is served: to whom, and where its forms lead.

    `csrf` is the proof that forms carry: without one there are none. `wanted` is the path that was
    asked for, to come back to; `again` is where the page asks again by itself, where that is
    another one; `home` leads to the list of workspaces; `forms` is what the policy lets forms
    reach, redirects included.
    """

    csrf: str = ""
    wanted: str = ""
    again: str = ""
    home: str = "/"
    person: str = ""
    logout: str = ""
    forms: str = FORM_ACTION


@dataclass(frozen=True, slots=True)
class Rendered:
    """A page and the policy it was made for."""

    text: str
    policy: str


def page(notice: Waiting | Trouble) -> str:
    """The notice alone, as a file."""
    return render(_template(notice), notice=notice, frame=Frame(), refresh=notice.refresh)


def served(notice: Waiting | Trouble, frame: Frame) -> Rendered:
    """The notice as the hub serves it: live where there is something to follow."""
    live = isinstance(notice, Waiting) and bool(notice.follow)
    return render_served(_template(notice), frame, live=live, notice=notice, refresh=notice.refresh)


def _template(notice: Waiting | Trouble) -> str:
    return "waiting.html.j2" if isinstance(notice, Waiting) else "problem.html.j2"


GENERIC: Final[Mapping[str, Waiting | Trouble]] = {
    "starting.html": Waiting(
        "Starting", "This workspace is being started. It usually takes a few seconds."
    ),
    "restoring.html": Waiting(
        "Restoring", "The home of this workspace is coming back from the archive.", refresh=5
    ),
    "stopped.html": Trouble(
        "Asleep",
        "This workspace is stopped. Its files are safe.",
        "open its address in a browser to wake it, or run 'codehub start NAME'",
        sign=Sign.ASLEEP,
    ),
    "archived.html": Trouble(
        "Archived",
        "The home of this workspace is archived. Nothing is lost.",
        "bring it back with 'codehub restore NAME --start'",
        sign=Sign.ARCHIVED,
    ),
    "held.html": Trouble(
        "Held",
        "This workspace may not run at the moment.",
        "'codehub explain NAME' tells who or what holds it",
        sign=Sign.HELD,
    ),
    "limit.html": Trouble(
        "Too many are running",
        "As many workspaces run as may run at once.",
        "stop one with 'codehub stop NAME', then open this one again",
        sign=Sign.HELD,
    ),
    "error.html": Trouble(
        "Something is wrong",
        "This workspace cannot go on by itself.",
        "'codehub explain NAME' tells what happened and what to do",
        alarm=True,
    ),
    "gone.html": Trouble(
        "No answer",
        "This workspace is running, but does not answer at its port.",
        "see what it says with 'codehub logs NAME'",
        alarm=True,
        refresh=5,
    ),
    "not-found.html": Trouble(
        "Not found",
        "There is no such workspace, or it is not yours.",
        "check the address",
        sign=Sign.MISSING,
    ),
    "unavailable.html": Trouble(
        "Unavailable",
        "The hub cannot answer at the moment. Workspaces and their files are not affected.",
        alarm=True,
        refresh=10,
    ),
}
"""Pages by the name of their file, without any workspace's name in them."""


def render(name: str, *, style: str = STYLE, **values: Any) -> str:
    """A template of ours as a file: nothing to load, nothing to send."""
    policy = _policy("'none'", style, live=False)
    return _render(name, policy, style=style, live=False, referrer="no-referrer", **values)


def render_served(
    name: str, frame: Frame, *, style: str = STYLE, live: bool = False, **values: Any
) -> Rendered:
    """A template of ours as the hub serves it."""
    policy = _policy(frame.forms, style, live=live)
    text = _render(name, policy, style=style, live=live, referrer=REFERRER, frame=frame, **values)
    return Rendered(text, policy)


def _render(name: str, policy: str, *, style: str, **values: Any) -> str:
    return template.render(
        name,
        style=style,
        # Made of our own words and the hub's own names: quotes in it are meant.
        policy=Markup(policy),
        script=script_path(),
        spoken=spoken,
        **values,
    )


def _policy(forms: str, style: str, *, live: bool) -> str:
    script = "script-src 'self'; connect-src 'self'; " if live else ""
    return (
        f"default-src 'none'; style-src '{template.style_hash(style)}'; img-src data:; "
        f"{script}base-uri 'none'; form-action {forms}"
    )


@cache
def script_path() -> str:
    """Where the script is served: under another name whenever it changes, so it can be kept."""
    digest = sha256(template.script(SCRIPT).encode()).hexdigest()[:16]
    return f"/_codehub/pages.{digest}.js"


def spoken(text: str, names: Collection[str] = ()) -> Markup:
    """A sentence in which commands, which our messages put in quotes, are shown as code.

    It begins with a capital letter, or with one of these names.
    """
    parts = _COMMAND.split(capital(clean(text), names))
    # Every second part is a command: `split` keeps what the group matched.
    shown = (
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )
    return Markup("").join(shown)
