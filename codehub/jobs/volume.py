"""The directory of a home volume, as a job sees it."""

from __future__ import annotations

import ctypes
import os
import stat
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from codehub.errors import ActionFailed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from codehub.model.archive import ArchiveMeta

_BLOCK_ROUNDING: Final = 2048
"""What a file takes on a disk beyond its part of a tar stream, on average, at most."""


def require_volume(volume: Path) -> None:
    with _translated(volume):
        if not stat.S_ISDIR(volume.lstat().st_mode):
            raise ActionFailed(f"the volume {volume} is not a directory")


def require_empty(volume: Path) -> None:
    """A restore goes into a new volume only: what is in another one is not ours to mix with."""
    require_volume(volume)
    with _translated(volume), os.scandir(volume) as entries:
        if any(True for _ in entries):
            raise ActionFailed(f"the volume {volume} is not empty; nothing was changed")


def require_space(volume: Path, meta: ArchiveMeta) -> None:
    with _translated(volume):
        disk = os.statvfs(volume)
    needed = meta.unpacked_bytes + meta.entries * _BLOCK_ROUNDING
    free = disk.f_bavail * disk.f_frsize
    if needed > free:
        raise ActionFailed(
            f"not enough space for the volume: {_mib(needed)} are needed, {_mib(free)} are free",
            hint="free space where the volumes are, or make it larger",
        )
    if disk.f_files and meta.entries > disk.f_favail:
        raise ActionFailed(
            f"not enough inodes for the volume: {meta.entries} are needed, {disk.f_favail} free",
            hint="remove files where the volumes are, or make it larger",
        )


def sync_volume(volume: Path) -> None:
    """Make it durable: once the restore is recorded, nobody looks at the archive again."""
    with _translated(volume):
        descriptor = os.open(volume, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _sync_file_system(descriptor)
        finally:
            os.close(descriptor)


def empty_volume(volume: Path) -> None:
    """Remove everything in it and nothing else.

    Directories are moved up to the top before they are emptied, so neither their depth nor the
    length of their paths matters; links are removed, never followed.
    """
    with _translated(volume):
        volume.chmod(0o700)
        top = os.open(volume, os.O_RDONLY | os.O_DIRECTORY)
        try:
            while names := _names(top):
                for name in names:
                    _remove(name, top)
        finally:
            os.close(top)


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _remove(name: str, top: int) -> None:
    if not stat.S_ISDIR(os.lstat(name, dir_fd=top).st_mode):
        os.unlink(name, dir_fd=top)
        return
    os.chmod(name, 0o700, dir_fd=top)
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    try:
        for child in _names(folder):
            _lift(child, folder, top)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=top)


def _lift(child: str, folder: int, top: int) -> None:
    if not stat.S_ISDIR(os.lstat(child, dir_fd=folder).st_mode):
        os.unlink(child, dir_fd=folder)
        return
    os.chmod(child, 0o700, dir_fd=folder)
    os.rename(child, uuid.uuid4().hex, src_dir_fd=folder, dst_dir_fd=top)


def _sync_file_system(descriptor: int) -> None:
    """Only the one the volume is on, where the system can."""
    try:
        failed = ctypes.CDLL(None, use_errno=True).syncfs(descriptor)
    except (AttributeError, OSError):
        os.sync()
        return
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@contextmanager
def _translated(volume: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ActionFailed(f"the volume {volume} cannot be used: {error.strerror}") from error


def _mib(count: int) -> str:
    return f"{-(-count // 2**20)} MiB"
