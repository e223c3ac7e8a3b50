"""Whatever people's layout is: fmt keeps every comment and the meaning, and settles at once."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import yaml
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from codehub.errors import SpecsInvalid
from codehub.specs.fields import field_order
from tests.unit.formatting import format_text

if TYPE_CHECKING:
    from collections.abc import Mapping

WORDS = st.sampled_from(["alice", "a b", "ünï-çödé", "'#1'", '"x # y"', "yes", "1e3", "~", "日本"])
SCALARS = st.one_of(
    WORDS,
    st.sampled_from(["", "&here text", "{b: 1, a: 2}", "[x, 'y', {c: d}]", "''", '"a\\tb"']),
    st.just("a very long line " * 12 + "end"),
)
BLOCKS = st.sampled_from(["|", "|-", "|+", ">", ">-", ">+"])
MARKER = re.compile(r"# c\d+")
ASIDE = re.compile(r"\s*(#|$)")


@st.composite
def fields(draw: st.DrawFn, order: Mapping[str, object], column: int) -> list[str]:
    """The lines of a block mapping, in any order and layout."""
    names = draw(st.permutations([*order, "unknownField"]))
    lines: list[str] = []
    for name in names[: draw(st.integers(1, 5))]:
        lines += draw(asides(column))
        inner = order.get(name)
        lines += draw(field(name, inner if isinstance(inner, dict) else {}, column))
    return lines + draw(asides(column))


@st.composite
def field(draw: st.DrawFn, name: str, inner: Mapping[str, object], column: int) -> list[str]:
    head = " " * column + f"{name}:"
    deeper = column + draw(st.integers(1, 4))
    form = draw(st.sampled_from(["scalar", "scalar", "block", "list", "items", "nested"]))
    if inner and form in ("nested", "items"):
        return nested(head, draw(fields(inner, deeper + 2)), deeper, as_item=form == "items")
    if form == "block":
        body = [" " * deeper + draw(WORDS).strip("'\""), "", " " * (deeper + 1) + "# no comment"]
        return [f"{head} {draw(BLOCKS)}{draw(comment_behind())}", *body]
    if form == "list":
        at = " " * draw(st.sampled_from([column, deeper]))
        return [
            head + draw(comment_behind()),
            f"{at}- one",
            f"{at}-   'two'",
            *draw(asides(deeper)),
        ]
    return [f"{head} {draw(SCALARS)}{draw(comment_behind())}"]


def nested(head: str, lines: list[str], deeper: int, *, as_item: bool) -> list[str]:
    if as_item:
        first = next(n for n, line in enumerate(lines) if not ASIDE.match(line))
        lines[first] = " " * deeper + "- " + lines[first][deeper + 2 :]
    return [head, *lines]


@st.composite
def comment_behind(draw: st.DrawFn) -> str:
    number = draw(st.integers(0, 40))
    return f"   # c{number}" if number < 20 else ""


@st.composite
def asides(draw: st.DrawFn, column: int) -> list[str]:
    """Blank lines and comments as people leave them between fields, rarely quite straight."""
    made = []
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        shift = draw(st.sampled_from([0, 0, 0, 1, 2, 3]))
        comment = f"# c{draw(st.integers(0, 99))}"
        made.append(draw(st.sampled_from(["", " " * (column + shift) + comment, comment])))
    return made


@st.composite
def spec_texts(draw: st.DrawFn) -> str:
    documents = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["Workspace", "Hub", "TTLPolicy", "Other"]))
        order = {name: inner for name, inner in field_order(kind).items() if name != "kind"}
        lines = draw(fields(order, 0))
        lines.insert(0, f"kind: {kind}")
        documents.append("\n".join([*draw(asides(0)), *lines]))
    text = "\n---\n".join(documents) + draw(st.sampled_from(["\n", "\n", "", "\n\n# the end"]))
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


def read(text: str) -> list[object]:
    """The data as PyYAML itself reads it, which refuses an anchor's second definition."""
    try:
        return list(yaml.safe_load_all(text))
    except yaml.YAMLError:
        reject()


def attempt(text: str) -> tuple[str | None, str]:
    """The formatted text and no message, or none and why not."""
    try:
        return format_text(text), ""
    except SpecsInvalid as error:
        return None, error.problems[0].message


@given(spec_texts())
@settings(max_examples=150)
def test_any_layout_keeps_its_meaning_and_comments_and_settles(text: str) -> None:
    before = read(text)
    made, refusal = attempt(text)
    if made is None:
        assert refusal.startswith(("left as it is: ", "not valid YAML: "))
        return
    assert list(yaml.safe_load_all(made)) == before
    assert Counter(MARKER.findall(made)) == Counter(MARKER.findall(text))
    assert attempt(made) == (made, "")


@given(st.text(alphabet="ab:-#{}[]|>&*'\" \n\r\t?,!%é\u2028\ufeff", max_size=60))
@settings(max_examples=300)
def test_any_text_is_formatted_or_refused_in_words(text: str) -> None:
    made, refusal = attempt(text)

    assert refusal if made is None else attempt(made) == (made, "")
