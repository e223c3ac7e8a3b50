"""A coordinator of real processes tells a real receiver, over a kill -9 of everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.hub import a_hub, until
from tests.integration.receiver import receiving

if TYPE_CHECKING:
    from tests.end_to_end.hub import Hub
    from tests.integration.receiver import Receiver

pytestmark = pytest.mark.timeout(300)

SETTINGS = {
    "OPERATION_RETRIES": "0",
    "COORDINATOR_WEBHOOK_INTERVAL": "0.2",
    "WEBHOOK_BACKOFF_SECONDS": "0.2",
    "SECRETS_DIR": ".",
}
SPECS = """\
apiVersion: codehub.dev/v1
kind: Hub
metadata: {name: team}
spec: {defaultRuntime: process, webhooks: [{name: chat, url: '%s', secret: chat-key}]}
---
apiVersion: codehub.dev/v1
kind: User
metadata: {name: alice}
"""
BROKEN = """\
---
apiVersion: codehub.dev/v1
kind: Workspace
metadata: {name: broken}
spec: {owner: alice, command: ['false']}
"""


def write(hub: Hub, text: str) -> None:
    hub.specs.mkdir(exist_ok=True)
    draft = hub.directory / "draft"
    draft.write_text(text)
    draft.rename(hub.specs / "all.yaml")


def told(receiver: Receiver, kind: str) -> list[str]:
    return [each.id for each in [*receiver.got] if each.payload["type"] == kind]


def test_errors_and_bad_specs_are_told_whatever_dies() -> None:
    with receiving() as receiver, a_hub(**SETTINGS) as hub:
        (hub.directory / "chat-key").write_text("key")
        head = SPECS % receiver.url("/T0KEN")
        receiver.answer(500)
        write(hub, head)
        first = hub.coordinate()
        until(lambda: hub.ask("SELECT 1 FROM webhooks"), "the webhook")
        write(hub, head + BROKEN)
        until(lambda: told(receiver, "workspace.error"), "the error")
        hub.kill()
        receiver.answer(204)
        second = hub.coordinate()
        until(
            lambda: hub.ask("SELECT 1 FROM webhook_deliveries WHERE delivered_at IS NOT NULL"),
            "the delivery",
        )
        write(hub, head + "---\nkind: Nonsense\n")
        until(lambda: told(receiver, "revision.failed"), "the bad specs")
        tested = hub.tell("webhooks", "test", "chat", "--timeout", "100")
        said = hub.said(first) + hub.said(second)
    assert tested.out == "chat was told: it answered 204.\n"
    assert len({*told(receiver, "workspace.error")}) == 1
    assert all("webhook-signature" in each.headers for each in receiver.got)
    assert "chat could not be told of workspace.error: it answered 500" in said
    assert "T0KEN" not in said
