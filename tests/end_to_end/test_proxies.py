"""`codehub serve proxy`: several processes on one port, killed, drained, with TLS."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import ssl
import subprocess
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from codehub.adapters.process.probe import free_port
from tests.end_to_end.hub import DEMO, PATIENCE, Hub, a_hub, until
from tests.end_to_end.moments import NEVER
from tests.end_to_end.visits import cookie, request, visit, welcome

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(300)
WORKER = b"spawn_main"
PROC = Path("/proc")


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with a_hub() as made:
        made.declare(steady=f"{DEMO}, {NEVER}")
        made.start()
        made.until_settled(steady="RUNNING")
        yield made


def serve(hub: Hub, *words: str) -> tuple[subprocess.Popen[bytes], int]:
    """One more proxy of this hub, once it answers."""
    port = free_port(())
    process = hub.launch("serve", "proxy", "--data", str(hub.data), "--port", str(port), *words)
    welcome(port, lambda: hub.database_url)
    until(lambda: answers(hub, process, port), "the proxy answers")
    return process, port


def answers(hub: Hub, process: subprocess.Popen[bytes], port: int) -> bool:
    assert process.poll() is None, hub.said(process)
    with suppress(OSError, http.client.HTTPException):
        return visit(port, "/w/steady/").status == 200
    return False


def workers(parent: int) -> list[int]:
    """The processes that this one started to serve its port."""
    pids = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]
    return sorted(pid for pid in pids if f"PPid:\t{parent}\n" in status_of(pid) and works(pid))


def works(pid: int) -> bool:
    with suppress(OSError):
        return WORKER in (PROC / str(pid) / "cmdline").read_bytes()
    return False


def status_of(pid: int) -> str:
    """What the kernel says of a living process."""
    with suppress(OSError):
        text = (PROC / str(pid) / "status").read_text()
        return "" if "State:\tZ" in text else text
    return ""


def test_a_worker_that_dies_is_replaced_and_all_end_together(hub: Hub) -> None:
    process, port = serve(hub, "--workers", "2")
    first = until(lambda: two(workers(process.pid)), "two workers")
    os.kill(first[0], signal.SIGKILL)
    second = until(
        lambda: two(each for each in workers(process.pid) if each != first[0]), "another one"
    )
    assert first[1] in second
    until(lambda: all(answers(hub, process, port) for _ in range(8)), "both answer")

    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=PATIENCE) == 0, hub.said(process)
    assert [pid for pid in second if status_of(pid)] == []


def two(pids: object) -> list[int] | None:
    found = list(pids)  # type: ignore[call-overload]
    return found if len(found) == 2 else None


def test_workers_end_with_a_supervisor_that_was_killed(hub: Hub) -> None:
    process, port = serve(hub, "--workers", "2")
    left = until(lambda: two(workers(process.pid)), "two workers")
    process.kill()
    process.wait(timeout=PATIENCE)
    until(lambda: not any(status_of(pid) for pid in left), "they end too")
    with pytest.raises(OSError, match="refused"):
        request(port, "GET", "/healthz")


def test_it_serves_tls_by_itself(hub: Hub, tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    hub.settings |= {
        "PROXY_TLS_CERTIFICATE": str(certificate),
        "PROXY_TLS_KEY": str(key),
        "PROXY_PUBLIC_URL": "https://localhost",
    }
    port = free_port(())
    hub.launch("serve", "proxy", "--data", str(hub.data), "--port", str(port))
    welcome(port, lambda: hub.database_url)
    trusted = ssl.create_default_context(cafile=str(certificate))
    secret = cookie(port).replace("codehub=", "__Host-codehub=")

    def status() -> int | None:
        connection = http.client.HTTPSConnection("localhost", port, context=trusted, timeout=60)
        with suppress(OSError), closing(connection):
            connection.request("GET", "/w/steady/", headers={"Cookie": secret})
            return connection.getresponse().status
        return None

    assert until(status, "an answer over TLS") == 200
