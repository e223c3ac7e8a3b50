"""What people write into specs is text on the hub's pages: no markup, and no code of a template."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.workspace import Intent, Source, Status
from tests.make import NOW, workspace
from tests.proxy.gate_world import asleep, gate_world
from tests.proxy.heads_of import VISIT, head

if TYPE_CHECKING:
    from codehub.model.workspace import Workspace

pytestmark = pytest.mark.anyio

HOSTILE = "{{ 7*7*37 }}{% include '/etc/passwd' %}<script>alert(1)</script>\"'><img onerror=x>"
FIELDS: dict[str, Any] = {
    "description": HOSTILE,
    "memo": HOSTILE,
    "labels": {"note": HOSTILE},
    "image": HOSTILE,
    "source": Source(f"specs/{HOSTILE}.yaml", 3),
    "env": {"SECRET": "canary-of-env"},
    "secret_env": {"KEY": "canary-of-secret"},
}
BUSY = {"op_id": UUID(int=7), "op_started_at": NOW}


def all_of_them() -> dict[str, Workspace]:
    """One for each page that speaks of a workspace."""
    wanted = Intent(DesiredState.RUNNING, IntentSource.CLI, by=HOSTILE)
    broken = Status(Phase.ERROR, error_reason=ErrorReason.ACTION_FAILED, error_message=HOSTILE)
    starting = Status(Phase.STANDBY, operation=Operation.STARTING, **BUSY)  # type: ignore[arg-type]
    return {
        "broken": workspace("broken", number=11, status=broken, **FIELDS),
        "starting": workspace("starting", number=12, status=starting, intent=wanted, **FIELDS),
        "suspended": asleep("suspended", 13, suspend=True, **FIELDS),
        "held": asleep("held", 14, declared_state=DesiredState.STANDBY, **FIELDS),
        "archived": asleep("archived", 15, Phase.ARCHIVED, **FIELDS),
        "pending": workspace("pending", number=16, status=Status(Phase.PENDING), **FIELDS),
        "asleep": asleep("asleep", 17, **FIELDS),
    }


@pytest.mark.parametrize("name", all_of_them())
async def test_a_page_shows_it_as_text(database_url: str, redis_url: str, name: str) -> None:
    async with gate_world(database_url, redis_url, run=False) as world:
        row = all_of_them()[name]
        await world.add(row)
        cookie = await world.log_in()
        shown = []
        for headers in (VISIT, {"Accept": "application/json"}):
            answer = await world.answer(head(f"/w/{name}/", headers=headers, cookie=cookie))
            assert isinstance(answer.body, bytes)
            assert answer.status >= 500
            shown.append(answer.body.decode())
        page, told = shown
    assert "<title>" in page
    for text in (page, told):
        assert str(7 * 7 * 37) not in text
        assert "root:" not in text
        assert "canary-of" not in text
    for markup in ("<script>", "<img", "alert(1)</"):
        assert markup not in page
