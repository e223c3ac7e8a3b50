"""Where an embedded server keeps its files, when root runs it as somebody else.

Root's own directories are often closed to others (/root is), and a server that runs as another
account could not reach its data there. Its files are then kept below /var/lib/codehub, and a file
named `location` says where. Removing the directory forgets the data, as one expects; what lies
outside takes up space until somebody removes it, so it says whose it was.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codehub.embedded.account import Account

OUTSIDE = Path("/var/lib/codehub")
"""Where root keeps a server whose own directory is closed to the account that runs it."""
MADE_FOR = "made-for"
"""A file in a home outside that names the directory which named the home."""


def find_home(directory: Path) -> Path:
    """The directory that holds the server's files: itself, or what its `location` names."""
    try:
        return Path((directory / "location").read_text().strip())
    except (FileNotFoundError, NotADirectoryError):
        return directory


def make_directory(directory: Path, account: Account) -> None:
    """Makes a directory and those above it; what was there before keeps its mode."""
    mode = 0o755 if account.lent else 0o700
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=mode, exist_ok=True)
        each.chmod(mode)


def make_home(directory: Path, account: Account, server: str) -> Path:
    """The home for a server in `directory`: elsewhere if its account cannot reach it there."""
    home = find_home(directory)
    if home == directory and account.barred_at(directory):
        make_directory(OUTSIDE, account)
        home = Path(tempfile.mkdtemp(prefix=f"{server}-", dir=OUTSIDE))
        home.chmod(0o755)
        (home / MADE_FOR).write_text(f"{directory.absolute()}\n")
        _note(directory, home)
    return home


def homes_outside() -> dict[Path, Path]:
    """Every home outside, with the directory that it was made for."""
    notes = OUTSIDE.glob(f"*/{MADE_FOR}")
    return {note.parent: Path(note.read_text().strip()) for note in notes}


def forgotten_homes() -> dict[Path, Path]:
    """Those which the directory that they were made for does not name, or no longer is there."""
    return {home: made_for for home, made_for in homes_outside().items() if _forgot(made_for, home)}


def _forgot(directory: Path, home: Path) -> bool:
    try:
        return find_home(directory) != home
    except OSError:
        return False  # Closed to us as well: nobody knows.


def what_bars(home: Path, account: Account) -> str | None:
    """What keeps the account from using a home, in words; None if nothing does."""
    barred = account.barred_at(home)
    if barred:
        return f"may not enter {barred}"
    return None if home.is_dir() else f"finds no {home}"


def _note(directory: Path, home: Path) -> None:
    partial = directory / "location.partial"
    partial.write_text(f"{home}\n")
    partial.rename(directory / "location")
