"""A problem shows its line, and the caret stands below what is wrong."""

from __future__ import annotations

from codehub.model.problem import Place, Problem
from codehub.render.problems_text import WIDTH, problem_text, problems_text


def caret_lines(excerpt: str, column: int) -> tuple[str, str]:
    shown = problem_text(Problem(Place("a.yaml", 12, column), "spec.ttl", "is wrong", excerpt))
    head, line, caret = shown.splitlines()
    assert head == f"a.yaml:12:{column}: spec.ttl: is wrong"
    return line, caret


def test_the_caret_stands_below_the_column() -> None:
    line, caret = caret_lines("  ttl: x", 8)

    assert line == "   12 |   ttl: x"
    assert caret == "      |        ^"


def test_wide_characters_take_two_columns() -> None:
    line, caret = caret_lines("日本: é́x", 7)

    assert line.endswith("| 日本: é́x")
    assert caret == "      |        ^"


def test_of_a_long_line_the_part_around_the_caret_is_shown() -> None:
    line, caret = caret_lines("a" * 300 + "!" + "b" * 300, 301)

    assert line[caret.index("^")] == "!"
    assert line.count("…") == 2
    assert len(line) <= WIDTH + 10


def test_a_column_beyond_the_line_points_behind_it() -> None:
    line, caret = caret_lines("ttl:", 5)

    assert caret.index("^") == len(line)


def test_nothing_in_a_file_can_drive_the_terminal() -> None:
    problem = Problem(Place("a\x1b[2J.yaml", 1, 1), "f\u202e", "m\x07", "x\x1b]0;y\ty")

    shown = problem_text(problem)

    assert shown.replace("\n", "").isprintable()


def test_a_line_that_is_withheld_is_not_shown() -> None:
    assert problem_text(Problem(Place("a", 3, 2), "", "wrong")) == "a:3:2: wrong\n"


def test_problems_come_by_place_and_are_counted() -> None:
    problems = [
        Problem(Place("b.yaml", 1, 1), "", "third"),
        Problem(Place("a.yaml", 9, 1), "", "second"),
        Problem(Place("a.yaml", 9, 1), "", "second", "line"),
        Problem(Place("a.yaml", 2, 1), "", "first"),
    ]

    shown = problems_text(problems)

    assert shown.startswith("a.yaml:2:1: first\na.yaml:9:1: second\n")
    assert shown.endswith("b.yaml:1:1: third\n\n4 problems in 2 files.\n")


def test_a_problem_of_the_whole_directory_counts_no_file_and_gives_the_hint() -> None:
    shown = problems_text([Problem(Place("specs"), "", "there is no such directory")], "look again")

    assert shown == "specs: there is no such directory\n\n1 problem.\n  look again\n"
