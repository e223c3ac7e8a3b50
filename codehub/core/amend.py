"""What a person can do about specs that could not be loaded: one sentence for each kind of failure.

`status`, `doctor` and the watcher's log show it beside what was wrong, so that all of them send
people to the command that helps.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from codehub.model.revision import UNREADABLE, UNSAFE

if TYPE_CHECKING:
    from codehub.model.revision import Origin, Revision

USUAL: Final = "specs"
"""The directory that commands read when none is named."""


def amend(failed: Revision) -> str:
    """The commands that show what is wrong, and for a plan that is only unsafe, that apply it."""
    origin = failed.origin
    if any(each.startswith(UNSAFE) for each in failed.problems):
        return (
            f"{_command('plan', origin)} shows what it would do; if that is meant, "
            f"{_command('apply --force', origin)} does it"
        )
    # Only the hub knows what it refuses; what cannot be read needs none to be seen.
    verb = "validate" if failed.digest.startswith(UNREADABLE) else "plan"
    return f"{_command(verb, origin)} shows all that is wrong"


def first_of(problems: tuple[str, ...]) -> str:
    """The first, and how many more there are."""
    if not problems:
        return "no problem was kept"
    more = len(problems) - 1
    return problems[0] + (f" (and {more} more)" if more else "")


def _command(verb: str, origin: Origin) -> str:
    directory = "" if origin.directory == USUAL else f" {shlex.quote(origin.directory)}"
    ref = "" if origin.ref is None else f" --ref {shlex.quote(origin.ref)}"
    return f"'codehub {verb}{directory}{ref}'"
