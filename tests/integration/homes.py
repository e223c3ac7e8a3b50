"""Homes with everything a file system can hold, and a description exact enough to compare two."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

OLD = 1_234_567_890_123_456_789
"""A time whose nanoseconds a coarser clock would lose."""


def fill_home(home: Path) -> None:
    """A home with one of everything that an archive must keep."""
    _write_files(home)
    _write_names(home)
    _write_links(home)
    _write_holes(home)
    _write_attributes(home)
    _set_times(home)


def describe(root: Path) -> dict[str, dict[str, Any]]:
    """Everything about a tree that a restore must bring back, by path."""
    first: dict[tuple[int, int], str] = {}
    found: dict[str, dict[str, Any]] = {}
    for path in _paths(root):
        name = str(path.relative_to(root))
        found[name] = _describe(path)
        state = path.lstat()
        if not stat.S_ISDIR(state.st_mode):
            found[name]["same as"] = first.setdefault((state.st_dev, state.st_ino), name)
    return found


def allocate(path: Path, size: int) -> None:
    """A file of zeros that takes its whole size on the disk and no time to write."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.posix_fallocate(descriptor, 0, size)
    finally:
        os.close(descriptor)


def add_left_out(home: Path) -> int:
    """Sockets, and devices where we may make them: what archives leave out. How many."""
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(".", os.O_RDONLY)
        os.chdir(home)  # the names of sockets are short
        try:
            listener.bind("socket")
        finally:
            os.fchdir(here)
            os.close(here)
    os.link(home / "socket", home / "socket2")
    count = 2
    with suppress(PermissionError):
        os.mknod(home / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        os.link(home / "null", home / "null2")
        os.mknod(home / "zz-block", 0o600 | stat.S_IFBLK, os.makedev(7, 99))
        count += 3
    return count


def _paths(root: Path) -> list[Path]:
    paths = [root]
    for folder, folders, files in os.walk(root):
        paths += [Path(folder) / name for name in folders + files]
    return sorted(paths)


def _describe(path: Path) -> dict[str, Any]:
    state = path.lstat()
    about: dict[str, Any] = {
        "mode": oct(state.st_mode),
        "owner": (state.st_uid, state.st_gid),
        "mtime": state.st_mtime_ns,
        "xattrs": {
            name: os.getxattr(path, name, follow_symlinks=False)
            for name in os.listxattr(path, follow_symlinks=False)
        },
    }
    if stat.S_ISLNK(state.st_mode):
        about["target"] = str(path.readlink())
    elif stat.S_ISREG(state.st_mode):
        about |= {"links": state.st_nlink, "size": state.st_size} | _content(path)
    return about


def _content(path: Path) -> dict[str, Any]:
    """Where a file has data, and its hash; between that are holes."""
    digest = hashlib.sha256()
    segments = []
    end = 0
    with path.open("rb") as file, suppress(OSError):
        while True:
            begin = os.lseek(file.fileno(), end, os.SEEK_DATA)
            end = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            segments.append((begin, end))
            digest.update(os.pread(file.fileno(), end - begin, begin))
    return {"sha256": digest.hexdigest(), "data": segments}


def _write_files(home: Path) -> None:
    for mode in (0o644, 0o600, 0o755, 0o444, 0o7755):
        (home / f"mode-{mode:o}").write_bytes(b"content %o" % mode)
        (home / f"mode-{mode:o}").chmod(mode)
    (home / "empty").touch()
    (home / "binary").write_bytes(bytes(range(256)) * 3000)
    (home / "empty-folder").mkdir()
    (home / "shared").mkdir()
    (home / "shared").chmod(0o2775)
    (home / "read-only").mkdir()
    (home / "read-only" / "file").write_text("inside")
    (home / "read-only").chmod(0o555)
    os.mkfifo(home / "pipe", 0o640)


def _write_names(home: Path) -> None:
    """Names that sort in surprising places, that are long, or that are no text."""
    for name in ("a", "a-b", "a.b", "A", "aa", "..a", "...", "-rf", "*", "ä", "with space", "b\\n"):
        (home / "names" / name).mkdir(parents=True)
        (home / "names" / name / "inside").write_text(name)
    for raw in (b"\xff\xfe", b"new\nline", b"tab\t", b"\x01", b"na\xc3", b"%s%n", b"path=x"):
        (home / "names" / os.fsdecode(raw)).mkdir()
    (home / "names" / ("n" * 255)).touch()
    deep = home.joinpath("deep", *["d" * 120] * 12)
    deep.mkdir(parents=True)
    (deep / ("f" * 200)).write_text("far down")


def _write_links(home: Path) -> None:
    links = home / "links"
    links.mkdir()
    (links / "file").write_text("linked")
    os.link(links / "file", links / "again")
    os.link(links / "file", home / "zz-third-name")
    (links / "relative").symlink_to("file")
    (links / "dangling").symlink_to("nowhere/at all")
    (links / "absolute").symlink_to("/etc/passwd")
    (links / "upwards").symlink_to("../../../outside")
    (links / "loop").symlink_to("loop")
    (links / "folder").symlink_to("../names", target_is_directory=True)
    (links / "long").symlink_to("x/" * 1500 + "y")
    os.link(links / "absolute", links / "absolute-again", follow_symlinks=False)


def _write_holes(home: Path) -> None:
    for name, pieces in {
        "hole-only": [],
        "hole-first": [8 << 20],
        "hole-between": [0, 1 << 20, 5 << 20],
    }.items():
        with (home / name).open("wb") as file:
            for offset in pieces:
                file.seek(offset)
                file.write(b"data" * 1024)
            file.truncate(16 << 20)
    with (home / ("hole-" + "h" * 200)).open("wb") as file:
        file.truncate(1 << 40)


def _write_attributes(home: Path) -> None:
    """Extended attributes as far as this file system and account have them; owners as root."""
    (home / "attributes").write_text("with attributes")
    for path in (home / "attributes", home / "empty-folder", home / "hole-first"):
        with suppress(OSError):
            os.setxattr(path, "user.plain", b"value")
            os.setxattr(path, "user.raw", bytes(range(256)))
            os.setxattr(path, "user.empty", b"")
            os.setxattr(path, "system.posix_acl_access", ACCESS_LIST)
            os.setxattr(path, "trusted.note", b"root only")
    (home / "access").mkdir()
    (home / "access" / "older").write_text("without the list of the folder")
    with suppress(OSError):
        os.setxattr(home / "access", "system.posix_acl_default", ACCESS_LIST)
    if os.geteuid() == 0:
        os.chown(home / "binary", 1234, 4321)
        os.chown(home / "links" / "dangling", 3_000_000_000, 7, follow_symlinks=False)
        os.chown(home / "shared", 0, 99_999)
        with suppress(OSError):
            os.setxattr(home / "binary", "security.capability", CAPABILITY)


CAPABILITY = bytes.fromhex("0100000200040000000000000000000000000000")
"""cap_net_bind_service, which a change of owner would clear."""


ACCESS_LIST = struct.pack(
    "<I" + "HHI" * 5,
    *(2, 1, 6, 0xFFFFFFFF, 2, 4, 1234, 4, 4, 0xFFFFFFFF, 16, 6, 0xFFFFFFFF, 32, 0, 0xFFFFFFFF),
)
"""An ACL as the kernel has it: user 1234 may read, beside the owner, the group and others."""


def _set_times(home: Path) -> None:
    """From the leaves up, because writing into a folder moves its time."""
    for number, path in enumerate(reversed(_paths(home))):
        when = OLD + number * 1_000_000_007
        os.utime(path, ns=(when, when), follow_symlinks=False)
    os.utime(home / "empty", ns=(-1_500_000_000, -1_500_000_000))
    state = home.stat()
    os.utime(home, ns=(state.st_atime_ns, OLD))
