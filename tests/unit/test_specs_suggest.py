"""Guesses at what was meant."""

from __future__ import annotations

import pytest

from codehub.core.suggest import did_you_mean, nearest

FIELDS = ("desiredState", "description", "image", "owner", "port", "renamedFrom", "ttl")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("desiredSate", "desiredState"),
        ("desired_state", "desiredState"),
        ("DESIREDSTATE", "desiredState"),
        ("imgae", "image"),
        ("prot", "port"),
        ("onwer", "owner"),
        ("tt", "ttl"),
        ("renamed-from", "renamedFrom"),
    ],
)
def test_a_slip_is_seen_through(word: str, meant: str) -> None:
    assert nearest(word, FIELDS) == meant
    assert did_you_mean(word, FIELDS) == f', did you mean "{meant}"?'


@pytest.mark.parametrize("word", ["", "volumes", "privileged", "x" * 10_000, "-"])
def test_nothing_near_gives_no_guess(word: str) -> None:
    assert did_you_mean(word, FIELDS) == ""


def test_the_nearest_wins_and_the_alphabet_breaks_ties() -> None:
    assert nearest("alicia", ["alicja", "alicia2", "alicib"]) == "alicia2"
    assert nearest("bob", []) is None
