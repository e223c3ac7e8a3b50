"""What did not change is not parsed again; what did change always is."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from codehub.errors import SpecsInvalid
from codehub.specs.cache import SETTLED_NS, Identity, SpecCache, SpecFile
from codehub.specs.load import load_directory
from tests.unit.spec_world import workspace, write

if TYPE_CHECKING:
    from pathlib import Path


def parses(cache: SpecCache, root: Path) -> int:
    """How many files a load had to parse."""
    before = cache.parsed
    load_directory(root, cache=cache)
    return cache.parsed - before


def test_an_unchanged_directory_is_parsed_once(tmp_path: Path) -> None:
    write(tmp_path, {f"{n}.yaml": workspace(f"w{n}") for n in range(10)})
    cache = SpecCache()
    first = load_directory(tmp_path, cache=cache)
    assert cache.parsed == 11
    assert load_directory(tmp_path, cache=cache) == first
    assert cache.parsed == 11


def test_only_the_changed_file_is_parsed_again(tmp_path: Path) -> None:
    write(tmp_path, {f"{n}.yaml": workspace(f"w{n}") for n in range(10)})
    cache = SpecCache()
    load_directory(tmp_path, cache=cache)
    (tmp_path / "3.yaml").write_text(workspace("w3", "  image: other\n"))
    loaded = load_directory(tmp_path, cache=cache)
    assert cache.parsed == 12
    assert loaded.workspaces["w3"].image == "other"


def test_a_touched_file_is_known_by_its_content(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": workspace()})
    cache = SpecCache()
    load_directory(tmp_path, cache=cache)
    os.utime(tmp_path / "a.yaml", (1, 1))
    assert parses(cache, tmp_path) == 0


def test_a_file_replaced_by_one_of_the_same_size_and_time_is_seen(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": workspace(spec="  image: one\n")})
    os.utime(tmp_path / "a.yaml", (1, 1))
    cache = SpecCache()
    load_directory(tmp_path, cache=cache)
    (tmp_path / "b").write_text(workspace(spec="  image: two\n"))
    os.utime(tmp_path / "b", (1, 1))
    (tmp_path / "b").replace(tmp_path / "a.yaml")
    assert load_directory(tmp_path, cache=cache).workspaces["api"].image == "two"


def test_a_file_written_twice_within_one_tick_is_seen(tmp_path: Path) -> None:
    """The file system's clock is coarse: a young file's stat identity proves nothing."""
    write(tmp_path, {"a.yaml": workspace(spec="  image: one\n")})
    cache = SpecCache()
    load_directory(tmp_path, cache=cache)
    for word in ("two", "six", "ten"):
        (tmp_path / "a.yaml").write_text(workspace(spec=f"  image: {word}\n"))
        assert load_directory(tmp_path, cache=cache).workspaces["api"].image == word


def test_a_settled_file_is_not_even_opened(tmp_path: Path) -> None:
    path = write(tmp_path, {}) / "alice.yaml"
    identity = Identity.of(path.stat())
    cache, read = SpecCache(), SpecFile(str(path), b"")
    cache.remember(read, identity, identity.ctime_ns + SETTLED_NS + 1)
    assert cache.by_identity(str(path), identity) is read
    assert cache.by_identity(str(path), identity._replace(inode=1)) is None


@pytest.mark.parametrize("age", [0, SETTLED_NS, -(10**12)])
def test_a_young_file_is_not_trusted_by_its_stat(tmp_path: Path, age: int) -> None:
    path = write(tmp_path, {}) / "alice.yaml"
    identity = Identity.of(path.stat())
    cache = SpecCache()
    cache.remember(SpecFile(str(path), b""), identity, identity.ctime_ns + age)
    assert cache.by_identity(str(path), identity) is None


def test_a_removed_file_is_forgotten(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": workspace("a"), "b.yaml": workspace("b")})
    cache = SpecCache()
    load_directory(tmp_path, cache=cache)
    (tmp_path / "b.yaml").unlink()
    assert set(load_directory(tmp_path, cache=cache).workspaces) == {"a"}
    assert cache.by_content(f"{tmp_path}/b.yaml", workspace("b").encode()) is None


def test_problems_are_remembered_too(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": workspace(spec="  image: i\n  prot: 1\n")})
    cache = SpecCache()
    with pytest.raises(SpecsInvalid) as first:
        load_directory(tmp_path, cache=cache)
    with pytest.raises(SpecsInvalid) as second:
        load_directory(tmp_path, cache=cache)
    assert first.value.problems == second.value.problems
    assert cache.parsed == 2


def test_references_are_checked_again_although_no_file_is(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": workspace(owner="bob"), "bob.yaml": ""})
    cache = SpecCache()
    with pytest.raises(SpecsInvalid) as caught:
        load_directory(tmp_path, cache=cache)
    assert 'unknown user "bob"' in str(caught.value.problems[0])
    bob = (tmp_path / "alice.yaml").read_text().replace("alice", "bob")
    (tmp_path / "bob.yaml").write_text(bob)
    assert load_directory(tmp_path, cache=cache).workspaces["api"].owner == "bob"


def test_a_cached_load_equals_a_fresh_one(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": workspace("a"), "b.yaml": workspace("b")})
    cache = SpecCache()
    load_directory(tmp_path, cache=cache)
    old = time.time() - 3600
    os.utime(tmp_path / "a.yaml", (old, old))
    (tmp_path / "b.yaml").write_text(workspace("c"))
    assert load_directory(tmp_path, cache=cache) == load_directory(tmp_path)
