"""The dashboard's pages: what all of them have around their content, and how one is made.

Style and script are files of their own (`dashboard_assets`), so the policy allows no others and
nothing inline. Every page works without the script: buttons are forms, and what is live with it is
as fresh as the last reload without.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from markupsafe import Markup

from codehub.core.express import short
from codehub.core.gauge import amount
from codehub.render import template
from codehub.render.dashboard_assets import ICON, SCRIPT, STYLE, asset_path
from codehub.render.dashboard_words import (
    activity_words,
    lasting,
    move_words,
    phase_words,
    since_words,
    standing_words,
)
from codehub.render.pages import Rendered, spoken

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from datetime import datetime

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
LIVE: Final = "/api/v1/events"


@dataclass(frozen=True, slots=True)
class Flash:
    """What has just been done, told once at the top of the next page."""

    text: str
    bad: bool = False


@dataclass(frozen=True, slots=True)
class Shell:
    """For whom a page is, at what time by the hub's clock, and where in the dashboard it stands.

    `here` is the page's own address, for its forms to lead back to.
    """

    person: str
    admin: bool
    csrf: str
    now: datetime
    section: str = ""
    here: str = "/"
    hub: str = ""
    flash: Flash | None = None
    can_log_out: bool = True


def following(*, owner: str = "", names: Iterable[str] = ()) -> str:
    """Where the script hears of an owner's workspaces, of those of these names, or of all."""
    asked = {"owner": owner, "names": ",".join(names)}
    told = urlencode({name: value for name, value in asked.items() if value}, safe=",")
    return f"{LIVE}?{told}" if told else LIVE


def page(name: str, shell: Shell, /, **values: Any) -> Rendered:
    """A page of the dashboard."""
    return Rendered(fragment(name, shell, **values), POLICY)


def fragment(name: str, shell: Shell, /, **values: Any) -> str:
    """A part of a page, for the script to put in place."""
    return template.render(
        name,
        style="page.css",
        shell=shell,
        css=asset_path(STYLE),
        script=asset_path(SCRIPT),
        icon=asset_path(ICON),
        moment=Moments(shell.now),
        spoken=spoken,
        phase_words=phase_words,
        standing_words=standing_words,
        move_words=move_words,
        activity_words=activity_words,
        amount=amount,
        **values,
    )


class Moments:
    """Times as elements that the script keeps true."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def since(self, at: datetime) -> Markup:
        return _time(at, "since", since_words(self._now - at))

    def span(self, at: datetime) -> Markup:
        """How long it lasts already."""
        return _time(at, "span", lasting(self._now - at))

    def until(self, at: datetime) -> Markup:
        words = f"in {lasting(at - self._now)}" if at > self._now else "any moment now"
        return _time(at, "until", words)

    def left(self, at: datetime) -> Markup:
        """How long it lasts still."""
        return _time(at, "left", lasting(at - self._now))

    def told(
        self, text: str, names: Collection[str] = (), times: Iterable[datetime] = ()
    ) -> Markup:
        """A sentence of the core's, in which what it says of these times stays true.

        It is about this moment, so the words for each of them are known.
        """
        said = str(spoken(text, names))
        for at in times:
            for words, element in self._words(at):
                said = _put(str(element), said, words)
        return Markup(said)

    def _words(self, at: datetime) -> Iterator[tuple[str, Markup]]:
        """How sentences put a time, and what to put in its place."""
        if at > self._now:
            span = short(at - self._now)
            yield rf"\bin {span}\b", self.until(at)
            yield rf"\b{span}(?= more\b)", self.left(at)
        else:
            span = short(self._now - at)
            yield rf"\b{span} ago\b", self.since(at)
            # What is to be "idle for 5m" first waits for so long whatever the time is.
            yield rf"(?<=\bidle ){span}\b|(?<=(?<!idle )\bfor ){span}\b", self.span(at)

    def at(self, at: datetime) -> Markup:
        """The time itself."""
        return _time(at, "", at.strftime("%Y-%m-%d %H:%M %Z"))


def _put(element: str, text: str, words: str) -> str:
    """The text with an element in place of what says these words first."""
    found = re.search(words, text)
    return text if found is None else text[: found.start()] + element + text[found.end() :]


def _time(at: datetime, tick: str, words: str) -> Markup:
    return Markup('<time datetime="{}" title="{}"{}>{}</time>').format(
        at.isoformat(timespec="milliseconds"),
        at.strftime("%Y-%m-%d %H:%M:%S %Z"),
        Markup(' data-tick="{}"').format(tick) if tick else "",
        words,
    )
