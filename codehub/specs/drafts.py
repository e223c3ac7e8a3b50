"""Specs for workspaces that came back from their archives: what is known, and gaps to fill.

An archive says whose home it is and not how the workspace was run, so each spec is valid,
suspended, and says what is missing. Nothing that is there is overwritten: what the directory
declares already, in whatever file, is left to it.
"""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codehub.core.rebuild import NO_COMMAND, NO_IMAGE
from codehub.errors import CodeHubError, Refused
from codehub.model.spec import API_VERSION
from codehub.model.workspace import Runtime, Source
from codehub.specs.read import Reader
from codehub.specs.scan import DiskTree, scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from uuid import UUID

    from codehub.model.salvage import Home

SHOWN: Final = 5
_PLAIN: Final = re.compile(r"[a-z][a-z0-9-]*")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})

WORKSPACE: Final = """\
# Imported from the archive of {date}; its id is {id}.
# An archive does not say how its workspace was run. Fill in {missing}, and whatever else
# it had (another runtime, env, port, resources, ttl, labels). Then remove 'suspend' and apply.
apiVersion: {version}
kind: Workspace
metadata:
  name: {name}
spec:
  owner: {owner}
{program}
  suspend: true # nothing of it is touched until this line is gone
"""
LINE: Final = WORKSPACE[: WORKSPACE.index("apiVersion")].count("\n") + 1
"""Where the document begins."""

USER: Final = """\
# Imported as the owner of archives, which say nothing else. Add a displayName, a passwordHash
# (see 'codehub user hash-password'), and 'role: admin' for those who had it.
apiVersion: {version}
kind: User
metadata:
  name: {name}
"""


@dataclass(frozen=True, slots=True)
class Drafts:
    """The files to write, and where each workspace is declared: already, or then."""

    files: Mapping[Path, str]
    sources: Mapping[UUID, Source]


def draft_specs(directory: Path, homes: Sequence[Home]) -> Drafts:
    """Specs for these workspaces and their owners, as far as the directory has none."""
    declared = _declared(directory)
    files: dict[Path, str] = {}
    sources: dict[UUID, Source] = {}
    for home in homes:
        path = directory / "workspaces" / f"{home.name}.yaml"
        place = declared.get(("Workspace", home.name))
        if place is None:
            files[path] = _workspace(home)
        sources[home.id] = place or Source(str(path), LINE)
    for owner in sorted({home.owner for home in homes}):
        if ("User", owner) not in declared:
            text = USER.format(version=API_VERSION, name=_scalar(owner))
            files[directory / "users" / f"{owner}.yaml"] = text
    _require_free(directory, files)
    return Drafts(files, sources)


def write_drafts(drafts: Drafts) -> None:
    """Write them, each whole or not at all; what has come into being since is not overwritten."""
    for path, text in drafts.files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_new(path, text)
        except OSError as error:
            reason = (error.strerror or "unknown reason").lower()
            raise CodeHubError(
                f"cannot write {path}: {reason}",
                hint="the workspaces are in the hub; import again to write the rest of the specs",
            ) from error


def _workspace(home: Home) -> str:
    process = home.runtime is Runtime.PROCESS
    gap = f"command: [{', '.join(NO_COMMAND)}]" if process else f"image: {NO_IMAGE}"
    lines = [f"  runtime: {home.runtime}", f"  {gap} # fill in"]
    # In the order of the format: the image stands before the runtime, the command behind it.
    program = "\n".join(lines if process else reversed(lines))
    return WORKSPACE.format(
        date=f"{home.archive.created_at:%Y-%m-%d %H:%M %Z}",
        id=home.id,
        missing="its command" if process else "its image",
        version=API_VERSION,
        name=_scalar(home.name),
        owner=_scalar(home.owner),
        program=program,
    )


def _scalar(name: str) -> str:
    """A name that YAML, of whatever version, reads as the text it is."""
    plain = _PLAIN.fullmatch(name) is not None and name not in _WORDS
    return name if plain else f'"{name}"'


def _declared(directory: Path) -> Mapping[tuple[str, str], Source]:
    """What the directory declares, also where it is not valid as a whole."""
    if directory.exists() and not directory.is_dir():
        raise Refused(f"{directory} is a file, not a directory", hint="name another directory")
    if not directory.exists():
        return {}
    root = os.path.realpath(directory)
    reader = Reader()
    files = [reader.from_disk(root, each) for each in scan(DiskTree(root), str(directory)).found]
    written = [each for file in files for each in file.written]
    return {(each.kind, each.name): each.source for each in written if each.kind and each.name}


def _require_free(directory: Path, files: Iterable[Path]) -> None:
    there = [str(path) for path in files if path.exists() or path.is_symlink()]
    if there:
        more = f" and {len(there) - SHOWN} more" if len(there) > SHOWN else ""
        raise Refused(
            f"{', '.join(there[:SHOWN])}{more} is in the way and declares something else",
            hint=f"move it out of {directory}, or name another directory; nothing was imported",
        )


def _write_new(path: Path, text: str) -> None:
    """A complete file appears under its name, or none does, whatever happens meanwhile."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    beside = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            os.chmod(file.fileno(), 0o644)  # noqa: PTH101 (by descriptor)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            path.hardlink_to(beside)
    finally:
        beside.unlink(missing_ok=True)
