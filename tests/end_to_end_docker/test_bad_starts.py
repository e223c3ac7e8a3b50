"""Commands that no image has and ports that never open, on Docker: told, ended, and mended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codehub.model.states import DesiredState
from tests.end_to_end.hub import until
from tests.end_to_end.moments import NEVER
from tests.end_to_end_docker.docker_hub import DockerHub, a_served_hub
from tests.integration.homes import describe, fill_home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.end_to_end_docker.docker_hub import Ground

pytestmark = pytest.mark.timeout(300)

LATER = f"{NEVER}, startOn: visit"
MUTE = 'echo "waits for the database"; sleep 600'
LONG_AGO = """
UPDATE workspaces SET op_started_at = now() - interval '1 hour'
WHERE name = %s AND operation = 'STARTING' RETURNING id
"""


def declared(ground: Ground) -> dict[str, str]:
    return {
        "misspelt": f"image: '{ground.image}', command: [code-servr, --auth, none], {LATER}",
        "mute": ground.served(LATER, MUTE),
    }


@pytest.fixture(scope="module")
def hub(ground: Ground) -> Iterator[DockerHub]:
    with a_served_hub(ground) as made:
        made.declare(**declared(ground))
        made.coordinate()
        made.until_settled(misspelt="STANDBY", mute="STANDBY")
        yield made


def fill(hub: DockerHub, name: str) -> dict[str, Any]:
    fill_home(hub.home(name))
    return describe(hub.home(name))


def mend(hub: DockerHub, name: str) -> None:
    """Give it a command that works, and recover it."""
    hub.redeclare(**{**declared(hub.ground), name: hub.ground.served(LATER)})
    hub.tell("recover", name, "--wait")
    hub.until_settled(**{name: "RUNNING"})


def test_a_command_that_is_not_in_the_image_is_named(hub: DockerHub) -> None:
    before = fill(hub, "misspelt")
    hub.want("misspelt", DesiredState.RUNNING)

    row = hub.until_error("misspelt", "RetryExceeded")

    image = hub.ground.image
    assert row.error_message == f'the command "code-servr" was not found in the image {image}'
    assert row.error_count == 4, "one try and three retries"
    until(lambda: str(row.id) not in hub.containers(), "the end of its container")
    assert hub.volumes_of("misspelt") == {row.home}
    mend(hub, "misspelt")
    assert describe(hub.home("misspelt")) == before


def test_a_port_that_never_opens_is_waited_for_so_long_and_no_longer(hub: DockerHub) -> None:
    before = fill(hub, "mute")
    hub.want("mute", DesiredState.RUNNING)
    until(lambda: "waits for the database" in hub.run("logs", "mute").out, "its words")
    assert hub.rows()["mute"].operation == "STARTING"

    def is_late() -> bool:
        """A pass that is under way may store the time that it has read."""
        hub.ask(LONG_AGO, "mute")
        return hub.rows()["mute"].phase == "ERROR"

    until(is_late, "the end of all patience")
    row = hub.until_error("mute", "Timeout")

    assert row.error_message == "its port did not answer within 120 s: waits for the database"
    assert row.error_count == 1, "it is not tried again"
    assert "codehub logs mute" in hub.tell("explain", "mute").out
    until(lambda: str(row.id) not in hub.containers(), "the end of what never answered")
    assert hub.volumes_of("mute") == {row.home}
    mend(hub, "mute")
    assert hub.rows()["mute"].home == row.home
    assert describe(hub.home("mute")) == before
