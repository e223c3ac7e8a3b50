"""Reading YAML: what words mean, and what is refused."""

from __future__ import annotations

import pytest
import yaml

from codehub.specs import caps
from codehub.specs.parse import parse


def value_of(text: str) -> object:
    parsed = parse(f"key: {text}\n".encode())
    assert not parsed.flaws, parsed.flaws
    return parsed.documents[0][0]["key"]


def flaws_of(text: str) -> list[str]:
    return [f"{flaw.line}:{flaw.column}: {flaw.message}" for flaw in parse(text.encode()).flaws]


@pytest.mark.parametrize("word", ["on", "off", "yes", "no", "y", "n", "On", "YES"])
def test_only_true_and_false_are_booleans(word: str) -> None:
    assert value_of(word) == word
    assert value_of("true") is True
    assert value_of("False") is False


@pytest.mark.parametrize(
    "word",
    ["12:30", "010", "0x1f", "0o17", "1_000", "2026-01-01", "1e3", ".inf", ".nan", "+", "-x"],
)
def test_what_looks_like_a_number_of_old_is_text(word: str) -> None:
    assert value_of(word) == word


@pytest.mark.parametrize(
    ("word", "value"),
    [("0", 0), ("8080", 8080), ("-5", -5), ("+5", 5), ("0.5", 0.5), ("-1.5e3", -1500.0)],
)
def test_numbers_are_decimal(word: str, value: float) -> None:
    assert value_of(word) == value
    assert type(value_of(word)) is type(value)


@pytest.mark.parametrize("word", ["", "~", "null", "Null", "NULL"])
def test_nothing_is_null(word: str) -> None:
    assert value_of(word) is None


@pytest.mark.parametrize("text", ["'8080'", '"8080"', "!!str 8080"])
def test_quotes_make_text(text: str) -> None:
    assert value_of(text) == "8080"


def test_a_very_long_number_stays_text() -> None:
    assert value_of("9" * 5000) == "9" * 5000


def test_keys_are_text() -> None:
    assert parse(b"1: a\ntrue: b\non: c\n").documents[0][0] == {"1": "a", "true": "b", "on": "c"}


def test_documents_know_their_line() -> None:
    parsed = parse(b"# a comment\n\na: 1\n---\n# another\nb: 2\n--- {c: 3}\n---\n...\n")
    assert [(data, line) for data, line in parsed.documents] == [
        ({"a": 1}, 3),
        ({"b": 2}, 6),
        ({"c": 3}, 7),
    ]


def test_a_byte_order_mark_and_other_line_ends_are_fine() -> None:
    assert parse("\ufeffa: 1\r\nb: é\r\n".encode()).documents == (({"a": 1, "b": "é"}, 1),)


def test_every_duplicate_key_is_a_flaw() -> None:
    assert flaws_of("a: 1\nb: {c: 1, c: 2}\na: 2\n") == [
        '2:11: the key "c" is given twice',
        '3:1: the key "a" is given twice',
    ]


def test_an_alias_stands_for_its_anchor() -> None:
    parsed = parse(b"a: &x {b: [1, 2]}\nc: *x\n")
    assert parsed.documents[0][0] == {"a": {"b": [1, 2]}, "c": {"b": [1, 2]}}


def test_anchors_end_with_their_document() -> None:
    assert flaws_of("a: &x 1\n---\nb: *x\n") == ['3:4: the alias "x" has no anchor before it']


def test_an_alias_inside_its_own_anchor_is_a_flaw() -> None:
    assert flaws_of("a: &x [*x]\n") == ['1:8: the alias "x" stands inside its own anchor']


def test_many_aliases_are_a_flaw() -> None:
    text = "a: &x 1\nb: [" + ", ".join(["*x"] * (caps.ALIASES + 1)) + "]\n"
    assert flaws_of(text) == [
        f"2:{5 + 4 * caps.ALIASES}: more than 32 aliases: write the values out"
    ]


def test_a_bomb_of_few_aliases_is_counted_as_what_it_stands_for() -> None:
    lines = ["a0: &a0 [" + "x, " * 50 + "]"]
    lines += [f"a{n}: &a{n} [{f'*a{n - 1}, ' * 8}]" for n in range(1, 5)]
    (flaw,) = flaws_of("\n".join(lines))
    assert "more than 100,000 values in one file" in flaw


