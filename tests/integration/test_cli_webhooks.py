"""`codehub webhooks` as a person runs it, with a leader at work."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from codehub.adapters.http_post import HttpPost
from codehub.config import Settings
from codehub.coordinator.pace import Failures
from codehub.coordinator.webhooks import WebhookRunner
from codehub.model.people import Hub, Webhook
from codehub.store.connect import connect
from codehub.store.hubs import write_hub
from tests.integration.command_line import run_codehub
from tests.integration.elections import Candidate, standing, until
from tests.integration.receiver import receiving
from tests.integration.stored import insert
from tests.integration.webhook_world import fail
from tests.make import workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from codehub.coordinator.lead import Lead
    from tests.integration.command_line import Ran
    from tests.integration.receiver import Receiver

pytestmark = pytest.mark.anyio

CANARY = "T0KEN-in-the-path"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture
async def hub(database_url: str, receiver: Receiver) -> AsyncIterator[str]:
    """A hub with two webhooks, one of them with a secret that is not there; somebody leads."""
    hooks = (
        Webhook(receiver.url(f"/{CANARY}"), (), None, "chat"),
        Webhook(receiver.url("/signed"), ("revision.failed",), "key"),
    )

    async def act(lead: Lead) -> None:
        settings = Settings(coordinator_webhook_interval=0.05)
        post = HttpPost("CodeHub/test", connect_seconds=30, total_seconds=60)
        await WebhookRunner(lead, post, settings, Failures()).run()

    async with await connect(database_url) as conn:
        await insert(conn, workspace("api"))
        await write_hub(conn, Hub(webhooks=hooks))
        candidate = Candidate(database_url, act)
        async with standing(candidate):
            await until(lambda: candidate.leader.leads)
            yield database_url


async def webhooks(url: str, cwd: Path, *words: str) -> Ran:
    env = {"DATABASE_URL": url}
    return await asyncio.to_thread(run_codehub, "webhooks", *words, cwd=cwd, env=env)


def told(ran: Ran) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ran.out)
    return found


async def test_a_test_arrives_and_says_so(hub: str, receiver: Receiver, tmp_path: Path) -> None:
    ran = await webhooks(hub, tmp_path, "test", "chat", "--timeout", "100")
    assert (ran.code, ran.out, ran.err) == (0, "chat was told: it answered 204.\n", "")
    assert receiver.got[0].payload["type"] == "test"
    assert receiver.got[0].payload["message"].startswith("a test, asked for by ")
    url = receiver.url(f"/{CANARY}")
    ran = await webhooks(hub, tmp_path, "test", url, "--timeout", "100", "--format", "json")
    assert (ran.code, told(ran)["lastStatus"], told(ran)["attempts"]) == (0, 204, 1)
    assert CANARY not in ran.out


async def test_one_that_does_not_arrive_can_be_tried_again(
    hub: str, receiver: Receiver, tmp_path: Path
) -> None:
    receiver.answer(410, 200)
    ran = await webhooks(hub, tmp_path, "test", "chat", "--timeout", "100")
    assert ran.code == 1
    assert "chat was not told, and it is given up: it answered 410" in ran.out
    listed = told(await webhooks(hub, tmp_path, "list", "--format", "json"))
    assert [each["failed"] for each in listed["webhooks"]] == [0, 1]
    (left,) = listed["undelivered"]
    assert (left["webhook"], left["type"], left["lastStatus"]) == ("chat", "test", 410)
    ran = await webhooks(hub, tmp_path, "retry", left["id"], "--timeout", "100")
    assert (ran.code, ran.out) == (0, "chat was told: it answered 200.\n")
    assert receiver.ids[0] == receiver.ids[1]
    ran = await webhooks(hub, tmp_path, "retry", left["id"])
    assert ran.code == 1
    assert "nothing is to be delivered under this number" in ran.err


async def test_a_missing_secret_is_said(hub: str, receiver: Receiver, tmp_path: Path) -> None:
    ran = await webhooks(hub, tmp_path, "test", "127.0.0.1", "--timeout", "100")
    assert ran.code == 1
    assert "127.0.0.1 was not told: this hub has no secrets directory" in ran.out
    assert "It is tried again in " in ran.out
    assert receiver.got == []
    listed = await webhooks(hub, tmp_path, "list")
    assert "Not delivered:" in listed.out
    assert CANARY not in listed.out


async def test_what_is_not_there_is_said_with_a_guess(hub: str, tmp_path: Path) -> None:
    ran = await webhooks(hub, tmp_path, "test", "chta")
    assert ran.code == 1
    assert 'there is no webhook "chta", did you mean "chat"?' in ran.err
    ran = await webhooks(hub, tmp_path, "test", f"https://x/{CANARY}")
    assert "there is no webhook of that address" in ran.err
    assert CANARY not in ran.err
    assert (await webhooks(hub, tmp_path, "retry", "17")).code == 64
    assert (await webhooks(hub, tmp_path, "retry", str(uuid4()))).code == 1


async def test_events_arrive_without_anybody_asking(hub: str, receiver: Receiver) -> None:
    async with await connect(hub) as conn:
        await fail(conn)
    await asyncio.to_thread(receiver.wait, 1)
    assert receiver.kinds == ["workspace.error"]


async def test_nobody_leads(database_url: str, receiver: Receiver, tmp_path: Path) -> None:
    async with await connect(database_url) as conn:
        await write_hub(conn, Hub(webhooks=(Webhook(receiver.url(), name="chat"),)))
    ran = await webhooks(database_url, tmp_path, "test", "chat")
    assert ran.code == 1
    assert "no coordinator leads this hub" in ran.err
    listed = await webhooks(database_url, tmp_path, "list")
    assert listed.code == 0
    assert "chat" in listed.out


async def test_a_hub_without_webhooks_says_where_they_come_from(
    database_url: str, tmp_path: Path
) -> None:
    ran = await webhooks(database_url, tmp_path, "list")
    assert (ran.code, ran.out) == (
        0,
        "No webhook is declared. A Hub spec names them under 'webhooks'.\n",
    )
