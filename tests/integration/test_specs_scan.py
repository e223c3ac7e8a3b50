"""Walking a spec directory: links, pipes, hidden files, and what cannot be read."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from codehub.specs import caps
from codehub.specs.load import load_directory
from tests.conftest import open_directory
from tests.unit.spec_world import ALICE, problems_in, workspace, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOBODY = 65_534


def told(root: Path) -> list[str]:
    return [str(each).replace(f"{root}/", "") for each in problems_in(root)]


@contextmanager
def unprivileged() -> Iterator[None]:
    """As root every file can be read: step down for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_any_layout_is_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "a/b/c/one.yaml": workspace("one"),
            "two.yml": workspace("two") + "---\n" + workspace("three"),
            "notes.txt": "}{",
            "README.md": "}{",
            ".hidden.yaml": "}{",
            ".git/config.yaml": "}{",
            "a/.draft/x.yaml": "}{",
        },
    )
    loaded = load_directory(tmp_path)
    places = {name: str(each.source) for name, each in loaded.workspaces.items()}
    assert places == {
        "one": f"{tmp_path}/a/b/c/one.yaml:1",
        "two": f"{tmp_path}/two.yml:1",
        "three": f"{tmp_path}/two.yml:9",
    }


def test_files_are_shown_as_the_root_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pathlib import Path

    write(tmp_path / "specs", {"a.yaml": workspace()})
    monkeypatch.chdir(tmp_path)
    assert load_directory(Path("specs")).workspaces["api"].source.file == "specs/a.yaml"
    assert load_directory(Path("specs")).origin.directory == "specs"
    monkeypatch.chdir(tmp_path / "specs")
    assert load_directory(Path()).workspaces["api"].source.file == "a.yaml"


@pytest.mark.parametrize(
    "target", ["../secret.yaml", "{root}/../secret.yaml", "sub/../../secret.yaml"]
)
def test_a_link_may_not_leave_the_directory(tmp_path: Path, target: str) -> None:
    root = write(tmp_path / "specs", {"sub/a.yaml": workspace()})
    (tmp_path / "secret.yaml").write_text("canary: [")
    (root / "link.yaml").symlink_to(target.format(root=root))
    assert told(root) == ["link.yaml: the link leaves the spec directory; it was not followed"]


def test_a_linked_directory_may_not_leave_either(tmp_path: Path) -> None:
    root = write(tmp_path / "specs", {"a.yaml": workspace()})
    (tmp_path / "specs-of-others").mkdir()
    (root / "others").symlink_to("../specs-of-others")
    assert told(root) == ["others: the link leaves the spec directory; it was not followed"]


def test_a_link_to_something_else_outside_is_none_of_our_business(tmp_path: Path) -> None:
    root = write(tmp_path / "specs", {"a.yaml": workspace()})
    (tmp_path / "README.md").write_text("")
    (root / "README.md").symlink_to("../README.md")
    assert set(load_directory(root).workspaces) == {"api"}


def test_links_inside_are_followed_also_through_hidden_directories(tmp_path: Path) -> None:
    """As Kubernetes lays out a ConfigMap."""
    root = write(tmp_path / "specs", {"..2026_11/a.yaml": workspace()})
    (root / "..data").symlink_to("..2026_11")
    (root / "a.yaml").symlink_to("..data/a.yaml")
    assert load_directory(root).workspaces["api"].source.file == f"{root}/a.yaml"


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    write(tmp_path / "rev-1", {"a.yaml": workspace()})
    (tmp_path / "current").symlink_to("rev-1")
    loaded = load_directory(tmp_path / "current")
    assert loaded.workspaces["api"].source.file == f"{tmp_path}/current/a.yaml"


@pytest.mark.parametrize("name", ["loop.yaml", "loop"])
def test_a_link_to_itself_is_told(tmp_path: Path, name: str) -> None:
    write(tmp_path, {"a.yaml": workspace()})
    (tmp_path / name).symlink_to(name)
    assert told(tmp_path) == [f"{name}: the link leads in a circle"]


def test_a_link_to_a_directory_above_is_told_and_not_followed_for_ever(tmp_path: Path) -> None:
    write(tmp_path, {"a/b/x.yaml": workspace()})
    (tmp_path / "a/b/up").symlink_to("../../a")
    (tmp_path / "a/top").symlink_to("..")
    assert told(tmp_path) == [
        "a/b/up: the link leads back to a directory that it lies in",
        "a/top: the link leads back to a directory that it lies in",
    ]


def test_links_that_multiply_directories_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caps, "DIRECTORIES", 200)
    write(tmp_path, {"a.yaml": workspace()})
    for level in range(12):
        (tmp_path / f"d{level}").mkdir()
        for each in "ab":
            (tmp_path / f"d{level}" / each).symlink_to(f"../d{level + 1}")
    (tmp_path / "d12").mkdir()
    assert told(tmp_path) == [f"{tmp_path}: too many directories, or links that multiply them"]


def test_a_link_to_nothing_is_told(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": workspace()})
    (tmp_path / "gone.yaml").symlink_to("nothing.yaml")
    assert told(tmp_path) == ["gone.yaml: the link leads nowhere"]


def test_a_pipe_is_refused_and_not_opened(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": workspace()})
    os.mkfifo(tmp_path / "pipe.yaml")
    assert told(tmp_path) == ["pipe.yaml: neither a file nor a directory: not opened"]


def test_a_device_behind_a_link_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": workspace()})
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    assert told(tmp_path) == ["zero.yaml: the link leaves the spec directory; it was not followed"]


@pytest.mark.parametrize("name", [b"a\nb.yaml", b"a\x1b[31m.yaml", b"a\xff.yaml"])
def test_a_name_that_cannot_be_shown_is_refused(tmp_path: Path, name: bytes) -> None:
    write(tmp_path, {"a.yaml": workspace()})
    with open(os.path.join(os.fsencode(tmp_path), name), "wb"):  # noqa: PTH118, PTH123
        pass
    (problem,) = problems_in(tmp_path)
    assert problem.message == "the name of the file cannot be shown: rename it"
    assert problem.place.file.isprintable()


def test_an_unreadable_file_is_told() -> None:
    with open_directory() as root:
        write(root, {"a.yaml": workspace(), "b.yaml": workspace("b")})
        (root / "b.yaml").chmod(0)
        with unprivileged():
            assert told(root) == ["b.yaml: cannot be read: permission denied"]


def test_an_unreadable_directory_is_told() -> None:
    with open_directory() as root:
        write(root, {"a.yaml": workspace(), "closed/b.yaml": workspace("b")})
        (root / "closed").chmod(0)
        with unprivileged():
            problems = told(root)
        (root / "closed").chmod(0o755)
    assert problems == ["closed: cannot be read: permission denied"]


def test_an_unreadable_root_is_no_empty_hub() -> None:
    with open_directory() as top:
        root = top / "specs"
        write(root, {"a.yaml": ALICE})
        root.chmod(0)
        with unprivileged():
            problems = problems_in(root)
        root.chmod(0o755)
    assert [str(each) for each in problems] == [f"{root}: cannot be read: permission denied"]
