"""How verbs write: colour only for people, files whole or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from codehub.errors import CodeHubError


def colorful() -> bool:
    """Colour for a terminal, unless NO_COLOR asks for none."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def write_file(path: Path, text: str) -> None:
    """Write beside and rename, so that nobody ever reads half a file."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=f".{path.name}.", delete=False, encoding="utf-8"
        ) as file:
            file.write(text)
        Path(file.name).chmod(0o644)
        Path(file.name).replace(path)
    except OSError as error:
        raise CodeHubError(f"{path} cannot be written: {error.strerror}") from error
