"""`codehub serve all`, and `serve web` behind `serve proxy`: the same hub in one process or two."""

from __future__ import annotations

import json
import signal
from contextlib import suppress
from http.client import HTTPException
from typing import TYPE_CHECKING

import pytest

from codehub.adapters.process.probe import free_port
from tests.end_to_end.hub import DEMO, PATIENCE, Hub, a_hub, until
from tests.end_to_end.moments import NEVER
from tests.end_to_end.visits import request, visit, welcome

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with a_hub() as made:
        made.declare(steady=f"{DEMO}, {NEVER}")
        yield made


def launch(hub: Hub, what: str, port: int, *words: str) -> subprocess.Popen[bytes]:
    welcome(port, lambda: hub.database_url)
    return hub.launch("serve", what, "--data", str(hub.data), "--port", str(port), *words)


def names(hub: Hub, process: subprocess.Popen[bytes], port: int) -> list[str]:
    """What the API lists, empty while nobody answers."""
    assert process.poll() is None, hub.said(process)
    if " on 127.0.0.1:" not in hub.said(process):
        return []
    with suppress(OSError, HTTPException):
        answer = request(port, "GET", "/api/v1/workspaces")
        if answer.status == 200:
            return [each["name"] for each in json.loads(answer.body)["items"]]
    return []


def end(hub: Hub, process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=PATIENCE) == 0, hub.said(process)


def test_all_of_it_is_one_process(hub: Hub) -> None:
    port = free_port(())
    process = launch(hub, "all", port, "--specs", str(hub.specs))
    until(lambda: names(hub, process, port) == ["steady"], "the API lists it")
    until(lambda: visit(port, "/w/steady/").status == 200, "the workspace answers")
    end(hub, process)


def test_the_web_application_stands_behind_a_proxy(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind = free_port(())
    front = free_port({behind})
    web = launch(hub, "web", behind)
    monkeypatch.setenv("WEB_URL", f"http://127.0.0.1:{behind}")
    proxy = launch(hub, "proxy", front)
    until(lambda: names(hub, proxy, front) == ["steady"], "the API lists it through the proxy")
    end(hub, web)
    assert request(front, "GET", "/api/v1/workspaces").status == 503
    end(hub, proxy)
