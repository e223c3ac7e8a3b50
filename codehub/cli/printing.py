"""How verbs write: colour only for people, files whole or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import typer

from codehub.errors import CodeHubError


def colorful() -> bool:
    """Colour for a terminal, unless NO_COLOR asks for none."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def deliver(text: str, out: Path | None, what: str) -> None:
    """The text to stdout, or to the file that `--out` names, and then say so."""
    if out is None:
        typer.echo(text, nl=False)
        return
    write_file(out, text)
    typer.echo(f"{what} written to {out}", err=True)


def write_file(path: Path, text: str) -> None:
    """Nobody ever reads half a file: it is written beside and renamed.

    A device or a pipe (/dev/stdout, /dev/null) is written to; replacing it would break it for all.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
        else:
            _replace(path.resolve(), text)
    except OSError as error:
        raise CodeHubError(f"{path} cannot be written: {error.strerror}") from error


def _replace(path: Path, text: str) -> None:
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix=f".{path.name}.", delete=False, encoding="utf-8"
    ) as file:
        beside = Path(file.name)
        try:
            file.write(text)
            file.flush()
            beside.chmod(0o644)
            beside.replace(path)
        except BaseException:
            beside.unlink()
            raise
