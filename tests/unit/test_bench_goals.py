"""A benchmark that misses a goal says so, and ends with 1."""

from __future__ import annotations

import pytest

from tests.bench.goals import Goals


def finished(goals: Goals) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        goals.finish()
    return ended.value.code


def test_all_goals_reached(capsys: pytest.CaptureFixture[str]) -> None:
    goals = Goals()
    goals.at_most("a pass", 1.0, 1, " s")
    goals.at_least("ratio", 0.8, 0.8)
    goals.exactly("rows written", 0, 0)
    assert finished(goals) == 0
    assert "reached  a pass: 1 s, goal at most 1 s\n" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["at_most", "at_least", "exactly"])
def test_a_goal_that_is_missed(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    goals = Goals()
    getattr(goals, kind)("ratio", *((0.79, 0.8) if kind == "at_least" else (0.81, 0.8)))
    goals.exactly("rows written", 0, 0)
    assert finished(goals) == 1
    assert "MISSED   ratio: " in capsys.readouterr().out
