"""The process runtime keeps the contract of all runtimes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.runtime_contract import *  # noqa: F403

if TYPE_CHECKING:
    from tests.contract.process_world import ProcessWorld


@pytest.fixture
def world(process_world: ProcessWorld) -> ProcessWorld:
    return process_world
