"""`codehub fmt`: which files it writes, what it says, and when it leaves a file alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codehub.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

IN_ORDER = "apiVersion: codehub.dev/v1\nkind: User\nmetadata: {name: a}\n"
OUT_OF_ORDER = "kind: User # who\napiVersion: codehub.dev/v1\nmetadata: {name: b}\n"
PUT_IN_ORDER = "apiVersion: codehub.dev/v1\nkind: User # who\nmetadata: {name: b}\n"
BROKEN = "kind: [\n"


@pytest.fixture
def specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "specs"
    (directory / "team").mkdir(parents=True)
    (directory / "a.yaml").write_text(IN_ORDER)
    (directory / "team" / "b.yml").write_text(OUT_OF_ORDER)
    return directory


def test_only_files_that_change_are_written(
    specs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (specs / "a.yaml").stat()

    assert run(["fmt"]) == 0

    after = (specs / "a.yaml").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert (specs / "team" / "b.yml").read_text() == PUT_IN_ORDER
    assert capsys.readouterr().out == (
        "formatted specs/team/b.yml\n1 file formatted, 1 already in order.\n"
    )


def test_a_second_run_has_nothing_to_do(specs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["fmt"])
    capsys.readouterr()

    assert run(["fmt", "--check"]) == 0

    assert capsys.readouterr().out == "2 files already in order.\n"


def test_check_lists_what_would_change_and_writes_nothing(
    specs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fmt", "--check"]) == 1

    assert (specs / "team" / "b.yml").read_text() == OUT_OF_ORDER
    assert capsys.readouterr().out == (
        "would format specs/team/b.yml\n1 file would change, 1 already in order.\n"
    )


def test_diff_shows_what_would_change_and_writes_nothing(
    specs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fmt", "--diff"]) == 1

    said = capsys.readouterr()
    assert (specs / "team" / "b.yml").read_text() == OUT_OF_ORDER
    assert said.out == (
        "--- specs/team/b.yml\n+++ specs/team/b.yml\n@@ -1,3 +1,3 @@\n"
        "+apiVersion: codehub.dev/v1\n kind: User # who\n-apiVersion: codehub.dev/v1\n"
        " metadata: {name: b}\n"
    )
    assert said.err == "1 file would change, 1 already in order.\n"


def test_a_missing_final_newline_shows_in_the_diff(
    specs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (specs / "a.yaml").write_text("kind: User")

    assert run(["fmt", "--diff", "specs/a.yaml"]) == 1

    assert "-kind: User\n\\ No newline at end of file\n+kind: User\n" in capsys.readouterr().out


def test_a_broken_file_is_told_and_untouched_while_the_others_are_formatted(
    specs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (specs / "broken.yaml").write_text(BROKEN)

    assert run(["fmt"]) == 1

    said = capsys.readouterr()
    assert (specs / "broken.yaml").read_text() == BROKEN
    assert (specs / "team" / "b.yml").read_text() == PUT_IN_ORDER
    assert "specs/broken.yaml:2:1: not valid YAML" in said.err


def test_a_file_that_cannot_keep_its_comments_is_left_and_told(
    specs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "kind: TTLPolicy\nspec: {archive: 1d, # long\n  standby: 1h}\n"
    (specs / "a.yaml").write_text(text)

    assert run(["fmt", "specs/a.yaml"]) == 1

    assert (specs / "a.yaml").read_text() == text
    assert "specs/a.yaml:2: left as it is: a comment inside {…}" in capsys.readouterr().err


def test_a_file_too_large_for_specs_is_left(
    specs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (specs / "a.yaml").write_text("#" + "x" * (1 << 20) + "\n")

    assert run(["fmt", "--check", "specs/a.yaml"]) == 1

    assert "left as it is: larger than" in capsys.readouterr().err


def test_files_and_directories_can_be_named(specs: Path) -> None:
    assert run(["fmt", "--check", "specs/a.yaml"]) == 0
    assert run(["fmt", "--check", "specs/a.yaml", "specs/team"]) == 1


def test_what_is_not_there_is_a_usage_error(
    specs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fmt", "nowhere"]) == 64

    assert "there is no file or directory nowhere" in capsys.readouterr().err


def test_a_linked_file_is_written_where_it_is_and_stays_a_link(specs: Path) -> None:
    (specs / "real").write_text(OUT_OF_ORDER)
    (specs / "link.yaml").symlink_to("real")

    assert run(["fmt"]) == 0

    assert (specs / "link.yaml").is_symlink()
    assert (specs / "real").read_text() == PUT_IN_ORDER


def test_a_link_that_leaves_the_directory_is_not_followed(
    specs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = specs.parent / "outside.yaml"
    outside.write_text(OUT_OF_ORDER)
    (specs / "link.yaml").symlink_to("../outside.yaml")

    assert run(["fmt"]) == 1

    assert outside.read_text() == OUT_OF_ORDER
    assert "leaves the spec directory" in capsys.readouterr().err
