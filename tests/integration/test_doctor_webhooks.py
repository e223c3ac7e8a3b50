"""What `codehub doctor` says of webhooks: secrets, reach, and what was not delivered."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from codehub.model.checkup import Health
from codehub.model.people import Webhook
from codehub.service.check_webhooks import look_at_webhooks
from tests.integration.doctor_world import check_up
from tests.integration.receiver import receiving
from tests.integration.webhook_world import fail, webhook_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from codehub.model.checkup import Verdict
    from tests.integration.receiver import Receiver

CANARY = "T0KEN"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


async def look(url: str, secrets: Path | None = None) -> Verdict:
    found = await look_at_webhooks(url, secrets)
    assert found is not None
    assert CANARY not in found.message + found.fix
    return found


@pytest.mark.anyio
async def test_all_is_well(database_url: str, receiver: Receiver) -> None:
    async with webhook_world(database_url, receiver.url(f"/{CANARY}")) as world:
        await fail(world.conn)
        await world.tick()
        found = await look(database_url)
    assert (found.health, found.message) == (Health.OK, "1 declared, it can be reached; 1 told")
    assert len(receiver.got) == 1, "looking posts nothing"


@pytest.mark.anyio
async def test_a_missing_secret(database_url: str, receiver: Receiver, tmp_path: Path) -> None:
    hook = Webhook(receiver.url(f"/{CANARY}"), (), "key", "chat")
    async with webhook_world(database_url, hook):
        nowhere = await look(database_url)
        assert nowhere.health is Health.PROBLEM
        assert nowhere.message.startswith("chat is told nothing, for want of a signature: ")
        assert "SECRETS_DIR" in nowhere.fix
        missing = await look(database_url, tmp_path)
        assert 'there is no secret "key"' in missing.message
        (tmp_path / "key").write_text(f"whsec_{CANARY}!")
        broken = await look(database_url, tmp_path)
        assert "not base64" in broken.message
        assert broken.fix == 'put a key into the secret "key"'
        (tmp_path / "key").write_text("good")
        assert (await look(database_url, tmp_path)).health is Health.OK


@pytest.mark.anyio
async def test_one_that_cannot_be_reached(database_url: str, receiver: Receiver) -> None:
    with receiving() as gone:
        url = gone.url(f"/{CANARY}")
    async with webhook_world(database_url, receiver.url(), Webhook(url, name="gone")):
        found = await look(database_url)
    assert found.health is Health.PROBLEM
    assert found.message == ("gone, from here: 127.0.0.1 cannot be reached: Connection refused")


@pytest.mark.anyio
async def test_what_fails_is_a_warning_and_what_is_given_up_a_problem_for_a_day(
    database_url: str, receiver: Receiver
) -> None:
    receiver.answer(500, 410)
    async with webhook_world(database_url, Webhook(receiver.url(), name="chat")) as world:
        await fail(world.conn)
        await world.tick()
        failing = await look(database_url)
        assert failing.health is Health.WARNING
        assert failing.message == "chat could not be told yet, and is tried again: it answered 500"
        await world.pass_time(timedelta(minutes=1))
        await world.tick()
        failed = await look(database_url)
        assert failed.health is Health.PROBLEM
        assert failed.message.startswith("chat was not told of workspace.error: it answered 410")
        assert "codehub webhooks list" in failed.fix
        await world.pass_time(timedelta(days=1))
        assert (await look(database_url)).health is Health.OK


def test_a_hub_without_webhooks_has_no_such_check(database_url: str, tmp_path: Path) -> None:
    found = check_up(tmp_path, url=database_url)
    assert "webhooks" not in [each.name for each in found]
    assert "workspaces" in [each.name for each in found]