def test_a_long_list_is_a_flaw() -> None:
    (flaw,) = flaws_of("a: [" + "x," * (caps.NODES + 10) + "]")
    assert "more than 100,000 values in one file" in flaw


@pytest.mark.parametrize("text", ["[" * 5000, "- " * 5000, "a: " + "{b: " * 500])
def test_deep_nesting_is_a_flaw(text: str) -> None:
    parsed = parse(text.encode())
    assert parsed.broken
    assert parsed.flaws[-1].message == "nested deeper than 32 levels"


def test_nesting_within_the_cap_is_fine() -> None:
    depth = caps.NESTING - 1
    assert not parse(("a: " + "[" * depth + "]" * depth).encode()).flaws


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        ("a: !!python/object/apply:os.system [x]", "1:4: tags"),
        ("a: !mine x", "1:4: tags"),
        ("!!set {a, b}", "1:1: tags"),
        ("a: !!int '5'", "1:4: tags"),
        ("<<: {a: 1}", "1:1: merge keys"),
        ("? [a]\n: b", "1:3: a key must be plain text"),
        ('"": b', "1:1: a key is empty"),
        ("just words", "1:1: a document must be a mapping"),
        ("- a", "1:1: a document must be a mapping"),
        ('a: "b\\0"', "1:4: a NUL character"),
        ('"a\\0": b', "1:1: a NUL character"),
    ],
)
def test_what_specs_do_not_use_is_refused(text: str, flaw: str) -> None:
    assert [each[: len(flaw)] for each in flaws_of(text)] == [flaw]


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        ("a:\n\tb: 1", "2:1: not valid YAML: tabs cannot indent; use spaces"),
        ("a: b: c", "1:5: not valid YAML: a ':' where no value can stand"),
        ('a: "b\nc: d\n', "1:4: not valid YAML: a quote is opened here and never closed"),
        ("a: [b\nc: d\n", "2:2: not valid YAML: a ',' or the closing ']' is missing"),
        ("a: {b: 1\nc: d\n", "2:2: not valid YAML: a ',' or the closing '}' is missing"),
        ("a:\n  b: 1\n c: 2\n", "3:2: not valid YAML: a key is expected here"),
        ("a: @b", "1:4: not valid YAML: this character cannot start a value; quote it"),
        ('a: "\\d"', "1:5: not valid YAML: an unknown escape"),
        ("a: \x1b[31m", "1:4: not valid YAML: control characters are not allowed"),
    ],
)
def test_what_is_no_yaml_is_told_in_plain_words(text: str, flaw: str) -> None:
    parsed = parse(text.encode())
    assert parsed.broken
    assert [each[: len(flaw)] for each in flaws_of(text)] == [flaw]


def test_bytes_that_are_no_text_are_found() -> None:
    assert parse(b"a: 1\nb: \xff\n").flaws[0].message == "not text in UTF-8"
    assert (parse(b"a: 1\nb: \xff\n").flaws[0].line, parse(b"a: 1\nb: \xff\n").flaws[0].column) == (
        2,
        4,
    )
    assert parse("a: 1".encode("utf-16")).flaws[0].message == "not text in UTF-8"


def test_nothing_behind_a_nul_is_passed_over() -> None:
    parsed = parse(b"a: 1\n\0b: 2\n")
    assert parsed.documents == ()
    assert parsed.flaws[0].message == "a NUL byte: this is not a text file"
    assert (parsed.flaws[0].line, parsed.flaws[0].column) == (2, 1)


def test_what_was_read_before_a_flaw_is_kept() -> None:
    parsed = parse(b"a: 1\n---\nb: [\n")
    assert parsed.documents == (({"a": 1}, 1),)
    assert parsed.broken


def test_garbage_does_not_fill_the_log() -> None:
    parsed = parse(b"{" + b"a," * 50_000 + b"}")
    assert len(parsed.flaws) == caps.PROBLEMS_PER_FILE + 1


def test_the_fast_parser_is_there() -> None:
    assert yaml.__with_libyaml__
