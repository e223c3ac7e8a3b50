"""Checks of this machine: disk, programs, and whether workspaces can run here. They block."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codehub.core.gauge import amount
from codehub.embedded.account import Account
from codehub.embedded.home import find_home, forgotten_homes
from codehub.model.checkup import problem, warning, well

if TYPE_CHECKING:
    from codehub.model.checkup import Verdict

SCARCE: Final = 1 << 30
FULL: Final = 100 << 20
EMBEDDED: Final = ("postgres", "redis")
_NOWHERE: Final = Path("/nonexistent")
_SAMPLE: Final = b"codehub" * 1000


def look_at_data(data: Path) -> Verdict:
    """Whether the hub can write where it keeps its data, and how much fits there."""
    data = data.absolute()
    there = next((each for each in (data, *data.parents) if each.exists()), Path("/"))
    if not there.is_dir():
        return problem(f"{there} is not a directory", "choose another directory with --data")
    if not os.access(there, os.W_OK | os.X_OK):
        return problem(f"{there} cannot be written to", "choose another directory with --data")
    free = shutil.disk_usage(there).free
    text = f"{data}, {amount(free)} free" + ("" if data.exists() else "; it is not there yet")
    text += _moved(data)
    if free < FULL:
        return problem(text, "make room: PostgreSQL stops when its disk is full")
    return warning(text, "make room soon") if free < SCARCE else well(text)


def _moved(data: Path) -> str:
    """Where root's servers really keep their files, when they may not enter this directory."""
    homes = {name: find_home(data / name) for name in EMBEDDED}
    moved = [f"{name} keeps its files in {at}" for name, at in homes.items() if at != data / name]
    return f"; {', '.join(moved)}" if moved else ""


def look_for_forgotten() -> Verdict | None:
    """Files of embedded servers that no data directory leads to any more."""
    forgotten = forgotten_homes()
    if not forgotten:
        return None
    named = ", ".join(f"{home} (of {data})" for home, data in sorted(forgotten.items()))
    return warning(
        f"files of embedded servers whose data directory is gone: {named}",
        f"unless its disk is only not mounted: rm -r {' '.join(map(str, sorted(forgotten)))}",
    )


def look_for_programs(server: str, *, needed: bool) -> Verdict:
    """Whether the programs of an embedded server are here and run; nothing is copied for it."""
    from codehub.embedded.programs import choose_programs
    from codehub.embedded.redis_program import choose_program
    from codehub.errors import CodeHubError

    myself = Account(str(os.geteuid()), os.geteuid(), os.getegid(), lent=False)
    try:
        if server == "PostgreSQL":
            found = choose_programs(myself, _NOWHERE)
            return well(f"PostgreSQL {found.version} in {found.directory}")
        return well(str(choose_program(myself, _NOWHERE)))
    except CodeHubError as error:
        if needed:
            return problem(error.message, error.hint or "")
        return well(f"{error.message}; this hub needs none")


def look_for_tar() -> Verdict:
    """Archives are packed and unpacked by GNU tar; another one would not keep everything."""
    fix = "install GNU tar (as 'tar' or 'gtar')"
    program = shutil.which("gtar") or shutil.which("tar")
    if program is None:
        return problem("there is no tar on this machine, so homes cannot be archived", fix)
    told = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=15, check=False
    )
    first = told.stdout.partition("\n")[0]
    if "GNU tar" not in first:
        return problem(f"{program} is not GNU tar, so homes cannot be archived", fix)
    return well(f"{first}, {program}")


def look_for_zstd() -> Verdict:
    """Archives are compressed in our own process, by a library."""
    try:
        import zstandard
    except ImportError as error:
        return problem(f"zstandard cannot be imported: {error}", "pip install 'zstandard>=0.22'")
    packed = zstandard.ZstdCompressor().compress(_SAMPLE)
    if zstandard.ZstdDecompressor().decompress(packed) != _SAMPLE:
        return problem("zstandard does not give back what it packed", "install it again")
    version = ".".join(str(part) for part in zstandard.ZSTD_VERSION)
    return well(f"zstd {version}, zstandard {zstandard.__version__}")


def look_at_processes() -> Verdict:
    """The process runtime finds its workspaces in /proc and ends them through pidfds."""
    from codehub.adapters.process.find import scan

    seen = len(scan("doctor").processes)
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError) as error:
        return problem(
            f"processes cannot be held by a pidfd: {error}", "use Linux 5.3 or newer, or docker"
        )
    return well(f"/proc shows {seen} processes, pidfds work")
