"""One database and one directory for all runs; what scenarios need at their begin, made once."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.chaos.connection import forget_names
from tests.chaos.theatre import Theatre
from tests.conftest import _drop, _fresh, _name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.chaos.stage import Stage

MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def theatre(postgres_url: str, migrated_template: str) -> Iterator[Theatre]:
    """In memory where there is such a directory: nothing here has to outlive a machine."""
    place = MEMORY if MEMORY.is_dir() else None
    root = Path(tempfile.mkdtemp(prefix="codehub-chaos-", dir=place))
    url = _fresh(postgres_url, migrated_template)
    yield Theatre(url, root)
    _drop(postgres_url, _name(url))
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
async def stage(theatre: Theatre) -> AsyncIterator[Stage]:
    """For one test, which may put other statements in the place of those that have names."""
    async with theatre.stage() as made:
        yield made
    forget_names()
