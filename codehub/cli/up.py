"""`codehub up`: everything on this machine. It comes with the coordinator."""

from __future__ import annotations

from codehub.errors import CodeHubError


def command() -> None:
    """Run everything on this machine: not yet in this version.

    Example: codehub init, then codehub plan and codehub apply
    """
    raise CodeHubError(
        "'codehub up' is not yet there: this version checks, plans and loads specs",
        hint="try 'codehub init', 'codehub plan' and 'codehub apply', then 'codehub status'",
    )
