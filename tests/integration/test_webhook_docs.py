"""The receiver of the how-to, run as it stands there; and the reference beside what is sent."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from codehub.adapters.http_post import HttpPost
from codehub.core.validate import check_document
from codehub.model.people import Webhook
from codehub.model.spec import HubDocument
from codehub.model.webhook import WebhookEvent
from tests.integration.receiver import receiving
from tests.integration.webhook_world import fail, fail_load, webhook_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

pytestmark = pytest.mark.anyio

DOCS = Path(__file__).parents[2] / "docs"
HOW_TO = (DOCS / "how-to" / "webhooks.md").read_text()
REFERENCE = (DOCS / "reference" / "webhooks.md").read_text()


def block(text: str, language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


@contextmanager
def running(path: Path) -> Iterator[tuple[int, IO[str]]]:
    """The receiver of the page, at a free port; its port and what it prints."""
    (path / "receiver.py").write_text(block(HOW_TO, "python"))
    child = subprocess.Popen(
        [sys.executable, "receiver.py", "0"],
        cwd=path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert child.stdout is not None
        port = int(child.stdout.readline().removeprefix("listening on port "))
        yield port, child.stdout
    finally:
        child.kill()
        child.communicate(timeout=60)


async def test_the_receiver_of_the_how_to_takes_what_is_signed_and_nothing_else(
    database_url: str, tmp_path: Path
) -> None:
    (tmp_path / "chat-webhook").write_text("3c8d4a\n")
    with running(tmp_path) as (port, printed):
        url = f"http://127.0.0.1:{port}/"
        hook = Webhook(url, (), "chat-webhook")
        async with webhook_world(database_url, hook, secrets_dir=tmp_path) as world:
            await fail(world.conn, "the image is not there")
            await world.tick()
            row = await world.delivery()
            assert row["last_status"] == 204
            line = await asyncio.to_thread(printed.readline)
            assert line == f"{row['id']} the image is not there\n"
            (tmp_path / "chat-webhook").write_text("another key")
            await fail(world.conn)
            await world.tick()
            assert (await world.deliveries())[1]["last_status"] == 401
        old = {"webhook-id": "x", "webhook-timestamp": "1", "webhook-signature": "v1,x v1,y"}
        assert (await HttpPost("test").post(url, old, b"{}")).status == 401


async def test_the_reference_names_every_field_that_is_sent(
    database_url: str, tmp_path: Path
) -> None:
    with receiving() as receiver:
        front = "https://hub.example.org"
        async with webhook_world(database_url, receiver.url(), proxy_public_url=front) as world:
            await fail(world.conn)
            await fail_load(world.conn)
            await world.tick()
    told = {each.payload["type"]: each.payload for each in receiver.got}
    error = told["workspace.error"]
    shown = json.loads(block(REFERENCE, "json"))
    assert shown.keys() == error.keys()
    assert all(shown[name].keys() == error[name].keys() for name in ("hub", "workspace", "change"))
    for payload in told.values():
        for name, value in payload.items():
            assert f"| `{name}` |" in REFERENCE
            for inner in value if isinstance(value, dict) else ():
                assert f"`{inner}`" in REFERENCE
    for header in ("webhook-id", "webhook-timestamp", "webhook-signature", "User-Agent"):
        assert f"| `{header}` |" in REFERENCE


def test_the_spec_of_the_how_to_is_a_good_one_and_all_events_are_explained() -> None:
    document = check_document(yaml.safe_load(block(HOW_TO, "yaml")))
    assert isinstance(document, HubDocument)
    assert document.spec.webhooks[0].secret == "chat-webhook"
    for event in WebhookEvent:
        assert f"| `{event}` |" in HOW_TO
