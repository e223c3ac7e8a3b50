"""Programs that packages of the `test` extra bring along."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path


def find_program(package: str, name: str) -> Path | None:
    try:
        paths = files(package) or []
    except PackageNotFoundError:
        return None
    found = (Path(str(path.locate())) for path in paths if path.name == name)
    return next((path.resolve() for path in found if path.exists()), None)
