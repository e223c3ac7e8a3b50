"""Copy the example specs into a directory of the user's, without ever touching what is there."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from codehub.errors import CodeHubError, Refused
from codehub.resources import example_specs_directory

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SHOWN = 5


def write_examples(directory: Path) -> tuple[Path, ...]:
    """Write all example files below `directory`, or none; gives what was written."""
    wanted = {directory / name: content for name, content in example_files().items()}
    _require_free(directory, wanted)
    written: list[Path] = []
    try:
        for path, content in wanted.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            # Exclusive: what came into being since the check is not overwritten either.
            with path.open("xb") as file:
                written.append(path)
                file.write(content)
    except OSError as error:
        for path in written:
            with suppress(OSError):
                path.unlink()
        reason = error.strerror or "unknown reason"
        raise CodeHubError(f"cannot write {error.filename or directory}: {reason}") from error
    return tuple(written)


def example_files() -> Mapping[str, bytes]:
    """The example specs by their path below the directory, in the order to list them."""
    root = example_specs_directory()
    paths = sorted(root.rglob("*.yaml"), key=lambda path: (len(path.parts), path))
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def _require_free(directory: Path, wanted: Mapping[Path, bytes]) -> None:
    if directory.exists() and not directory.is_dir():
        raise Refused(f"{directory} is a file, not a directory", hint="name another directory")
    there = [str(path) for path in wanted if path.exists() or path.is_symlink()]
    if not there:
        return
    more = f" and {len(there) - SHOWN} more" if len(there) > SHOWN else ""
    raise Refused(
        f"nothing was written: {', '.join(there[:SHOWN])}{more} would be overwritten",
        hint="name another directory, as in 'codehub init my-specs'",
    )
