"""Homes: directories with a label beside them, and the trash that deleted ones become.

The label (hub, workspace, generation) stands outside the home: a person may delete everything in
their home, an archive must not carry it, and a restore must not overwrite it. It is written before
the directory, so a directory without a label is never ours.

Deleting renames first, so a volume is whole or gone. Trash is emptied without recursion by moving
every directory up: no depth is too deep, no symlink is followed, and what a crash leaves is trash.
"""

from __future__ import annotations

import json
import logging
import os
import stat
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final
from uuid import UUID

from codehub.adapters.durable import sync_directory
from codehub.adapters.process.durable import remove_durably, write_durably
from codehub.errors import ActionFailed, NameConflict
from codehub.model.runtime import VolumeRef, VolumeSeen

if TYPE_CHECKING:
    from codehub.adapters.process.root import DataRoot

TRASH: Final = ".trash-"
_log = logging.getLogger(__name__)


class Volumes:
    """The homes below one data root. Changes are made under the root's lock."""

    def __init__(self, root: DataRoot) -> None:
        self._root = root

    def path(self, ref: VolumeRef) -> Path:
        return self._root.volumes / ref.name

    def seen(self) -> tuple[VolumeSeen, ...]:
        """Every labelled home that is there."""
        labelled = {path.stem for path in self._root.labels.iterdir() if path.suffix == ".json"}
        with os.scandir(self._root.volumes) as entries:
            there = {each.name for each in entries if each.is_dir(follow_symlinks=False)}
        refs = (_parse(name) for name in sorted(labelled & there))
        return tuple(VolumeSeen(ref.workspace_id, ref.name, ref.generation) for ref in refs if ref)

    def is_ours(self, ref: VolumeRef) -> bool:
        """True: there and labelled; False: not there; a NameConflict when it is not ours."""
        try:
            mode = self.path(ref).lstat().st_mode
        except FileNotFoundError:
            return False
        if not stat.S_ISDIR(mode) or not self._is_labelled(ref):
            raise NameConflict(
                f"{self.path(ref)} exists and is not this hub's volume, so it was not touched",
                hint="move it away",
            )
        return True

    def require(self, ref: VolumeRef) -> Path:
        """The home to start in; never made here, because an empty one would hide the loss."""
        if not self.is_ours(ref):
            raise ActionFailed(f"the volume {ref.name} is not there")
        return self.path(ref)

    def create(self, ref: VolumeRef) -> None:
        if self.is_ours(ref):
            return
        write_durably(self._label(ref), self._content(ref))
        self.path(ref).mkdir(mode=0o700)
        sync_directory(self._root.volumes)

    def discard(self, ref: VolumeRef) -> None:
        """Make it trash; absent is fine."""
        if self.is_ours(ref):
            self.path(ref).rename(self._trash_name())
            sync_directory(self._root.volumes)
        remove_durably(self._label(ref))

    def generations(self, workspace_id: UUID) -> int:
        """How many homes of this workspace there are."""
        return sum(each.workspace_id == workspace_id for each in self.seen())

    def empty_trash(self) -> None:
        """Remove what was discarded, now or before a crash; what resists stays and is logged."""
        trash = [path for path in self._root.volumes.iterdir() if path.name.startswith(TRASH)]
        while trash:
            path = trash.pop()
            try:
                trash += self._flatten(path)
                path.rmdir()
            except FileNotFoundError:
                continue
            except OSError as error:
                _log.warning("%s cannot be removed: %s", path, error.strerror)

    def _flatten(self, directory: Path) -> list[Path]:
        """Remove the files of a directory and move its directories up into the trash."""
        directory.chmod(0o700)
        with os.scandir(directory) as entries:
            found = [(Path(each.path), each.is_dir(follow_symlinks=False)) for each in entries]
        moved = []
        for path, is_directory in found:
            # What is gone meanwhile, another one who empties the trash has taken.
            with suppress(FileNotFoundError):
                if is_directory:
                    moved.append(self._move_up(path))
                else:
                    path.unlink()
        return moved

    def _move_up(self, directory: Path) -> Path:
        # Moving a directory writes its "..", which needs permission to write to it.
        directory.chmod(0o700)
        return directory.rename(self._trash_name())

    def _trash_name(self) -> Path:
        return self._root.volumes / f"{TRASH}{token_hex(8)}"

    def _is_labelled(self, ref: VolumeRef) -> bool:
        try:
            return self._label(ref).read_bytes() == self._content(ref)
        except FileNotFoundError:
            return False

    def _label(self, ref: VolumeRef) -> Path:
        return self._root.labels / f"{ref.name}.json"

    def _content(self, ref: VolumeRef) -> bytes:
        fields = {
            "hub": self._root.hub_id,
            "workspace": str(ref.workspace_id),
            "generation": ref.generation,
        }
        return json.dumps(fields).encode()


def _parse(name: str) -> VolumeRef | None:
    identity, _, generation = name.removeprefix("ws-").partition("-home-g")
    try:
        ref = VolumeRef(UUID(identity), int(generation))
    except ValueError:
        return None
    return ref if ref.name == name else None
