"""What `codehub webhooks` prints, for people and for scripts; never a whole address."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from codehub.model.webhook import Backlog, Delivery, Receiver
from codehub.render.webhooks_text import (
    delivery_json,
    delivery_text,
    webhooks_json,
    webhooks_text,
)
from tests.make import NOW

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

TOKEN = "T0KEN"
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
CHAT = Receiver(UUID(int=1), "chat", f"https://chat.example.org/{TOKEN}", (), "key", NOW - DAY)
PAGER = Receiver(
    UUID(int=2),
    "pager\x1b[31m",
    f"http://pager.internal:8080/?t={TOKEN}",
    ("workspace.error", "revision.failed"),
    None,
    NOW,
)
BACKLOGS = (
    Backlog(CHAT, delivered=41, last_delivered_at=NOW - 3 * MINUTE),
    Backlog(PAGER, pending=3, failing=2, failed=1),
)
WAITING = Delivery(
    UUID(int=3),
    PAGER,
    "workspace.error",
    NOW - 20 * MINUTE,
    NOW + DAY,
    attempts=6,
    next_at=NOW + 4 * MINUTE,
    last_status=503,
    last_error="it answered 503",
)
GIVEN_UP = Delivery(
    UUID(int=4),
    PAGER,
    "revision.failed",
    NOW - 2 * DAY,
    NOW - DAY,
    attempts=30,
    next_at=NOW - DAY,
    failed_at=NOW - DAY,
    last_error="pager.internal gave no answer within 15 s",
)
DONE = Delivery(
    UUID(int=5), CHAT, "test", NOW, NOW + DAY, 1, NOW, delivered_at=NOW, last_status=204
)


def test_a_list(text_snapshot: SnapshotAssertion) -> None:
    text = webhooks_text(BACKLOGS, (WAITING, GIVEN_UP), NOW)
    assert TOKEN not in text
    assert "\x1b" not in text
    assert text == text_snapshot


def test_a_list_without_trouble_is_short() -> None:
    text = webhooks_text(BACKLOGS[:1], (), NOW)
    assert len(text.splitlines()) == 2
    assert "Not delivered" not in text


def test_a_list_for_scripts(text_snapshot: SnapshotAssertion) -> None:
    text = webhooks_json(BACKLOGS, (WAITING, GIVEN_UP))
    assert TOKEN not in text
    read = json.loads(text)
    assert [each["nextAt"] is None for each in read["undelivered"]] == [False, True]
    assert text == text_snapshot


def test_what_came_of_a_try() -> None:
    assert delivery_text(DONE, NOW) == "chat was told: it answered 204.\n"
    assert delivery_text(WAITING, NOW) == (
        "pager\\x1b[31m was not told: it answered 503.\n"
        "It is tried again in 4m; see 'codehub doctor'.\n"
    )
    assert delivery_text(GIVEN_UP, NOW).startswith(
        "pager\\x1b[31m was not told, and it is given up: pager.internal gave no answer"
    )
    assert json.loads(delivery_json(DONE)) == {
        "formatVersion": 1,
        "id": str(UUID(int=5)),
        "webhook": "chat",
        "type": "test",
        "createdAt": NOW.isoformat(),
        "attempts": 1,
        "nextAt": None,
        "deliveredAt": NOW.isoformat(),
        "failedAt": None,
        "lastStatus": 204,
        "lastError": None,
    }
