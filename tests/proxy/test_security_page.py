"""docs/explanation/security.md names tests for each promise: they are there, and they test."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "security.md"
ROW = re.compile(r"^\| (?!promise|---)(.+?) \| (.+) \|$", re.MULTILINE)


def test_every_promise_has_tests_that_exist() -> None:
    rows = ROW.findall(PAGE.read_text())
    assert len(rows) > 20
    for promise, named in rows:
        files = re.findall(r"`([^`]+\.py)`", named)
        assert files, promise
        for each in files:
            text = (ROOT / "tests" / each).read_text()
            assert re.search(r"^(async )?def test_", text, re.MULTILINE), each
