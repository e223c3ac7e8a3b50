"""Unpack specs that somebody sent: into memory, within bounds, and never onto a disk.

An archive may hold files and directories, nothing else. Each name is a plain path below the
directory; what leaves it, links, devices, names given twice and whatever grows beyond the bounds
are refused, and so is an archive that is cut off: half the specs would look like deletions.
"""

from __future__ import annotations

import io
import tarfile
import zlib
from typing import TYPE_CHECKING, Final

from codehub.core.withhold import quoted
from codehub.errors import UsageError
from codehub.specs import caps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PATH_LENGTH: Final = 1024
_BLOCK: Final = 512
_BROKEN: Final = (tarfile.TarError, EOFError, ValueError, OverflowError, RecursionError)
"""What the reader raises for headers that make no sense, or follow each other for ever."""
_GZIP: Final = 31
"""zlib's word for: a gzip stream, with its header and checksum."""


def read_gzip(body: bytes, most: int) -> bytes:
    """What is in a gzip stream, if that is at most so many bytes."""
    stream = zlib.decompressobj(_GZIP)
    try:
        unpacked = stream.decompress(body, most + 1)
    except zlib.error:
        raise UsageError("the body is not compressed with gzip, or broken") from None
    if len(unpacked) > most:
        raise UsageError(
            f"unpacked it is more than {most:,} bytes", hint="send the spec directory alone"
        )
    if not stream.eof:
        raise _cut_off()
    if stream.unused_data.strip(b"\0"):
        raise UsageError("there is something behind the end of what is compressed with gzip")
    return unpacked


def read_tar(data: bytes) -> dict[str, bytes]:
    """The files of a tar archive that is known to be small enough, by their paths."""
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:", encoding="utf-8") as tar:
            for count, member in enumerate(tar):
                if count >= caps.FILES + caps.DIRECTORIES:
                    raise _too_many()
                if not member.isdir():
                    _add(files, plain_path(member.name), _content(tar, member))
            end = tar.offset
    except _BROKEN:
        raise UsageError("the body is not a tar archive, or a broken one") from None
    if len(data) - end < _BLOCK or any(data[end : end + _BLOCK]):
        raise _cut_off()
    return checked(files)


def checked(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files by their plain paths, if there are not too many and none is also a directory."""
    if len(files) > caps.FILES:
        raise _too_many()
    plain: dict[str, bytes] = {}
    for path, content in files.items():
        _add(plain, plain_path(path), content)
    for path in plain:
        for directory in _above(path):
            if directory in plain:
                raise UsageError(f"{quoted(directory)} is both a file and a directory")
    return plain


def plain_path(name: str) -> str:
    """The name as a path below the directory. Raises UsageError for whatever is none."""
    path = name.removeprefix("./")
    parts = path.split("/")
    if len(path) > PATH_LENGTH or len(parts) > caps.PATH_DEPTH:
        raise UsageError(f"the name {quoted(path)} is too long, or too many directories deep")
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise UsageError(
            f"{quoted(name)} is not a path below the spec directory",
            hint="name files like team/api.yaml",
        )
    return path


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    if not member.isreg() or member.issparse():
        raise UsageError(
            f"{quoted(member.name)} in the archive is neither a file nor a directory",
            hint="pack the files themselves, without links",
        )
    if member.size > caps.FILE_BYTES:
        raise UsageError(f"{quoted(member.name)} is larger than a spec file may be")
    file = tar.extractfile(member)
    content = file.read() if file is not None else b""
    if len(content) != member.size:
        raise _cut_off()
    return content


def _add(files: dict[str, bytes], path: str, content: bytes) -> None:
    if path in files:
        raise UsageError(f"{quoted(path)} is given twice")
    files[path] = content


def _above(path: str) -> Iterable[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _too_many() -> UsageError:
    return UsageError(f"more than {caps.FILES:,} files", hint="send the spec directory alone")


def _cut_off() -> UsageError:
    return UsageError("the archive is cut off: its end is missing", hint="send it again")
