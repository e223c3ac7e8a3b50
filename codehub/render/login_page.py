"""The pages through which people come in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codehub.render.pages import render_served

if TYPE_CHECKING:
    from codehub.render.pages import Frame, Rendered

HELP: Final = "no password? An administrator gives you a link with 'codehub open --as NAME'."


@dataclass(frozen=True, slots=True)
class Login:
    """A login to be tried, or tried again: `problem` says what came of the last one."""

    name: str = ""
    problem: str = ""
    help: str = HELP


def login_page(login: Login, frame: Frame) -> Rendered:
    """Name and password."""
    return render_served("login.html.j2", frame, login=login, refresh=None)


def login_link_page(code: str, frame: Frame) -> Rendered:
    """One button. Opening a link must not use it up: programs open links to show what is there."""
    return render_served("login_link.html.j2", frame, code=code, refresh=None)
