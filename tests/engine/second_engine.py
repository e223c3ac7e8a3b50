"""A second Docker engine on this machine, for tests to stop, kill and pause.

It shares nothing with the machine's own: data, sockets, containerd, bridges and addresses are its
alone, and it leaves the packet filter as it is, because ports on loopback need no rule in it. It
sees its own mounts in a namespace that outlives its restarts, where it also finds a range of ports
of its own: two engines that publish from one range take each other's ports while one is away.
"""

from __future__ import annotations

import grp
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import docker

from tests.conftest import require
from tests.contract.docker_engine import busybox_root, require_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE: Final = 60.0
IMAGE: Final = "codehub-test:1"
FIRST_NUMBER: Final = 165_536
"""What the superuser of containers is outside, where users are numbered anew."""
_PROGRAMS: Final = ("dockerd", "unshare", "nsenter", "ip")
_NOBODY: Final = ("nobody", grp.getgrgid(pwd.getpwnam("nobody").pw_gid).gr_name)
_NUMBERS: Final = (Path("/etc/subuid"), Path("/etc/subgid"))
_MACHINES: Final = Path("/sys/class/net/docker0")
_NAMESPACE: Final = """
mkdir -p /run/containerd && mount -t tmpfs tmpfs /run/containerd &&
mount --bind "$1" /proc/sys/net/ipv4/ip_local_port_range && echo ready && exec cat
"""
"""Without the machine's containerd an engine starts one of its own. It stays until stdin ends."""


