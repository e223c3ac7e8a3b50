"""Worlds for the contract tests; each test has its own and leaves no process behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.register_assert_rewrite(
    "tests.contract.runtime_contract",
    "tests.contract.runtime_world",
    "tests.contract.store_contract",
)

from tests.contract.process_world import ProcessWorld  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def process_world(tmp_path: Path) -> Iterator[ProcessWorld]:
    world = ProcessWorld(tmp_path / "root")
    yield world
    world.end_everything()
