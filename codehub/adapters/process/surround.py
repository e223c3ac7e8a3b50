"""What a workspace finds in its environment.

The hub's own environment holds its database address and other secrets, so nothing of it is passed
on but the few words that name the machine: the search path, the language, the time zone.
"""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codehub.adapters.process.find import MARKER, Mark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codehub.model.runtime import StartRequest

_PASSED_ON: Final = ("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ")
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def machine_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What is the same for every workspace of this machine."""
    passed_on = {name: environ[name] for name in _PASSED_ON if name in environ}
    return {**passed_on, **_user(), "PATH": _search_path(environ.get("PATH") or _PATH)}


def workspace_environment(
    request: StartRequest, *, hub_id: str, home: Path, port: int, machine: Mapping[str, str]
) -> dict[str, str]:
    """The whole environment of one workspace; what the hub sets, no spec overrides."""
    return {
        **machine,
        **request.env,
        "HOME": str(home),
        "PWD": str(home),
        "PORT": str(port),
        "CODEHUB_BASE_PATH": request.base_path,
        "CODEHUB_WORKSPACE": request.name,
        MARKER: Mark(request.workspace_id, request.op_id).text(hub_id),
    }


def _search_path(path: str) -> str:
    """As if the hub's own virtual environment were activated: its programs are found by name."""
    own = str(Path(sys.executable).parent)
    return path if own in path.split(":") else f"{own}:{path}"


def _user() -> dict[str, str]:
    try:
        entry = pwd.getpwuid(os.getuid())
    except KeyError:
        return {}  # A container may run as a number without a name.
    return {"USER": entry.pw_name, "LOGNAME": entry.pw_name, "SHELL": entry.pw_shell or "/bin/sh"}
