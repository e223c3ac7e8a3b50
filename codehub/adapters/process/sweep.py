"""Emptying the trash of a data root beside everything else.

It may hold a million files, and nobody waits for them to go: not a term that begins, nor a process
that ends. Cut off anywhere it is harmless, and so are two at once: names of trash are given once,
and each takes what it finds.
"""

from __future__ import annotations

import logging
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from codehub.adapters.process.site import Site

log: Final = logging.getLogger(__name__)

_lock: Final = Lock()
_sweeping: Final[set[Path]] = set()
"""Roots whose trash this process is emptying: terms come and go, and one at it is enough."""


def begin_to_sweep(site: Site) -> None:
    """Empty the trash in a thread of its own, unless one is at it."""
    with _lock:
        if site.root.path in _sweeping:
            return
        _sweeping.add(site.root.path)
    Thread(target=_sweep, args=(site,), daemon=True, name="codehub-trash").start()


def _sweep(site: Site) -> None:
    try:
        site.volumes.empty_trash()
    except OSError as error:
        log.warning("the trash of %s cannot be emptied: %s", site.root.path, error.strerror)
    finally:
        with _lock:
            _sweeping.discard(site.root.path)
