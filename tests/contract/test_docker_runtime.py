"""The Docker runtime keeps the contract of all runtimes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.docker_world import provide_bench, provide_docker_world  # noqa: F401
from tests.contract.runtime_contract import *  # noqa: F403

if TYPE_CHECKING:
    from tests.contract.docker_world import DockerWorld


@pytest.fixture
def world(docker_world: DockerWorld) -> DockerWorld:
    return docker_world
