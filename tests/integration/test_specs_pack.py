"""Packing a spec directory: the same specs come out on the other side, wherever they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codehub.errors import SpecsInvalid
from codehub.model.revision import Origin
from codehub.specs import caps
from codehub.specs.load import load_contents, load_directory, load_ref
from codehub.specs.pack import archive, pack_specs
from codehub.specs.unpack import read_gzip, read_tar
from tests.integration.repository import commit, git
from tests.unit.spec_world import ALICE, workspace, write

if TYPE_CHECKING:
    from pathlib import Path

    from codehub.model.revision import SpecSet

MOST = 1 << 24


def sent(root: Path, ref: str | None = None) -> SpecSet:
    """What the hub makes of a directory that was sent to it."""
    packed = pack_specs(root, ref)
    return load_contents(read_tar(read_gzip(archive(packed.files), MOST)), packed.origin)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    write(root / "specs", {"a.yaml": workspace(), "team/b.yml": workspace("web")})
    git(root, "init", "-q", "-b", "main")
    commit(root)
    return root


def test_a_directory_is_the_same_over_there(repo: Path) -> None:
    here = load_directory(repo / "specs")
    assert sent(repo / "specs") == here
    assert here.origin.commit == git(repo, "rev-parse", "HEAD")
    assert not here.origin.dirty


def test_a_changed_directory_is_dirty_over_there_too(repo: Path) -> None:
    (repo / "specs/a.yaml").write_text(workspace(spec="  image: other\n"))
    assert sent(repo / "specs") == load_directory(repo / "specs")
    assert sent(repo / "specs").origin.dirty


def test_a_ref_is_read_from_git_and_not_from_the_files(repo: Path) -> None:
    (repo / "specs/a.yaml").write_text("garbage: [")
    assert sent(repo / "specs", "main") == load_ref(repo / "specs", "main")


def test_relative_directories_keep_their_names(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path

    monkeypatch.chdir(repo)
    assert set(pack_specs(Path("specs"), None).files) == {"alice.yaml", "a.yaml", "team/b.yml"}
    assert sent(Path("specs")) == load_directory(Path("specs"))
    monkeypatch.chdir(repo / "specs")
    assert set(pack_specs(Path(), None).files) == {"alice.yaml", "a.yaml", "team/b.yml"}
    assert sent(Path()) == load_directory(Path())


def test_links_are_sent_as_what_they_lead_to(tmp_path: Path) -> None:
    root = write(tmp_path / "specs", {".data/a.yaml": workspace()})
    (root / "a.yaml").symlink_to(".data/a.yaml")
    assert pack_specs(root, None).files["a.yaml"] == workspace().encode()
    assert sent(root) == load_directory(root)


def test_what_cannot_be_sent_is_told_as_a_problem(tmp_path: Path) -> None:
    root = write(tmp_path / "specs", {"big.yaml": b"#" * (caps.FILE_BYTES + 1)})
    (root / "out.yaml").symlink_to("/etc/hostname.yaml")
    with pytest.raises(SpecsInvalid) as caught:
        pack_specs(root, None)
    told = [str(each).removeprefix(f"{root}/") for each in caught.value.problems]
    assert told == [
        "big.yaml: 1.0 MiB is too large for a spec file (at most 1.0 MiB)",
        "out.yaml: the link leads nowhere",
    ]


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SpecsInvalid) as caught:
        pack_specs(tmp_path / "nowhere", None)
    assert "there is no such directory" in str(caught.value.problems[0])


def test_problems_have_the_places_that_they_have_here(tmp_path: Path) -> None:
    root = write(tmp_path / "specs", {"a.yaml": workspace(spec="  image: i\n  colour: red\n")})
    with pytest.raises(SpecsInvalid) as here:
        load_directory(root)
    with pytest.raises(SpecsInvalid) as there:
        sent(root)
    assert there.value.problems == here.value.problems
    assert there.value.problems[0].place.line == 8


def test_bytes_that_are_no_text_are_sent_as_they_are(tmp_path: Path) -> None:
    root = write(tmp_path / "specs", {"a.yaml": b"x: \xff\n"})
    with pytest.raises(SpecsInvalid) as there:
        sent(root)
    assert there.value.problems[0].message == "not text in UTF-8"


def test_files_handed_over_follow_the_rules_of_directories() -> None:
    files = {
        "alice.yaml": ALICE.encode(),
        ".hidden.yaml": b"garbage: [",
        ".git/a.yaml": b"garbage: [",
        "README.md": b"# Specs",
        "a.yaml": workspace().encode(),
    }
    assert set(load_contents(files, Origin(".")).workspaces) == {"api"}


def test_more_than_all_files_may_have_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caps, "TOTAL_BYTES", 100)
    with pytest.raises(SpecsInvalid) as caught:
        load_contents({"a.yaml": b"#" * 60, "b.yaml": b"#" * 60, "c.yaml": b"#" * 60}, Origin("."))
    assert [str(each) for each in caught.value.problems] == [
        "b.yaml: more than 0.0 MiB in all spec files: not read"
    ]
