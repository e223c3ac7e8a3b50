"""Connections that stay open, by what they depend on: a login, or whose a workspace is.

A request is judged when it comes. A WebSocket stays for days, and meanwhile whoever opened it may
be logged out, or the workspace become somebody else's: then it is hung up.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from codehub.model.access import Person
    from codehub.model.route import Route

    HangUp = Callable[[], None]

log: Final = logging.getLogger("codehub.proxy")


def may_reach(route: Route, person: Person) -> bool:
    """Its owner may, and an admin."""
    return route.owner_id == person.id or person.is_admin


def soon(hang_up: HangUp) -> HangUp:
    """Hang up once whoever calls this is done; nothing is left to be called at the end."""
    asyncio.get_running_loop().call_soon(hang_up)
    return lambda: None


def _nobody(_: Person) -> bool:
    return False


class Held:
    """What is open, and whose it is."""

    def __init__(self) -> None:
        self._open: dict[UUID, dict[HangUp, Person]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, key: UUID, person: Person, hang_up: HangUp) -> HangUp:
        """Have `hang_up` called when `key` ends; call what is returned when it closes before."""
        held = self._open.setdefault(key, {})
        held[hang_up] = person

        def release() -> None:
            held.pop(hang_up, None)
            self._tidy(key)

        return release

    def end(self, key: UUID, unless: Callable[[Person], bool] = _nobody) -> None:
        """Hang up on all but those who may stay."""
        held = self._open.get(key, {})
        for hang_up in [each for each, person in held.items() if not unless(person)]:
            held.pop(hang_up, None)
            try:
                hang_up()
            except Exception:
                log.exception("a connection could not be closed whose time is over")
        self._tidy(key)

    def _tidy(self, key: UUID) -> None:
        if not self._open.get(key, True):
            del self._open[key]
