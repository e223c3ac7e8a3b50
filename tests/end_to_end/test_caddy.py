"""The Caddy of `deploy/compose` at work, before two proxies of a hub.

Its file is the one that is shipped, with other ports and places, and without certificates.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from contextlib import contextmanager, suppress
from http.client import HTTPException
from typing import TYPE_CHECKING, NamedTuple

import pytest

from codehub.adapters.process.probe import free_port
from codehub.wiring import PAGES
from tests.caddy import require_caddy
from tests.end_to_end.hub import DEMO, PATIENCE, Hub, a_hub, until
from tests.end_to_end.moments import NEVER
from tests.end_to_end.test_proxies import serve
from tests.end_to_end.visits import echo, visit, welcome
from tests.integration.compose_file import CADDYFILE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(300)

ADDRESS = "/w/steady/"


class Front(NamedTuple):
    """Caddy's port, the proxies behind it, and the page that it has for when they are gone."""

    port: int
    proxies: list[subprocess.Popen[bytes]]
    page: Path


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with a_hub() as made:
        made.declare(steady=f"{DEMO}, {NEVER}")
        made.start()
        made.until_settled(steady="RUNNING")
        yield made


@pytest.fixture(scope="module")
def front(hub: Hub) -> Iterator[Front]:
    program = require_caddy()
    (one, first), (two, second) = serve(hub), serve(hub)
    health = free_port({first, second})
    port = free_port({first, second, health})
    file = hub.directory / "Caddyfile"
    pages = hub.data / PAGES
    file.write_text(changed(first, second, health, pages))
    welcome(port, lambda: hub.database_url)
    with caddy(program, file, port):
        until(lambda: answers(port), "a page through Caddy")
        yield Front(port, [one, two], pages / "unavailable.html")


def changed(first: int, second: int, health: int, pages: Path) -> str:
    """The shipped file for these ports and pages."""
    text = CADDYFILE.read_text()
    for shipped, here in {
        "admin off": "admin off\n\tauto_https off\n\tdefault_bind 127.0.0.1",
        "127.0.0.1:8081 ": f"127.0.0.1:{first} ",
        "127.0.0.1:8082 ": f"127.0.0.1:{second} ",
        "127.0.0.1:2020": f"127.0.0.1:{health}",
        "/srv/codehub/pages": str(pages),
    }.items():
        assert text.count(shipped) == 1, shipped
        text = text.replace(shipped, here)
    return text


@contextmanager
def caddy(program: str, file: Path, port: int) -> Iterator[None]:
    """Inside, it serves the port, without TLS, to whoever comes by whatever name."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(file.parent),
        "HUB_DOMAIN": f"http://:{port}",
        "ACME_EMAIL": "a@localhost",
    }
    command = [program, "run", "--adapter", "caddyfile", "--config", str(file)]
    with (
        file.with_name("caddy-said").open("wb") as said,
        subprocess.Popen(command, env=env, stdout=said, stderr=said) as process,
    ):
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE)


def answers(port: int) -> bool:
    with suppress(OSError, HTTPException):
        return visit(port, ADDRESS).status == 200
    return False


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(timeout=PATIENCE)


def test_pages_and_sockets_come_through(hub: Hub, front: Front) -> None:
    direct = visit(hub.port, ADDRESS)
    through = visit(front.port, ADDRESS)
    assert (through.status, through.body) == (200, direct.body)
    said = ["one", "two", "three"]
    assert asyncio.run(echo(front.port, f"{ADDRESS}echo", *said)) == said


def test_one_proxy_is_enough_and_without_any_the_last_page_is_shown(front: Front) -> None:
    one, two = front.proxies
    end(one)
    assert [visit(front.port, ADDRESS).status for _ in range(10)] == [200] * 10
    assert asyncio.run(echo(front.port, f"{ADDRESS}echo", "still here")) == ["still here"]

    end(two)
    shown = visit(front.port, ADDRESS)
    assert shown.status in (502, 503)
    assert shown.headers["retry-after"] == "10"
    assert shown.headers["content-type"].startswith("text/html")
    assert shown.body == front.page.read_bytes()
