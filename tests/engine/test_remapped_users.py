"""An engine that numbers users anew is refused before anything is made there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from codehub.adapters.docker import DockerRuntime
from codehub.adapters.docker.presence import trouble
from codehub.adapters.docker.survey import survey_engine
from codehub.errors import Unreachable
from codehub.model.checkup import Health
from codehub.service.check_docker import judge_engine
from tests.engine.second_engine import SecondEngine, second_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module", name="engine")
def provide_engine() -> Iterator[SecondEngine]:
    with second_engine(remap=True) as engine:
        yield engine


@pytest.mark.parametrize("expected", [True, False])
def test_it_is_refused_before_anything_is_made_there(engine: SecondEngine, expected: bool) -> None:
    before = everything(engine)

    async def use() -> None:
        async def expects_data() -> bool:
            return expected

        runtime = DockerRuntime("hub", base_url=engine.base_url, expects_data=expects_data)
        try:
            await runtime.list()
        finally:
            await runtime.close()

    with pytest.raises(Unreachable, match="userns-remap") as caught:
        asyncio.run(use())
    assert "DOCKER_HOST" in (caught.value.hint or "")
    assert everything(engine) == before


def test_no_new_hub_is_put_on_it(engine: SecondEngine) -> None:
    reason = asyncio.run(trouble(engine.base_url))
    assert reason is not None
    assert "userns-remap" in reason.message


@pytest.mark.parametrize("needed", [True, False])
def test_the_doctor_says_how_to_put_it_right(engine: SecondEngine, needed: bool) -> None:
    verdict = judge_engine(asyncio.run(survey_engine(engine.base_url, None)), needed=needed)
    assert verdict.health is Health.PROBLEM
    assert "archived and not restored" in verdict.message
    assert "daemon.json" in verdict.fix


def everything(engine: SecondEngine) -> tuple[list[str], list[str], list[str]]:
    """Names of volumes and networks, and the ids of containers."""
    with engine.client() as client:
        return (
            [each["Name"] for each in client.volumes()["Volumes"] or ()],
            sorted(each["Name"] for each in client.networks()),
            [each["Id"] for each in client.containers(all=True)],
        )
