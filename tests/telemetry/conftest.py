"""Logging belongs to the whole process: here each test gets it back as it was."""

from __future__ import annotations

import io
import logging
from typing import TYPE_CHECKING

import pytest
import structlog

from codehub.telemetry.logs import HANDLER, set_up

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    named = [logging.getLogger(each) for each in ("codehub", "psycopg.pool", "watchfiles")]
    before = [(each, each.level) for each in (root, *named)]
    yield
    for each in [each for each in root.handlers if each.get_name() == HANDLER]:
        root.removeHandler(each)
    for logger, level in before:
        logger.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
def stream() -> io.StringIO:
    """Where a test lets it be logged to."""
    return io.StringIO()


@pytest.fixture
def logged(stream: io.StringIO) -> io.StringIO:
    """Everything is logged to here, as JSON."""
    set_up(stream, form="json", level=logging.DEBUG)
    return stream
