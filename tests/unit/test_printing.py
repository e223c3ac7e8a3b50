"""Files that verbs write: whole or not at all, and devices stay devices."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from codehub.cli.printing import write_file
from codehub.errors import CodeHubError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "plan.md"
    file.write_text("old and longer")
    write_file(file, "new")
    assert file.read_text() == "new"
    assert os.listdir(tmp_path) == ["plan.md"]  # noqa: PTH208


def test_the_target_of_a_link_is_written(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to(real)
    write_file(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_file(pipe, "plan")
        assert os.read(reader, 100) == b"plan"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_what_cannot_be_written_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(CodeHubError, match="taken cannot be written"):
        write_file(tmp_path / "taken", "text")
    with pytest.raises(CodeHubError, match="cannot be written"):
        write_file(tmp_path / "missing" / "plan.md", "text")
    assert os.listdir(tmp_path) == ["taken"]  # noqa: PTH208
