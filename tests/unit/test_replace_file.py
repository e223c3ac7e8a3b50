"""Replacing a file keeps what it is; nobody ever sees half of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from codehub.errors import CodeHubError, Conflict
from codehub.specs.replace import replace_file

if TYPE_CHECKING:
    from pathlib import Path


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"old")
    return path


def test_the_content_changes_and_nothing_is_left_beside_it(file: Path) -> None:
    replace_file(file, b"old", b"new")

    assert file.read_bytes() == b"new"
    assert names(file.parent) == ["a.yaml"]


def test_the_mode_is_kept(file: Path) -> None:
    file.chmod(0o640)

    replace_file(file, b"old", b"new")

    assert file.stat().st_mode & 0o7777 == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_the_owner_is_kept(file: Path) -> None:
    os.chown(file, 1234, 2345)

    replace_file(file, b"old", b"new")

    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 2345)


def test_behind_a_link_the_target_is_written_and_the_link_stays(file: Path) -> None:
    link = file.parent / "link.yaml"
    link.symlink_to(file.name)

    replace_file(link, b"old", b"new")

    assert link.is_symlink()
    assert file.read_bytes() == b"new"


def test_what_somebody_edited_meanwhile_is_not_overwritten(file: Path) -> None:
    with pytest.raises(Conflict, match="was edited meanwhile"):
        replace_file(file, b"older", b"new")

    assert file.read_bytes() == b"old"


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(CodeHubError, match=r"cannot write .*gone\.yaml"):
        replace_file(tmp_path / "gone.yaml", b"", b"new")

    assert names(tmp_path) == []


def test_where_no_file_can_be_made_beside_it_the_file_is_unchanged(tmp_path: Path) -> None:
    # With the temporary file's ending the name is longer than a file system allows.
    file = tmp_path / ("a" * 250)
    file.write_bytes(b"old")

    with pytest.raises(CodeHubError, match="it is unchanged"):
        replace_file(file, b"old", b"new")

    assert file.read_bytes() == b"old"
    assert names(tmp_path) == [file.name]
