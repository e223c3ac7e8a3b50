"""Places of fields, and lines that must not be shown."""

from __future__ import annotations

import pytest

from codehub.model.problem import Fault
from codehub.specs.locate import Layout

TEXT = b"""\
# users
kind: User
spec:
  displayName: Alice
---
kind: Workspace
spec:
  owner: alice
  command: [serve, 8080]
  env:
    A: canary
    B: |
      canary
      more canary
  ttl: {standby: 3h}
  webhooks:
    - url: canary
"""


@pytest.mark.parametrize(
    ("number", "path", "place"),
    [
        (0, ("spec", "displayName"), (4, 16)),
        (1, ("kind",), (6, 7)),
        (1, ("spec", "command", 1), (9, 20)),
        (1, ("spec", "ttl", "standby"), (15, 18)),
        (1, ("spec", "env", "A"), (11, 8)),
    ],
)
def test_a_value_is_found(number: int, path: tuple[str | int, ...], place: tuple[int, int]) -> None:
    assert Layout(TEXT).find(number, Fault(path, "")) == place


def test_a_key_is_found() -> None:
    assert Layout(TEXT).find(1, Fault(("spec", "ttl"), "", at_key=True)) == (15, 3)


def test_what_is_missing_is_placed_where_it_should_stand() -> None:
    assert Layout(TEXT).find(1, Fault(("spec", "image"), "")) == (7, 1)
    assert Layout(TEXT).find(1, Fault(("metadata", "name"), "")) == (6, 1)
    assert Layout(TEXT).find(7, Fault(("metadata", "name"), "")) == (0, 0)


def test_an_alias_leads_to_its_anchor() -> None:
    layout = Layout(b"a: &x\n  b: 1\nc: *x\n")
    assert layout.find(0, Fault(("c",), "")) == (3, 4)
    assert layout.find(0, Fault(("c", "b"), "")) == (2, 6)


def test_lines_are_shown_as_they_stand() -> None:
    assert Layout(TEXT).excerpt(8) == "  owner: alice"
    assert Layout(TEXT).excerpt(15) == "  ttl: {standby: 3h}"
    assert Layout(TEXT).excerpt(0) is None
    assert Layout(TEXT).excerpt(99) is None


def test_no_line_with_a_secret_is_shown() -> None:
    layout = Layout(TEXT)
    shown = [layout.excerpt(line) or "" for line in range(1, 20)]
    assert "canary" not in "".join(shown)


@pytest.mark.parametrize(
    "line",
    [
        "spec: {owner: x, env: {A: canary}, port: y}",
        "spec: {passwordHash: canary}",
        "password: canary",
        "command: [serve, --token=canary]",
        "enviroment: {A: canary}",
        "api_key: canary",
        "url: https://me:canary@example.org",
        "memo: $argon2id$canary",
    ],
)
def test_a_line_that_may_hold_a_secret_is_withheld(line: str) -> None:
    assert Layout(line.encode()).excerpt(1) is None


BROKEN = [
    ("spec:\n  env:\n    A: b\n   B: canary\n", 4),
    ("spec:\n  env:\n    A: b\n\tB: canary\n", 4),
    ("spec:\n  env: {A: b,\nB: canary: x}\n", 3),
    ('spec:\n  env:\n    A: "canary\n', 3),
    ("spec:\n  env:\n  - name: A\n    value: b: canary\n", 4),
    ("spec:\n  passwordHash: a: canary\n", 2),
    ("spec: {owner: a, env: {A: canary\x1b}}\n", 1),
]


@pytest.mark.parametrize(("text", "line"), BROKEN)
def test_where_a_file_breaks_a_secret_is_withheld_too(text: str, line: int) -> None:
    assert Layout(text.encode()).excerpt(line, where_it_broke=True) is None


def test_where_a_file_breaks_an_ordinary_line_is_shown() -> None:
    text = b"spec:\n  env:\n    A: b\n  description: a: b\n"
    assert Layout(text).excerpt(4, where_it_broke=True) == "  description: a: b"


def test_an_excerpt_is_short_and_harmless() -> None:
    layout = Layout(("a: " + "x" * 5000 + "\nb: \u202e\u200b\n").encode())
    assert len(layout.excerpt(1) or "") == 160
    assert layout.excerpt(2) == "b: \ufffd\ufffd"
