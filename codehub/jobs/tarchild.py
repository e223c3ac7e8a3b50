"""GNU tar as a child process: what we ask of it, and what its complaints mean.

tar does what Python's tarfile cannot: holes, xattrs, speed. It is started on a leash, with an
environment that holds nothing of ours.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO, TYPE_CHECKING, Final

from codehub.errors import ActionFailed
from codehub.jobs.pipeline import CHUNK
from codehub.jobs.tarheader import readable

if TYPE_CHECKING:
    from types import TracebackType

_LEASH: Final = Path(__file__).with_name("leash.py")
_KEEP: Final = ("--numeric-owner", "--xattrs", "--xattrs-include=*")
"""Access lists are among the attributes."""
_PLAIN: Final = ("--quoting-style=escape", "--blocking-factor=1024", "--file=-")
_PAX: Final = "--pax-option=delete=atime,delete=ctime,exthdr.name=%d/PaxHeaders/%f"
_CREATE: Final = ("--create", "--format=posix", _PAX, "--sparse", "--sort=name")
_EXTRACT: Final = ("--extract", "--same-permissions", "--delay-directory-restore")
_SOCKET: Final = b": socket ignored\n"
_FULL: Final = ("No space left on device", "Disk quota exceeded")
_MOST_NOTES: Final = 20


class TarChild:
    """tar, reading or writing a volume. Leaving the context ends it, done or not."""

    def __init__(self, options: tuple[str, ...], volume: Path, *, fed: bool) -> None:
        command = [_find_tar(), *options, *_KEEP, *_PLAIN, f"--directory={volume}"]
        self._process = subprocess.Popen(
            _leashed(command if fed else [*command, "."]),
            stdin=subprocess.PIPE if fed else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if fed else subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)},
            bufsize=0,
        )
        self._notes: list[bytes] = []
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._broken = False
        self.sockets = 0
        _widen(self._process.stdin or self._process.stdout)

    def __enter__(self) -> TarChild:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def read(self) -> bytes:
        assert self._process.stdout is not None
        return os.read(self._process.stdout.fileno(), CHUNK)

    def write(self, data: bytes | memoryview) -> None:
        """Feed it. Once it has ended, what it would have got is dropped: `finish` says why."""
        assert self._process.stdin is not None
        view = memoryview(data)
        try:
            while view and not self._broken:
                view = view[os.write(self._process.stdin.fileno(), view) :]
        except BrokenPipeError:
            self._broken = True

    def finish(self) -> None:
        """Wait for its end; `ActionFailed` with its own words unless all went well."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        code = self._process.wait()
        self._listener.join()
        if code:
            raise _failure(self._notes, code)

    def _listen(self) -> None:
        assert self._process.stderr is not None
        while line := self._process.stderr.readline(8192):
            if line.endswith(_SOCKET):
                self.sockets += 1
            elif len(self._notes) < _MOST_NOTES:
                self._notes.append(line)


def pack(volume: Path) -> TarChild:
    """tar writing the volume to us, without changing anything in it."""
    return TarChild(_CREATE, volume, fed=False)


def unpack(volume: Path) -> TarChild:
    """tar filling the volume with what we feed it; owners only where we may set them."""
    owners = "--same-owner" if os.geteuid() == 0 else "--no-same-owner"
    return TarChild((*_EXTRACT, owners), volume, fed=True)


def _find_tar() -> str:
    found = shutil.which("gtar") or shutil.which("tar")
    if found is None:
        raise ActionFailed("there is no tar on this machine", hint="install GNU tar")
    return found


def _leashed(command: list[str]) -> list[str]:
    return [sys.executable, "-I", "-S", str(_LEASH), str(os.getpid()), *command]


def _widen(pipe: IO[bytes] | None) -> None:
    """A larger pipe means fewer turns between tar and us; refused, the small one does."""
    if pipe is not None and hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):
            fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, CHUNK)


def _failure(notes: list[bytes], code: int) -> ActionFailed:
    """What went wrong, in the words of the first complaint."""
    lines = [readable(line.partition(b": ")[2].strip()) for line in notes]
    telling = [line for line in lines if "Warning: " not in line] or [f"it ended with {code}"]
    for line in lines:
        if line.endswith(_FULL):
            return ActionFailed(
                f"no space is left for the volume: {line}",
                hint="free space where the volumes are, or make it larger",
            )
    return ActionFailed(f"tar failed: {telling[0]}")