class SecondEngine:
    """Below `directory` lies all it has; its bridges and processes go with `end`.

    Without live-restore it has no addresses for further networks: use its `bridge`.
    """

    def __init__(self, directory: Path, *, live_restore: bool, remap: bool = False) -> None:
        self.directory = directory
        self.socket = directory / "engine.sock"
        self.live_restore = live_restore
        self.remap = remap
        self._number = _take_number()
        self._mounts = self._open_namespace()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def base_url(self) -> str:
        return f"unix://{self.socket}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, or start it again, and wait until it answers."""
        with (self.directory / "said").open("ab") as said:
            self._process = subprocess.Popen(
                ["nsenter", f"--mount=/proc/{self._mounts.pid}/ns/mnt", *self._command()],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
        with self.client() as client:
            assert client.ping()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it with a signal; with SIGKILL it has no time to do anything about it."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(timeout=PATIENCE)
            # The next one would take a containerd that is dying for one that it can use.
            _until(lambda: not self._containerd().exists(), "its containerd has ended")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Inside, it takes connections and answers nothing."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    @contextmanager
    def client(self) -> Iterator[docker.APIClient]:
        """A client of the test's own, as soon as the engine answers."""
        client = self._connect()
        try:
            yield client
        finally:
            client.close()

    def ids(self) -> dict[str, str]:
        """The id of every container that runs, by its name."""
        with self.client() as client:
            return {each["Names"][0].removeprefix("/"): each["Id"] for each in client.containers()}

    def ports(self) -> list[int]:
        """The published port of every container that runs; each has one."""
        with self.client() as client:
            return [each["Ports"][0]["PublicPort"] for each in client.containers()]

    def volume(self, name: str) -> Path:
        """The directory of one of its volumes."""
        return data_of(self.directory) / "volumes" / name / "_data"

    def end(self) -> None:
        """Remove everything it holds, and then the engine itself."""
        try:
            self._empty()
        finally:
            self.stop()
            for pid in self._left():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            _until(lambda: not self._left(), "its processes have ended")
            self._close_namespace()
            _run("ip", "link", "delete", _bridge(self._number))

    def prepare(self) -> None:
        """Give it addresses, start it, and put an image there to start workspaces from."""
        if self.remap:
            self._give_numbers()
        bridge = _bridge(self._number)
        _run("ip", "address", "add", f"198.18.{self._number}.1/24", "dev", bridge)
        _run("ip", "link", "set", bridge, "up")
        self.start()
        repository, tag = IMAGE.split(":")
        with self.client() as client:
            said = client.import_image_from_data(busybox_root(), repository=repository, tag=tag)
        assert "sha256:" in said, said

    def _command(self) -> list[str]:
        path, number = self.directory, self._number
        return [
            "dockerd",
            *("--data-root", str(data_of(path)), "--exec-root", str(path / "run")),
            *("--pidfile", str(path / "pid"), "--host", self.base_url),
            *("--bridge", _bridge(number)),
            *("--iptables=false", "--ip-masq=false", "--ip-forward=false"),
            *(self._live_restore() if self.live_restore else ()),
            *((f"--userns-remap={':'.join(_NOBODY)}",) if self.remap else ()),
        ]

    def _give_numbers(self) -> None:
        """Users of its containers are others outside; only it sees the files that say which."""
        self.directory.chmod(0o711)
        given = self.directory / "numbers"
        given.write_text("".join(f"{each}:{FIRST_NUMBER}:65536\n" for each in _NOBODY))
        enter = ("nsenter", f"--mount=/proc/{self._mounts.pid}/ns/mnt")
        for file in _NUMBERS:
            _run(*enter, "mount", "--bind", str(given), str(file))

    def _live_restore(self) -> tuple[str, ...]:
        """With a pool and without live-restore a restart would remove the machine's docker0."""
        return (
            "--live-restore",
            "--default-address-pool",
            f"base=198.19.{self._number}.0/24,size=26",
        )

    def _open_namespace(self) -> subprocess.Popen[bytes]:
        first = 10_000 + 60 * self._number
        ports = self.directory / "ports"
        ports.write_text(f"{first}\t{first + 59}\n")
        shell = ("sh", "-c", _NAMESPACE, "sh")
        holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", *shell, str(ports)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert holder.stdout is not None
        if holder.stdout.readline() != b"ready\n":
            holder.communicate(timeout=PATIENCE)
            _run("ip", "link", "delete", _bridge(self._number))
            require("docker", False, "no mounts can be made here; run the tests as root")
        return holder

    def _close_namespace(self) -> None:
        self._mounts.communicate(timeout=PATIENCE)

    def _connect(self) -> docker.APIClient:
        _until(self._listens, "the engine listens")
        return docker.APIClient(self.base_url, version="auto", timeout=PATIENCE)

    def _listens(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            said = (self.directory / "said").read_text(errors="replace")
            raise AssertionError(f"the engine has ended:\n{said[-3000:]}")
        # The SDK loses the descriptor of a socket that it cannot connect.
        with socket.socket(socket.AF_UNIX) as attempt:
            return attempt.connect_ex(str(self.socket)) == 0

    def _empty(self) -> None:
        if self._process is None or self._process.poll() is not None:
            self.start()
        with self.client() as client:
            for each in client.containers(all=True):
                client.remove_container(each["Id"], v=True, force=True)
            client.prune_networks()

    def _containerd(self) -> Path:
        """Where the kernel tells of it; not there when it was ended in an orderly way."""
        file = self.directory / "run" / "containerd" / "containerd.pid"
        return Path("/proc") / (file.read_text() if file.exists() else "none")

    def _left(self) -> list[int]:
        """Its processes, those in containers aside: they are named after its directory."""
        mark = str(self.directory).encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if mark in path.read_bytes():
                    found.append(int(path.parent.name))
        return found


@contextmanager
def second_engine(*, live_restore: bool = True, remap: bool = False) -> Iterator[SecondEngine]:
    """A second engine that runs, with IMAGE on it; everything of it is gone afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="codehub-engine-"))
    try:
        with engine_in(directory, live_restore=live_restore, remap=remap) as engine:
            yield engine
    finally:
        shutil.rmtree(directory)


@contextmanager
def engine_in(
    directory: Path, *, live_restore: bool = True, remap: bool = False
) -> Iterator[SecondEngine]:
    """The same in a directory that the caller looks after, and may have mounted disks in."""
    require_engine()
    missing = [each for each in _PROGRAMS if shutil.which(each) is None]
    require("docker", not missing, f"a second engine needs {', '.join(missing)}")
    if remap:
        require("docker", all(each.exists() for each in _NUMBERS), "needs /etc/subuid and subgid")
    others = _MACHINES.exists()
    engine = SecondEngine(directory, live_restore=live_restore, remap=remap)
    try:
        engine.prepare()
        yield engine
    finally:
        engine.end()
        assert _MACHINES.exists() is others, "the machine's own bridge was touched"


def data_of(directory: Path) -> Path:
    """Where an engine in this directory keeps everything."""
    return directory / "data"


def _take_number() -> int:
    """A number that no other engine of tests has: whoever can make its bridge has it."""
    for number in random.sample(range(256), 256):
        command = ["ip", "link", "add", "name", _bridge(number), "type", "bridge"]
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
        if done.returncode == 0:
            return number
    require("docker", False, "no bridge can be made here; run the tests as root")
    raise AssertionError


def _bridge(number: int) -> str:
    return f"codehub-test{number}"


def _until(check: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.02)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=PATIENCE)
