"""The whole OpenAPI document against a hub on its port: what comes is as promised.

schemathesis makes requests from the document: its examples, values at and beyond every bound,
random ones, and chains in which one answer feeds the next request. No coordinator runs, so what is
asked for stays asked for. Left out is the stream of events alone, which has no end: what it answers
is held against the document in `test_stream_document`.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from codehub.proxy.process import Listening
from codehub.web.process import serve_web
from tests.web.web_world import API

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import Path

    import httpx

    from codehub.model.workspace import Workspace
    from tests.web.web_world import WebWorld

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

PATIENCE = 540
EXAMPLES = 12
SEED = 20261116

# What the document cannot say: which etag a workspace has just now (412), which cursors, targets,
# specs and printable characters there are, how long ten years are, and which keys have stood for
# another request (422).
EXPECTED = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", 401, 403, 404, 409, 412, 429]

[[operations]]
include-operation-id = [
    "planSpecs", "listWorkspaces", "listWorkspaceEvents", "listAudit", "listRevisions",
    "patchWorkspace", "overrideWorkspace", "createToken",
]
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", 401, 403, 404, 409, 412, 422, 429]
"""


async def output(_workspace: Workspace, tail: int, _follow: bool) -> AsyncGenerator[bytes, None]:
    """What every workspace here writes, and then it stops."""

    async def lines() -> AsyncGenerator[bytes, None]:
        yield b"listening on 8080\n" * min(tail, 3)

    return lines()


@asynccontextmanager
async def on_a_port(world: WebWorld) -> AsyncIterator[str]:
    listening = Listening(port=0)
    async with serve_web(world.settings, world.url, world.signals, listening, logs=output) as port:
        yield f"http://localhost:{port}"


async def check(client: httpx.AsyncClient, cwd: Path, *words: str) -> None:
    """Run schemathesis as whoever this client is."""
    (cwd / "schemathesis.toml").write_text(EXPECTED)
    names = ("Authorization", "Cookie", "Origin", "X-CSRF-Token")
    shown = [f"{name}: {client.headers[name]}" for name in names if name in client.headers]
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{client.base_url}{API}/openapi.json"),
        *(word for header in shown for word in ("-H", header)),
        *("--exclude-path", f"{API}/events", "--checks", "all", "--continue-on-failure"),
        *("--max-examples", str(EXAMPLES), "--seed", str(SEED)),
        *("--generation-database", "none", "--no-color", "--workers", "1", *words),
    ]
    done = await asyncio.to_thread(_run, command, cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Tested: 0" not in done.stdout


def _run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    here = {"NO_PROXY": "*", "PYTHONWARNINGS": ""}
    return subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | here,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize("who", ["root", "ana"])
async def test_the_document_holds(world: WebWorld, tmp_path: Path, who: str) -> None:
    """With a token, for all that a token can do but ending itself."""
    async with on_a_port(world) as base:
        client = await world.token(who, base=base)
        await check(client, tmp_path, "--exclude-operation-id", "revokeToken")


async def test_people_can_do_the_rest(world: WebWorld, tmp_path: Path) -> None:
    """With a login, tokens are made and ended. A cookie counts whatever Authorization is beside."""
    async with on_a_port(world) as base:
        client = await world.session("bob", base)
        words = ("--include-tag", "tokens", "--exclude-checks", "ignored_auth")
        await check(client, tmp_path, *words)
