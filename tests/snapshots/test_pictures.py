"""The pictures in the documentation show what people see: pages changed, pictures made anew."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser import dashboard_pictures, pictures, report_pictures
from tests.browser.rendered import keep, stale

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

IMAGES = Path(__file__).parents[2] / "docs" / "images"
MADE: dict[str, tuple[str, Callable[[], Mapping[str, str]]]] = {
    "pages": (pictures.__name__, pictures.rendered),
    "dashboard": (dashboard_pictures.__name__, dashboard_pictures.rendered),
    "report": (report_pictures.__name__, report_pictures.rendered),
}
"""By the name of their directory: the command that makes them, and the pages they show.

A directory with one page is named for it; its files need not be.
"""


@pytest.mark.parametrize("name", MADE)
def test_no_picture_is_stale(name: str) -> None:
    command, rendered = MADE[name]
    again = f"look at them again: python -m {command} docs/images/{name}"
    assert stale(IMAGES / name, rendered()) == set(), again


@pytest.mark.parametrize("name", MADE)
def test_every_picture_is_of_a_page_that_is_known(name: str) -> None:
    files = (IMAGES / name).glob("*.png")
    shown = {re.sub("-?(wide|narrow)-(light|dark)$", "", each.stem) or name for each in files}
    assert shown == set(MADE[name][1]())


def test_whatever_changes_is_noticed(tmp_path: Path) -> None:
    keep(tmp_path, {"same": "a", "changed": "b", "gone": "c"})
    assert stale(tmp_path, {"same": "a", "changed": "B", "new": "d"}) == {"changed", "gone", "new"}
