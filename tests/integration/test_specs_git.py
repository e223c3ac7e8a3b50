"""Specs in a git repository: the commit, whether it is what was read, and reading at a ref."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codehub.errors import CodeHubError, SpecsInvalid
from codehub.specs import caps
from codehub.specs.cache import SpecCache
from codehub.specs.load import load_directory, load_ref
from tests.integration.repository import commit, git
from tests.unit.spec_world import ALICE, workspace, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with `specs/` committed."""
    root = tmp_path / "repo"
    write(root / "specs", {"a.yaml": workspace()})
    git(root, "init", "-q", "-b", "main")
    commit(root)
    return root


def test_a_plain_directory_has_no_commit(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": workspace()})
    origin = load_directory(tmp_path).origin
    assert (origin.commit, origin.dirty, origin.ref) == (None, False, None)


def test_without_git_there_is_no_commit(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert load_directory(repo / "specs").origin.commit is None
    with pytest.raises(CodeHubError, match="git is not installed"):
        load_ref(repo / "specs", "main")


def test_a_clean_directory_has_its_commit(repo: Path) -> None:
    origin = load_directory(repo / "specs").origin
    assert (origin.commit, origin.dirty) == (git(repo, "rev-parse", "HEAD"), False)


def test_a_repository_without_commits_has_none(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": workspace()})
    git(tmp_path, "init", "-q")
    assert load_directory(tmp_path).origin.commit is None


def _change(repo: Path) -> None:
    (repo / "specs/a.yaml").write_text(workspace(spec="  image: other\n"))


def _add(repo: Path) -> None:
    (repo / "specs/new.yaml").write_text(workspace("new"))


def _remove(repo: Path) -> None:
    (repo / "specs/a.yaml").unlink()


def _rename(repo: Path) -> None:
    (repo / "specs/a.yaml").rename(repo / "specs/b.yaml")


def _stage(repo: Path) -> None:
    _change(repo)
    git(repo, "add", "-A")


@pytest.mark.parametrize("edit", [_change, _add, _remove, _rename, _stage])
def test_any_change_makes_it_dirty(repo: Path, edit: Callable[[Path], None]) -> None:
    edit(repo)
    assert load_directory(repo / "specs").origin.dirty


def test_changes_elsewhere_do_not(repo: Path) -> None:
    (repo / "README.md").write_text("x")
    (repo / "specs/notes.txt").write_text("x")
    (repo / "specs/.draft.yaml").write_text("}{")
    assert not load_directory(repo / "specs").origin.dirty


def test_a_directory_that_git_does_not_know_is_dirty(repo: Path) -> None:
    write(repo / "other", {"a.yaml": workspace()})
    assert load_directory(repo / "other").origin.dirty


def test_a_retargeted_link_is_dirty(repo: Path) -> None:
    specs = repo / "specs"
    for name in ("one", "two"):
        (specs / f".{name}").write_text(workspace("linked", f"  image: {name}\n"))
    (specs / "link.yaml").symlink_to(".one")
    commit(repo)
    assert not load_directory(specs).origin.dirty
    (specs / "link.yaml").unlink()
    (specs / "link.yaml").symlink_to(".two")
    assert load_directory(specs).origin.dirty


def test_a_ref_is_read_from_the_commit_and_not_from_the_work_tree(repo: Path) -> None:
    at_commit = load_directory(repo / "specs")
    (repo / "specs/a.yaml").write_text("}{ half a checkout")
    (repo / "specs/new.yaml").write_text("}{")
    loaded = load_ref(repo / "specs", "main")
    assert loaded.digest == at_commit.digest
    assert loaded.documents == at_commit.documents
    assert loaded.workspaces == at_commit.workspaces
    assert (loaded.origin.commit, loaded.origin.ref) == (git(repo, "rev-parse", "main"), "main")
    assert not loaded.origin.dirty


def test_older_commits_tags_and_branches_can_be_read(repo: Path) -> None:
    first = git(repo, "rev-parse", "HEAD")
    git(repo, "tag", "v1")
    git(repo, "tag", "-a", "v1-annotated", "-m", "x")
    _change(repo)
    commit(repo)
    for ref in (first, first[:10], "v1", "v1-annotated", "HEAD~1", "main~1"):
        loaded = load_ref(repo / "specs", ref)
        assert loaded.workspaces["api"].image == "i"
        assert loaded.origin.commit == first
    assert load_ref(repo / "specs", "main").workspaces["api"].image == "other"


def test_a_directory_that_is_gone_can_be_read_at_a_ref(repo: Path) -> None:
    git(repo, "rm", "-rq", "specs")
    assert not (repo / "specs").exists()
    assert set(load_ref(repo / "specs", "HEAD").workspaces) == {"api"}


def test_the_whole_repository_may_be_the_directory(tmp_path: Path) -> None:
    write(tmp_path, {"sub/a.yaml": workspace()})
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path)
    assert load_ref(tmp_path, "main").workspaces["api"].source.file == f"{tmp_path}/sub/a.yaml"
    assert not load_directory(tmp_path).origin.dirty


@pytest.mark.parametrize("ref", ["nope", "main:specs", "HEAD~99", "0" * 40])
def test_a_ref_that_is_not_there_is_told(repo: Path, ref: str) -> None:
    with pytest.raises(CodeHubError, match="there is no commit"):
        load_ref(repo / "specs", ref)


@pytest.mark.parametrize("ref", ["", "--output=/tmp/x", "-h", "a\nb"])
def test_a_ref_that_is_none_is_refused(repo: Path, ref: str) -> None:
    with pytest.raises(CodeHubError, match="is not the name of a git ref"):
        load_ref(repo / "specs", ref)


def test_a_ref_needs_a_repository(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": workspace()})
    with pytest.raises(CodeHubError, match="is not in a git repository"):
        load_ref(tmp_path, "main")


def test_a_directory_that_the_commit_lacks_is_told(repo: Path) -> None:
    write(repo / "later", {"a.yaml": workspace()})
    with pytest.raises(SpecsInvalid) as caught:
        load_ref(repo / "later", "main")
    assert str(caught.value.problems[0]) == f"{repo}/later: there is no such directory at main"


def test_an_empty_directory_at_a_ref_is_no_empty_hub(repo: Path) -> None:
    git(repo, "rm", "-rq", "specs")
    (repo / "specs").mkdir()
    (repo / "specs/README.md").write_text("x")
    commit(repo)
    with pytest.raises(SpecsInvalid) as caught:
        load_ref(repo / "specs", "main")
    assert "declares nothing" in str(caught.value.problems[0])


def test_problems_at_a_ref_have_places(repo: Path) -> None:
    (repo / "specs/a.yaml").write_text(workspace(spec="  image: i\n  prot: 1\n"))
    commit(repo)
    _change(repo)
    with pytest.raises(SpecsInvalid) as caught:
        load_ref(repo / "specs", "main")
    (problem,) = caught.value.problems
    assert str(problem).startswith(f"{repo}/specs/a.yaml:8:3: spec.prot: unknown field")
    assert problem.excerpt == "  prot: 1"


def test_links_at_a_ref_follow_the_same_rules(repo: Path) -> None:
    specs = repo / "specs"
    (specs / "hidden").mkdir()
    (specs / "hidden/.x").write_text(workspace("linked"))
    (specs / "ok.yaml").symlink_to("./hidden/../hidden/.x")
    commit(repo)
    assert set(load_ref(specs, "main").workspaces) == {"api", "linked"}
    (repo / "outside.yaml").write_text(ALICE)
    (specs / "out.yaml").symlink_to("../outside.yaml")
    (specs / "absolute.yaml").symlink_to("/etc/passwd")
    (specs / "circle.yaml").symlink_to("circle.yaml")
    (specs / "gone.yaml").symlink_to("nothing")
    (specs / "hidden/up").symlink_to("..")
    commit(repo)
    with pytest.raises(SpecsInvalid) as caught:
        load_ref(specs, "main")
    assert [str(each).removeprefix(f"{specs}/") for each in caught.value.problems] == [
        "absolute.yaml: the link leaves the spec directory; it was not followed",
        "circle.yaml: the link leads in a circle",
        "gone.yaml: the link leads nowhere",
        "hidden/up: the link leads back to a directory that it lies in",
        "out.yaml: the link leaves the spec directory; it was not followed",
    ]


def test_the_caps_hold_at_a_ref(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repo / "specs/big.yaml").write_text("# " + "x" * (caps.FILE_BYTES + 1))
    commit(repo)
    with pytest.raises(SpecsInvalid) as caught:
        load_ref(repo / "specs", "main")
    assert "too large for a spec file" in str(caught.value.problems[0])
    monkeypatch.setattr(caps, "FILES", 1)
    with pytest.raises(SpecsInvalid) as caught:
        load_ref(repo / "specs", "main")
    assert "more than 1 spec files" in str(caught.value.problems[0])


def test_an_unchanged_blob_is_not_parsed_again(repo: Path) -> None:
    cache = SpecCache()
    load_ref(repo / "specs", "main", cache=cache)
    (repo / "specs/b.yaml").write_text(workspace("b"))
    commit(repo)
    load_ref(repo / "specs", "main", cache=cache)
    assert cache.parsed == 3


def test_the_environment_cannot_lead_git_elsewhere(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    write(other, {"a.yaml": workspace("other")})
    git(other, "init", "-q", "-b", "main")
    commit(other)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    assert set(load_ref(repo / "specs", "main").workspaces) == {"api"}
    assert load_directory(repo / "specs").origin.commit == git(repo, "rev-parse", "main")


def test_no_program_of_the_repository_is_run(repo: Path, tmp_path: Path) -> None:
    """Hostile settings and filters, as a repository unpacked from somewhere may carry them."""
    mark = tmp_path / "ran"
    program = f"touch {mark}; cat"
    for key in (
        "core.fsmonitor",
        "filter.x.clean",
        "filter.x.smudge",
        "core.pager",
        "core.sshCommand",
    ):
        git(repo, "config", key, program)
    (repo / "specs/.gitattributes").write_text("* filter=x\n")
    hook = repo / ".git/hooks/post-index-change"
    hook.write_text(f"#!/bin/sh\n{program}\n")
    hook.chmod(0o755)
    _change(repo)
    assert load_directory(repo / "specs").origin.dirty
    assert load_ref(repo / "specs", "main").workspaces["api"].image == "i"
    assert not mark.exists()
